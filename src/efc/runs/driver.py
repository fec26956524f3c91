"""Computing runs: what is stored is taken from the store, the rest is shared out among engines and other processes."""

from __future__ import annotations

import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from efc.runs.checkpoint import Checkpoints
from efc.runs.engines import Engine, Outcome
from efc.runs.identity import Run
from efc.runs.plan import Pack
from efc.runs.store import Store

POLL = 0.2
Stored = Callable[[Run, dict[str, Any]], None]
"""Told of every run that this process has computed and stored."""


@dataclass
class Report:
    """What came of it: results by run id, failures as (pack, message), and whether it was stopped before the end."""

    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    failures: list[tuple[Pack, str]] = field(default_factory=list)
    stopped: bool = False


def compute(
    runs: Sequence[Run], packs: Sequence[Pack], store: Store | None, engine: Engine, stored: Stored | None = None
) -> Report:
    """Train the packs that are not being trained by someone else on the same store; wait for those that are."""
    report = Report()
    if store is not None:
        report.results = store.finished([run.id for run in runs])
    waiting = deque(pack for pack in packs if not all(run.id in report.results for run in pack.runs))
    running: dict[str, Pack] = {}
    with _interruptible(engine, report):
        while (waiting and not report.stopped) or running:
            _start(waiting, running, store, engine, report)
            for outcome in engine.wait(POLL):
                running.pop(outcome.pack.id, None)
                waiting.extendleft(reversed(_take(outcome, store, report, stored)))
    return report


def _start(waiting: deque[Pack], running: dict[str, Pack], store: Store | None, engine: Engine, report: Report) -> None:
    """Fill the engine's free slots with packs nobody else works on; collect what others have finished."""
    for _ in range(len(waiting)):
        if len(running) >= engine.slots or report.stopped:
            return
        pack = waiting.popleft()
        ids = [run.id for run in pack.runs]
        if store is not None and not store.claim(ids):
            found = store.finished(ids)
            report.results |= found
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


def _take(outcome: Outcome, store: Store | None, report: Report, stored: Stored | None) -> list[Pack]:
    """Store what a pack has brought; returns packs to try again."""
    pack = outcome.pack
    if outcome.kind == "done" and outcome.results is not None:
        pairs = list(zip(pack.runs, outcome.results, strict=True))
        if store is not None:
            store.save(pairs)
            Checkpoints(store.checkpoints / pack.id).remove()
        report.results |= {run.id: result for run, result in pairs}
        if stored is not None:
            for run, result in pairs:
                stored(run, result)
        return []
    if store is not None:
        store.release(run.id for run in pack.runs)
    if outcome.kind == "too_big" and len(pack.runs) > 1:
        half = len(pack.runs) // 2
        return [Pack(pack.runs[:half], pack.place), Pack(pack.runs[half:], pack.place)]
    if outcome.kind != "paused":
        report.failures.append((pack, outcome.message))
    return []


@contextmanager
def _interruptible(engine: Engine, report: Report) -> Iterator[None]:
    """Ctrl-C (or a polite kill) once: checkpoint and stop; twice: stop now."""

    def ask(number: int, frame: FrameType | None) -> None:
        if report.stopped:
            raise KeyboardInterrupt
        report.stopped = True
        engine.stop()

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: signals are somebody else's business
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
