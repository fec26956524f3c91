"""One invocation of `efc run`, `bench` or `sweep`: store, engine, progress, and what is written at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from efc.api import Plan, make_plan
from efc.errors import EFCError, choose
from efc.files import to_json, write_atomically
from efc.loggers import Logs, check_names
from efc.report import FILE, write_report
from efc.report.figures import accuracy_matrices
from efc.report.terminal import PackProgress, Transfers
from efc.runs.checkpoint import Checkpoints
from efc.runs.config import RunConfig
from efc.runs.driver import Report, compute
from efc.runs.engines import Engine, InlineEngine, ProcessEngine, Surroundings
from efc.runs.plan import Pack, interrupted
from efc.runs.store import Store

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Means:
    """With what a session computes."""

    engine: str = "local"
    workers: int | None = None
    """Processes; None: one, or for several packs one per core or GPU."""
    ray_address: str | None = None
    checkpoint_minutes: float = 5.0
    at_most: int | None = None
    """Runs in a pack at most; None: as many as memory holds."""
    log: Sequence[str] = ()
    """Loggers, with commas or one by one."""

    def __post_init__(self) -> None:
        choose("--engine", self.engine, ENGINES)
        for name, value in (("--workers", self.workers), ("--pack", self.at_most)):
            if value is not None and value < 1:
                raise EFCError(f"{name}: must be at least 1, got {value}")
        if not self.checkpoint_minutes > 0:
            raise EFCError(f"--checkpoint-minutes: must be above 0, got {self.checkpoint_minutes:g}")
        object.__setattr__(self, "log", check_names(self.log))


class Session:
    """A store, opened, with a console to speak to."""

    def __init__(self, folder: Path, means: Means, console: Console) -> None:
        self.folder, self.means, self.console = folder, means, console
        self.store = Store(folder, self.tell)
        try:
            self.logs = Logs(folder / "logs", means.log, self.tell)
        except BaseException:
            self.store.close()
            raise

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: object) -> None:
        self.logs.close()
        self.store.close()

    def tell(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def plan(self, configs: Sequence[RunConfig], seeds: Sequence[int] | None = None) -> Plan:
        """What is there and what has to be computed; fetches and encodes data first."""
        for folder, ids in interrupted(self.store.checkpoints).items():
            if len(self.store.finished(ids)) == len(ids):  # killed after the results were stored
                Checkpoints(folder).remove()
        return make_plan(configs, self.store, self.means.at_most, seeds, Transfers(self.console))

    def forget(self, plan: Plan) -> None:
        """Drop what is stored and logged of a plan, so that it is computed again."""
        ids = [run.id for run in plan.runs]
        self.store.forget(ids)
        self.logs.forget(ids)

    def compute(self, plan: Plan) -> Report:
        """Compute what is missing; whatever is stored at the end, by whomever and whenever, is logged."""
        report = self._compute(plan)
        for run in plan.runs:
            if run.id in report.results:
                self.logs.log(run, report.results[run.id])
        return report

    def _compute(self, plan: Plan) -> Report:
        if not plan.packs:
            return Report(self.store.finished([run.id for run in plan.runs]))
        with ExitStack() as stack:
            progress = stack.enter_context(PackProgress(plan.packs, self.console))
            surroundings = Surroundings(
                self.store.checkpoints, 60 * self.means.checkpoint_minutes, progress, progress.tell
            )
            engine = stack.enter_context(make_engine(self.means, surroundings, plan.packs))
            return compute(plan.runs, plan.packs, self.store, engine, self.logs.log)


def make_engine(means: Means, surroundings: Surroundings, packs: Sequence[Pack]) -> Engine:
    """The engine asked for."""
    if means.engine == "ray":
        from efc.runs.ray_engine import RayEngine  # optional: it says what to install

        return RayEngine(surroundings, means.ray_address, packs[0].place.device)
    gpus = torch.cuda.device_count() if packs[0].place.device != "cpu" else 0
    workers = means.workers or 1
    workers = min(workers, len(packs))
    return InlineEngine(surroundings) if workers == 1 else ProcessEngine(surroundings, workers, gpus)


def usual_workers(device: str) -> int:
    """One process per GPU, or per core."""
    gpus = torch.cuda.device_count() if device != "cpu" else 0
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return gpus or cores


def write_results(folder: Path, document: dict[str, Any], tell: Callable[[str], None]) -> str:
    """`results.json`, `matrices.png` and `report.html`; returns the JSON."""
    text = to_json(document)
    file, picture = folder / "results.json", folder / "matrices.png"
    same = file.exists() and file.read_text(encoding="utf-8") == text
    if same and picture.exists() and (folder / FILE).exists():
        return text  # asked again, nothing new
    write_atomically(file, text)
    for path in (picture, folder / FILE):
        path.unlink(missing_ok=True)  # those of other results must not stay if these cannot be drawn
    try:
        accuracy_matrices(document, picture)
    except EFCError as problem:
        tell(f"No picture: {problem}")
    add_report(folder, document, tell)
    return text


def add_report(folder: Path, document: dict[str, Any], tell: Callable[[str], None]) -> None:
    """`report.html`, or why there is none."""
    try:
        write_report(folder, document)
    except EFCError as problem:
        tell(f"No report: {problem}")


def where_results_are(folder: Path) -> str:
    """The closing message."""
    report = folder / FILE
    return f"Results in {folder}" + (f"; to read them, open {report}" if report.exists() else "")
