"""Running configurations: their runs from the store or computed, the results as one plain document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from efc.errors import EFCError
from efc.report.terminal import PackProgress, make_console
from efc.runs.config import RunConfig, make_config
from efc.runs.driver import Report, compute
from efc.runs.engines import InlineEngine, Listener, Surroundings
from efc.runs.identity import Run
from efc.runs.plan import Pack, expand, make_packs, place_of
from efc.runs.results import results_document, row_document
from efc.runs.store import Store
from efc.runs.worker import dataset_of, prepare


def run(listener: Listener | None = None, progress: bool = False, **settings: Any) -> dict[str, Any]:
    """Train and compare methods; the keywords are the flags of `efc run`, with a mapping per method for its options.

    ``listener`` is called after every epoch with what is being trained and (task, epoch, epochs), counted from 1;
    ``progress=True`` shows bars on a terminal, and plain lines in a notebook or a log.

    Examples:
        >>> document = run(dataset="digits", methods=["efc", "sgd"], seeds=2, epochs=1, efc={"beta": 0.1})
        >>> [(row["method"], len(row["accuracy"]["per_seed"])) for row in document["rows"]]
        [('efc', 2), ('sgd', 2)]
    """
    plan = make_plan([make_config(settings)])
    with ExitStack() as stack:
        if progress:
            shown = stack.enter_context(PackProgress(plan.packs, make_console(stderr=True)))
            listener = shown if listener is None else _both(shown, listener)
        engine = stack.enter_context(InlineEngine(Surroundings(listener=listener)))
        report = compute(plan.runs, plan.packs, None, engine)
    if report.failures:
        raise EFCError(report.failures[0][1])
    return plan.document(report)


def _both(first: Listener, second: Listener) -> Listener:
    def listen(pack: Pack, task: int, epoch: int, epochs: int) -> None:
        first(pack, task, epoch, epochs)
        second(pack, task, epoch, epochs)

    return listen


@dataclass
class Plan:
    """Rows of runs, and the packs that are left to compute."""

    rows: list[list[Run]]
    packs: list[Pack] = field(default_factory=list)
    described: list[str] = field(default_factory=list)
    """The streams, for a person."""

    @property
    def runs(self) -> list[Run]:
        return list({run.id: run for row in self.rows for run in row}.values())

    def document(self, report: Report, command: str = "") -> dict[str, Any]:
        """The rows all of whose runs are there."""
        complete = [row for row in self.rows if all(run.id in report.results for run in row)]
        rows = [row_document(row, [report.results[run.id] for run in row]) for row in complete]
        return results_document(rows, command)


def _digest(config: RunConfig, store: Store | None, progress: Callable[[str, int, int | None], None] | None) -> str:
    """The data's checksum. The embedded digits are what scikit-learn's version says: they need not be read for it."""

    def work_out() -> str:
        return dataset_of(place_of(config), config.dataset, config.encoder, progress).digest()

    if store is None or config.dataset != "digits":
        return work_out()
    return store.note(f"checksum of digits, scikit-learn {version('scikit-learn')}", work_out)


def make_plan(
    configs: Sequence[RunConfig],
    store: Store | None = None,
    at_most: int | None = None,
    seeds: Sequence[int] | None = None,
    data_progress: Callable[[str, int, int | None], None] | None = None,
) -> Plan:
    """What has to be computed. Every learner is built once: a mistake in the last row must not cost the first hours."""
    plan = Plan([])
    for config in configs:
        place = place_of(config)
        rows = expand(config, _digest(config, store, data_progress), seeds)
        plan.rows += rows
        runs = [run for row in rows for run in row]
        known = {} if store is None else store.finished([run.id for run in runs])
        missing = list({run.id: run for run in runs if run.id not in known}.values())
        checkpoints = None if store is None else store.checkpoints
        packs = []
        if missing:
            n, d = dataset_of(place, config.dataset, config.encoder, data_progress).x_train.shape
            packs = make_packs(missing, place, checkpoints, at_most, (n, d))
        described = {}
        for pack in packs:
            described[pack.settings["scenario"]] = prepare(Pack(pack.runs[:1], place)).stream.describe()
        plan.packs += packs
        plan.described += described.values()
    return plan
