"""One session of `efc run`, `bench` or `sweep`: it plans runs, computes what is missing, and collects the results.

It is handed sinks for what people and loggers want to know; it prints nothing and draws nothing itself.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import FrameType

import torch

from efc.data import Dataset
from efc.data.catalogue import Progress as DataProgress
from efc.errors import EFCError, choose
from efc.runs.checkpoint import Checkpoints
from efc.runs.config import RunConfig
from efc.runs.engines import Engine, InlineEngine, Listener, Outcome, ProcessEngine, Surroundings, Tell
from efc.runs.identity import Run, package_code
from efc.runs.plan import Pack, Place, check_size, expand, interrupted, make_packs, place_of
from efc.runs.results import Failure, ResultRow, Results, RunResult
from efc.runs.store import ResultError, Store
from efc.runs.worker import dataset_of, prepare

ENGINES = ("local", "ray")
POLL = 0.2
MOST = 1024
"""Processes, or runs of a pack."""


@dataclass(frozen=True)
class Means:
    """With what a session computes."""

    engine: str = "local"
    workers: int | None = None
    """Processes; None: one."""
    ray_address: str | None = None
    checkpoint_minutes: float = 5.0
    at_most: int | None = None
    """Runs in a pack at most; None: as many as memory holds."""

    def __post_init__(self) -> None:
        choose("--engine", self.engine, ENGINES)
        for name, value in (("--workers", self.workers), ("--pack", self.at_most)):
            if value is not None and not 1 <= value <= MOST:
                bound = "at least 1" if value < 1 else f"at most {MOST:,}"
                raise EFCError(f"{name}: must be {bound}, got {value}")
        if not self.checkpoint_minutes > 0:
            raise EFCError(f"--checkpoint-minutes: must be above 0, got {self.checkpoint_minutes:g}")


@dataclass(frozen=True)
class Sinks:
    """Whom a session tells what. By default nobody."""

    tell: Tell = lambda text: None
    """A sentence for a person."""
    transfers: DataProgress | None = None
    """How downloads and encodings go."""
    progress: Callable[[Sequence[Pack]], AbstractContextManager[Listener | None]] = lambda packs: nullcontext()
    """Opened for the packs that are about to be trained; what it gives is told of every epoch."""
    stored: Callable[[Run, RunResult], None] = lambda run, result: None
    """Told of every run whose result is there, by whomever and whenever it was computed; maybe more than once."""
    forgotten: Callable[[Sequence[str]], None] = lambda ids: None
    """Told of runs that will be computed again."""
    saving: Callable[[], None] = lambda: None
    """Told, after a signal, that a checkpoint is being written: worth waiting for."""


class Session:
    """Plans, computes and collects: call :meth:`plan`, then :meth:`compute`, then :meth:`document`; and again.

    Args:
        folder: The store of results and checkpoints; None: results are kept in memory alone.
        means: With what to compute.
        sinks: Whom to tell what.

    Attributes:
        rows: The runs of every row asked for, one per seed.
        packs: What is left to compute, grouped into trainings.
        described: The streams, for a person.
        results: What is there, by run id.
        failures: Packs that failed, and why.
        stopped: Whether the computation was interrupted.
    """

    def __init__(self, folder: Path | None = None, means: Means | None = None, sinks: Sinks | None = None) -> None:
        self.means, self.sinks = means or Means(), sinks or Sinks()
        self.store = None if folder is None else Store(folder, self.sinks.tell)
        self.said: list[str] = []
        self.checksums: dict[tuple[Place, str, str], str] = {}
        self._begin()

    def _begin(self) -> None:
        self.rows: list[list[Run]] = []
        self.packs: list[Pack] = []
        self.described: list[str] = []
        self.results: dict[str, RunResult] = {}
        self.failures: list[tuple[Pack, str]] = []
        self.stopped = False

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        if self.store is not None:
            self.store.close()

    @property
    def runs(self) -> list[Run]:
        """All runs asked for, each once."""
        return list({run.id: run for row in self.rows for run in row}.values())

    def tell(self, text: str) -> None:
        """Say something to a person."""
        self.sinks.tell(text)

    # -- plan --------------------------------------------------------------------------------------------------------

    def plan(self, configs: Sequence[RunConfig], seeds: Sequence[int] | None = None, build_all: bool = True) -> None:
        """What is there and what has to be computed; fetches and encodes data first.

        Every learner is built once: a mistake in the last row must not cost the first hours. Where nothing is going to
        be computed (``build_all`` false) it is one for each configuration.
        """
        self._begin()
        unlike: list[Run] = []
        for config in configs:
            place = place_of(config)
            rows = expand(config, self._checksum(config, place), seeds)
            self.rows += rows
            runs = {run.id: run for row in rows for run in row}
            known = self._finished(list(runs))
            missing = [run for key, run in runs.items() if key not in known]
            unlike += missing
            if not missing:
                continue
            shape = self._data(config, place).x_train.shape
            for run in {run.settings.head: run for run in missing}.values():
                check_size(run.settings, place.device, (shape[0], shape[1]))
            checkpoints = None if self.store is None else self.store.checkpoints
            packs = make_packs(missing, place, checkpoints, self.means.at_most, (shape[0], shape[1]))
            self.packs += packs
            self.described += self._describe(packs if build_all else packs[:1])
        self._clear_checkpoints()
        for text in self._outdated(unlike):
            if text not in self.said:  # a plan may be made twice
                self.said.append(text)
                self.tell(text)

    def _describe(self, packs: Sequence[Pack]) -> list[str]:
        """The streams, one for each scenario. A learner that cannot be built for another reason than the user's
        mistake is left to its turn, which tells of it and lets the others go on."""
        described = {}
        for pack in packs:
            with suppress_bugs():
                described[pack.settings.scenario] = prepare(Pack(pack.runs[:1], pack.place)).describe()
        return list(described.values())

    def _outdated(self, missing: Sequence[Run]) -> list[str]:
        """What there is of the same settings, and in what it differs."""
        reasons: dict[tuple[str, str], int] = {}
        for run, old in [] if self.store is None else self.store.kin(missing):
            data = json.loads(old.settings).get("data")
            what = f"the code of {run.settings.method} has" if old.code != run.settings.code else "the data have"
            if old.code == run.settings.code and data == run.settings.data:
                continue
            key = (run.settings.method, f"{what} changed since")
            reasons[key] = reasons.get(key, 0) + 1
        return [
            f"{n} stored run{'s' * (n > 1)} of {method} no longer count{'s' * (n == 1)}: {why}"
            for (method, why), n in reasons.items()
        ]

    def _data(self, config: RunConfig, place: Place) -> Dataset:
        return dataset_of(place, config.dataset, config.encoder, self.sinks.transfers)

    def _checksum(self, config: RunConfig, place: Place) -> str:
        """The data's checksum, worked out once a session. That of the embedded digits is kept: they need no reading."""
        key = (place, config.dataset, config.encoder)
        if key not in self.checksums:

            def work_out() -> str:
                return self._data(config, place).digest()

            if self.store is None or config.dataset != "digits":
                self.checksums[key] = work_out()
            else:
                name = f"checksum of digits, scikit-learn {version('scikit-learn')}"
                self.checksums[key] = self.store.note(name, work_out)
        return self.checksums[key]

    def _clear_checkpoints(self) -> None:
        """Remove those that nobody can use: of runs that are stored, if only some of them (by a process that was killed
        just then), and of code that has changed since, unless someone is at work with it."""
        if self.store is None:
            return
        present, planned = package_code(), {run.settings.method: run.settings.code for run in self.runs}
        for pack in interrupted(self.store.checkpoints):
            stored = len(self.store.finished(pack.runs)) > 0
            old = pack.code != planned.get(pack.method, pack.code) or not f"{pack.code}-".startswith(f"{present}-")
            if (stored or old) and not self.store.claimed(pack.runs):
                Checkpoints(pack.folder).remove()

    def _finished(self, ids: Sequence[str]) -> dict[str, RunResult]:
        return {} if self.store is None else self.store.finished(ids)

    def forget(self) -> None:
        """Drop what is stored and logged of the plan, so that it is computed again."""
        ids = [run.id for run in self.runs]
        if self.store is not None:
            self.store.forget(ids)
        self.sinks.forgotten(ids)

    # -- compute -----------------------------------------------------------------------------------------------------

    def compute(self) -> None:
        """Train the packs that nobody else on the same store is training; wait for those that someone is."""
        self.results = self._finished([run.id for run in self.runs])
        if self.packs:
            with ExitStack() as stack:
                listener = stack.enter_context(self.sinks.progress(self.packs))
                checkpoints = None if self.store is None else self.store.checkpoints
                every = 60 * self.means.checkpoint_minutes
                surroundings = Surroundings(checkpoints, every, listener, self.sinks.tell, self.sinks.saving)
                stop = stack.enter_context(self._interruptible())
                engine = stack.enter_context(make_engine(self.means, surroundings, self.packs))
                stop.append(engine.stop)
                if self.stopped:  # while the engine was started
                    engine.stop()
                self._train(engine)
        for run in self.runs:
            if run.id in self.results:
                self.sinks.stored(run, self.results[run.id])

    def _train(self, engine: Engine) -> None:
        waiting = deque(pack for pack in self.packs if not all(run.id in self.results for run in pack.runs))
        running: dict[str, Pack] = {}
        while (waiting and not self.stopped) or (running and not engine.late):
            self._start(waiting, running, engine)
            for outcome in engine.wait(POLL):
                running.pop(outcome.pack.id, None)
                waiting.extendleft(reversed(self._take(outcome)))

    def _start(self, waiting: deque[Pack], running: dict[str, Pack], engine: Engine) -> None:
        """Fill the engine's free slots with packs nobody else works on; collect what others have finished."""
        for _ in range(len(waiting)):
            if len(running) >= engine.slots or self.stopped:
                return
            pack = waiting.popleft()
            ids = [run.id for run in pack.runs]
            if self.store is not None and not self.store.claim(ids):
                found = self.store.finished(ids)
                self.results |= found
                if len(found) == len(ids):
                    continue  # someone else has computed it meanwhile
                if found:
                    # Part of it is there: what remains is a pack of its own.
                    pack = Pack(tuple(run for run in pack.runs if run.id not in found), pack.place)
                waiting.append(pack)
                continue
            running[pack.id] = pack
            engine.start(pack)
        if waiting and not running:
            time.sleep(POLL)  # all that is left is in other hands

    def _take(self, outcome: Outcome) -> list[Pack]:
        """Store what a pack has brought; returns packs to try again."""
        pack = outcome.pack
        if outcome.kind == "done" and outcome.results is not None:
            pairs = list(zip(pack.runs, outcome.results, strict=True))
            try:
                self._keep(pack, pairs)
            except ResultError as problem:  # a method of one's own can bring anything
                outcome = Outcome(pack, "failed", message=str(problem))
            else:
                return []
        if self.store is not None:
            self.store.release(run.id for run in pack.runs)
        if outcome.kind == "too_big" and len(pack.runs) > 1:
            half = len(pack.runs) // 2
            return [Pack(pack.runs[:half], pack.place), Pack(pack.runs[half:], pack.place)]
        if outcome.kind != "paused":
            self.failures.append((pack, outcome.message))
            if self.store is not None:
                self.store.fail(pack.runs, outcome.message)
        return []

    def _keep(self, pack: Pack, pairs: Sequence[tuple[Run, RunResult]]) -> None:
        if self.store is not None:
            self.store.save(pairs)
            Checkpoints(self.store.checkpoints / pack.id).remove()
        self.results |= {run.id: result for run, result in pairs}
        for run, result in pairs:
            self.sinks.stored(run, result)

    @contextmanager
    def _interruptible(self) -> Iterator[list[Callable[[], None]]]:
        """Ctrl-C (or a polite kill) once: checkpoint and stop; twice: stop now. Yields a list of whom to tell so."""
        told: list[Callable[[], None]] = []
        before: dict[signal.Signals, signal._HANDLER] = {}

        def ask(number: int, frame: FrameType | None) -> None:
            if self.stopped:
                earlier = before.get(signal.Signals(number))
                if callable(earlier):
                    earlier(number, frame)
                raise KeyboardInterrupt
            self.stopped = True
            for tell in told:
                tell()

        try:
            before |= {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        except ValueError:  # not in the main thread: signals are somebody else's business
            yield told
            return
        try:
            yield told
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # -- collect -----------------------------------------------------------------------------------------------------

    def checkpointed(self) -> int:
        """How many of the runs asked for have no result, but a checkpoint to go on from."""
        kept = [] if self.store is None else interrupted(self.store.checkpoints)
        left = {run.id for run in self.runs} - self.results.keys()
        return len(left & {key for pack in kept for key in pack.runs})

    @property
    def failed(self) -> dict[str, str]:
        """The runs that ended in an error: why, in one sentence, by id."""
        return {run.id: _sentence(message) for pack, message in self.failures for run in pack.runs}

    def complete(self, row: Sequence[Run]) -> bool:
        """Whether all runs of a row are there."""
        return all(run.id in self.results for run in row)

    def row(self, runs: Sequence[Run]) -> ResultRow:
        """One row, of those of its runs that did not fail."""
        there = [run for run in runs if run.id in self.results]
        settings = [run.settings.to_json() for run in there]
        failed = [run.seed for run in runs if run.id not in self.results]
        return ResultRow.of(settings, [run.id for run in there], [self.results[run.id] for run in there], failed)

    def document(self, command: str = "") -> Results:
        """The rows all of whose runs are there or have failed, and the failures."""
        failed = self.failed
        ended = [runs for runs in self.rows if all(run.id in self.results or run.id in failed for run in runs)]
        rows = [self.row(runs) for runs in ended if any(run.id in self.results for run in runs)]
        return Results(rows, command, [_failure(run, failed[run.id]) for run in self.runs if run.id in failed])


def _failure(run: Run, message: str) -> Failure:
    s = run.settings
    return Failure(run.id, s.dataset, s.scenario, s.method, s.head, s.seed, message)


def _sentence(message: str) -> str:
    """The first line of what an engine says of a failure; what follows is where in the code it was."""
    return (message.splitlines() or [""])[0].strip() or "it ended without a word"


@contextmanager
def suppress_bugs() -> Iterator[None]:
    """Let a user's mistake through, and nothing else that is an error."""
    try:
        yield
    except EFCError:
        raise
    except Exception:
        return


def make_engine(means: Means, surroundings: Surroundings, packs: Sequence[Pack]) -> Engine:
    """The engine asked for."""
    if means.engine == "ray":
        from efc.runs.ray_engine import RayEngine  # optional: it says what to install

        return RayEngine(surroundings, means.ray_address, packs[0].place.device)
    gpus = torch.cuda.device_count() if packs[0].place.device != "cpu" else 0
    workers = min(means.workers or 1, len(packs))
    return InlineEngine(surroundings) if workers == 1 else ProcessEngine(surroundings, workers, gpus)


def usual_workers(device: str) -> int:
    """One process per GPU, or per core."""
    gpus = torch.cuda.device_count() if device != "cpu" else 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return gpus or cores
