"""Where packs are trained: in this process, or in worker processes that are pinned to cores or GPUs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event
from pathlib import Path

import torch

from efc.errors import EFCError
from efc.runs.plan import Pack
from efc.runs.results import RunResult
from efc.runs.worker import train_pack

Listener = Callable[[Pack, int, int, int], None]
"""Called after every epoch of a pack with (task, epoch, epochs), counted from 1."""
Tell = Callable[[str], None]
SIGNALS = (signal.SIGINT, signal.SIGTERM)
ATTEMPTS = 3
"""How often a pack is begun again after its worker has died."""


@dataclass(frozen=True)
class Outcome:
    """How the training of a pack ended: ``done`` with results, ``paused``, ``too_big`` for memory, or ``failed``."""

    pack: Pack
    kind: str
    results: list[RunResult] | None = None
    message: str = ""


@dataclass(frozen=True)
class Surroundings:
    """What an engine is told: where checkpoints lie, how often at least, whom to tell what."""

    checkpoints: Path | None = None
    every: float = 300.0
    listener: Listener | None = None
    tell: Tell = lambda text: None
    saving: Callable[[], None] = lambda: None
    """Told when, after :meth:`Engine.stop`, a pack has begun to write its checkpoint."""


class Engine(ABC):
    """Trains packs, up to ``slots`` at a time."""

    slots: int = 1
    grace: float = 1.5
    """Seconds that packs have, once they are told to stop, to begin with their checkpoint."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.told_to_stop: float | None = None

    @property
    def late(self) -> bool:
        """Whether those who were told to stop have had time enough: what they are at is not worth waiting for."""
        return self.told_to_stop is not None and time.monotonic() - self.told_to_stop > self.grace

    @abstractmethod
    def start(self, pack: Pack) -> None:
        """Begin with a pack, or go on with it from its checkpoint."""

    @abstractmethod
    def wait(self, timeout: float) -> list[Outcome]:
        """What has ended, after at most ``timeout`` seconds."""

    @abstractmethod
    def stop(self) -> None:
        """Ask everyone to checkpoint and stop at the next batch."""

    def close(self) -> None:
        """Let go of everything."""
        return None

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class InlineEngine(Engine):
    """One pack after the other, in this process."""

    def __init__(self, surroundings: Surroundings) -> None:
        super().__init__(surroundings)
        self.stopped = False
        self.ended: list[Outcome] = []

    def start(self, pack: Pack) -> None:
        s = self.surroundings
        heard = None if s.listener is None else partial(s.listener, pack)
        self.ended.append(attempt(pack, s.checkpoints, self._stop, heard, s.tell, s.every))

    def _stop(self) -> bool:
        """Asked between two batches; after a yes, a checkpoint is written."""
        if self.stopped:
            self.surroundings.saving()
        return self.stopped

    def wait(self, timeout: float) -> list[Outcome]:
        ended, self.ended = self.ended, []
        return ended

    def stop(self) -> None:
        self.stopped = True


def attempt(
    pack: Pack,
    checkpoints: Path | None,
    stop: Callable[[], bool],
    progress: Callable[[int, int, int], None] | None,
    tell: Tell,
    every: float,
) -> Outcome:
    """Train a pack; whatever goes wrong becomes an outcome, so that the others go on."""
    try:
        found = train_pack(pack, checkpoints, stop, progress, tell, every)
    except (torch.OutOfMemoryError, MemoryError) as problem:
        return Outcome(pack, "too_big", message=str(problem))
    except EFCError as mistake:
        return Outcome(pack, "failed", message=str(mistake))
    except Exception as problem:  # a bug in someone's method must not cost the other methods' hours
        if "not enough memory" in str(problem) or "allocate memory" in str(problem):
            return Outcome(pack, "too_big", message=str(problem))
        told = traceback.format_exc(limit=-3)
        return Outcome(pack, "failed", message=f"{type(problem).__name__}: {problem}\n{told}")
    return Outcome(pack, "paused") if found is None else Outcome(pack, "done", found)


