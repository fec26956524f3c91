"""Where packs are trained: in this process, or in worker processes that are pinned to cores or GPUs."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
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


class Engine(ABC):
    """Trains packs, up to ``slots`` at a time."""

    slots: int = 1

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings

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
        self.ended.append(attempt(pack, s.checkpoints, lambda: self.stopped, heard, s.tell, s.every))

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
        if "not enough memory" in str(problem):
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
        for pin in range(workers):
            self._hire(pin)

    def _hire(self, pin: int) -> Connection:
        ours, theirs = self.context.Pipe()
        given = (theirs, self.halt, self.surroundings.checkpoints, self.surroundings.every, *self.pins[pin])
        process = self.context.Process(target=_serve, args=given, daemon=True)
        process.start()
        theirs.close()
        self.workers[ours] = (process, pin)
        return ours

    def start(self, pack: Pack) -> None:
        free = next(connection for connection in self.workers if connection not in self.busy)
        self.busy[free] = pack
        free.send(pack)

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
            elif kind == "outcome":
                del self.busy[connection]
                ended.append(content)
        return ended

    def _replace(self, connection: Connection, pack: Pack) -> list[Outcome]:
        """A worker died: another takes its place and its pack, which goes on from its checkpoint."""
        process, pin = self.workers.pop(connection)
        del self.busy[connection]
        process.join(1)
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
        self.halt.set()

    def close(self) -> None:
        for connection, (process, _) in self.workers.items():
            connection.close()
            process.join(0.5)
            if process.is_alive():
                process.kill()


def _serve(
    connection: Connection, halt: Event, checkpoints: Path | None, every: float, cores: list[int], gpu: int | None
) -> None:
    """A worker's life: take a pack, train it, say so; until nobody is at the other end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it, and tells us
    _die_with_parent()
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
        torch.set_num_threads(len(cores))
    if gpu is not None:
        torch.cuda.set_device(gpu)
    while True:
        try:
            pack = connection.recv()
            tell = lambda text: connection.send(("tell", text))  # noqa: E731
            heard = lambda *at: connection.send(("progress", at))  # noqa: E731
            connection.send(("outcome", attempt(pack, checkpoints, halt.is_set, heard, tell, every)))
        except (EOFError, OSError):
            return


def _die_with_parent() -> None:
    """A parent that was killed cannot say goodbye; nobody shall go on computing for it."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        sentinel = parent.sentinel
        threading.Thread(target=lambda: (wait([sentinel]), os._exit(1)), daemon=True).start()