class ProcessEngine(Engine):
    """Worker processes, each pinned to its share of the cores, or to one GPU."""

    def __init__(self, surroundings: Surroundings, workers: int, gpus: int = 0) -> None:
        super().__init__(surroundings)
        self.slots = workers
        self.context = multiprocessing.get_context("spawn")
        self.halt = self.context.Event()
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        shares = [cores[k::workers] for k in range(workers)]
        self.pins = [(shares[k], k % gpus if gpus else None) for k in range(workers)]
        self.workers: dict[Connection, tuple[SpawnProcess, int]] = {}
        self.busy: dict[Connection, Pack] = {}
        self.attempts: dict[str, int] = {}
        self.saving: set[str] = set()
        """Packs that write their last checkpoint."""
        try:
            for pin in range(workers):
                self._hire(pin)
        except BaseException:
            self.close()
            raise

    def _hire(self, pin: int) -> Connection:
        ours, theirs = self.context.Pipe()
        given = (theirs, self.halt, self.surroundings.checkpoints, self.surroundings.every, *self.pins[pin])
        process = self.context.Process(target=_serve, args=given, daemon=True)
        with _signals_held_back():
            process.start()
        theirs.close()
        self.workers[ours] = (process, pin)
        return ours

    def start(self, pack: Pack) -> None:
        free = next(connection for connection in self.workers if connection not in self.busy)
        try:
            free.send(pack)
        except OSError:  # it died while it had nothing to do
            _, pin = self.workers.pop(free)
            free = self._hire(pin)
            free.send(pack)
        self.busy[free] = pack

    def wait(self, timeout: float) -> list[Outcome]:
        ended = []
        for connection in wait(list(self.busy), timeout):
            assert isinstance(connection, Connection)
            pack = self.busy[connection]
            try:
                kind, content = connection.recv()
            except (EOFError, OSError):
                ended += self._replace(connection, pack)
                continue
            if kind == "progress" and self.surroundings.listener is not None:
                self.surroundings.listener(pack, *content)
            elif kind == "tell":
                self.surroundings.tell(content)
            elif kind == "saving":
                self.saving.add(pack.id)
                self.surroundings.saving()
            elif kind == "outcome":
                del self.busy[connection]
                ended.append(content)
        return ended

    @property
    def late(self) -> bool:
        """A checkpoint that is being written is waited for."""
        return super().late and not any(pack.id in self.saving for pack in self.busy.values())

    def _replace(self, connection: Connection, pack: Pack) -> list[Outcome]:
        """A worker died: another takes its place and its pack, which goes on from its checkpoint."""
        process, pin = self.workers.pop(connection)
        del self.busy[connection]
        process.join(1)
        if self.halt.is_set():
            return [Outcome(pack, "paused")]
        self.attempts[pack.id] = self.attempts.get(pack.id, 0) + 1
        fresh = self._hire(pin)
        told = f"the worker of {pack.label} died (exit code {process.exitcode})"
        if self.attempts[pack.id] >= ATTEMPTS:
            return [Outcome(pack, "failed", message=f"{told} {ATTEMPTS} times")]
        self.surroundings.tell(f"{told}; another goes on from its last checkpoint")
        self.busy[fresh] = pack
        fresh.send(pack)
        return []

    def stop(self) -> None:
        self.told_to_stop = time.monotonic()
        self.halt.set()

    def close(self) -> None:
        """Those who wait for work end when nobody is at the other end; the others are ended."""
        processes = [process for process, _ in self.workers.values()]
        for connection in self.workers:
            connection.close()
        until = time.monotonic() + 0.5
        for process in processes:
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.kill()


def _serve(
    connection: Connection, halt: Event, checkpoints: Path | None, every: float, cores: list[int], gpu: int | None
) -> None:
    """A worker's life: take a pack, train it, say so; until nobody is at the other end."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # the parent hears it, and tells us
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    _die_with_parent()
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
        torch.set_num_threads(len(cores))
    if gpu is not None:
        torch.cuda.set_device(gpu)

    def stop() -> bool:
        if halt.is_set():
            connection.send(("saving", None))
        return halt.is_set()

    while True:
        try:
            pack = connection.recv()
            if halt.is_set():
                connection.send(("outcome", Outcome(pack, "paused")))
                continue
            tell = lambda text: connection.send(("tell", text))  # noqa: E731
            heard = lambda *at: connection.send(("progress", at))  # noqa: E731
            connection.send(("outcome", attempt(pack, checkpoints, stop, heard, tell, every)))
        except (EOFError, OSError):
            return


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """A process that is started meanwhile does not hear Ctrl-C before it is ready for it; this one hears it after."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _die_with_parent() -> None:
    """A parent that was killed cannot say goodbye; nobody shall go on computing for it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        sentinel = parent.sentinel
        threading.Thread(target=lambda: (wait([sentinel]), os._exit(1)), daemon=True).start()
