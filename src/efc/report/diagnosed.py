"""What was found out about features and head, over seeds: for table, figure and page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from efc.metrics import Array
from efc.report.labels import method_label
from efc.runs.results import ResultRow, Results
from efc.training.examination import Confused, Diagnosis

MOST_LINES = 12
"""Rows of which the terminal tells what is confused with what."""
PAIRS = 5
"""Pairs of classes that are shown of a row."""


@dataclass(frozen=True)
class Diagnosed:
    """The diagnosis of a row, of those of its seeds that have features."""

    accuracy: Array
    """(seeds, T), per cent, as are the others; by task."""
    oracle: Array
    ridge: Array
    drift: Array
    """NaN where there is none to be had."""
    explained: Array
    reads: str
    newest: tuple[float, float] | None
    """Older tasks' samples that are answered with a newest class: by its own head, and by the oracle."""
    confused: list[Confused]

    @property
    def lost(self) -> Array:
        """(seeds, T): points that the head loses."""
        return self.oracle - self.accuracy

    @property
    def unexplained(self) -> Array:
        """(T,): the drift that a linear map leaves, mean over seeds; all of it where it explains nothing."""
        return mean(self.drift * np.sqrt(1 - np.nan_to_num(self.explained) / 100))


def diagnosed(row: ResultRow) -> Diagnosed | None:
    """None where nobody asked, or where there are no features."""
    found = [one for one in row.diagnosis or [] if one.oracle is not None]
    if not found:
        return None

    def by_task(name: str) -> Array:
        return np.array([getattr(one, name) for one in found], dtype=float)

    newest = [(one.newest, one.newest_oracle) for one in found]
    known = [(own, best) for own, best in newest if own is not None and best is not None]
    return Diagnosed(
        accuracy=by_task("accuracy"),
        oracle=by_task("oracle"),
        ridge=by_task("ridge"),
        drift=by_task("drift"),
        explained=by_task("explained"),
        reads=found[0].reads,
        newest=(float(np.mean([a for a, _ in known])), float(np.mean([b for _, b in known]))) if known else None,
        confused=_pairs(found),
    )


def notes(row: ResultRow) -> list[str]:
    """Why there are no features, a sentence for each reason."""
    return list(dict.fromkeys(one.note for one in row.diagnosis or [] if one.note))


def _pairs(found: Sequence[Diagnosis]) -> list[Confused]:
    """Those that cost most over seeds; a pair that is none of a seed's worst counts as nothing there."""
    own: dict[tuple[str, str], float] = {}
    best: dict[tuple[str, str], float] = {}
    for pair in (pair for one in found for pair in one.confused):
        key = (pair.shown, pair.answered)
        own[key] = own.get(key, 0.0) + pair.share / len(found)
        best[key] = best.get(key, 0.0) + (pair.oracle or 0.0) / len(found)
    worst = sorted(own, key=lambda key: -own[key])[:PAIRS]
    return [Confused(*key, own[key], best[key]) for key in worst]


def mean(values: Array) -> Array:
    """Over seeds, (T,), of those that have a value."""
    return np.asarray(np.ma.masked_invalid(values).mean(0).filled(np.nan))


def old_tasks(values: Array) -> float:
    """Over seeds and all tasks but the last, which nothing was learned after; NaN where there is no value."""
    found = values[:, :-1][np.isfinite(values[:, :-1])]
    return float(found.mean()) if len(found) else float("nan")


def diagnosis_table(results: Results, console: Console) -> None:
    """Print how good the features are and what the heads lose, below the table of results; nothing if nobody asked."""
    asked = [row for row in results.rows if row.diagnosis is not None]
    there = [(row, found) for row in asked if (found := diagnosed(row)) is not None]
    if there:
        console.print(_table(there))
    for row, found in there[:MOST_LINES]:
        console.print(f"{_name(row)}: {confusions(found)}", highlight=False)
    for text in dict.fromkeys(text for row in asked for text in notes(row)):
        console.print(text, highlight=False)


def _table(rows: Sequence[tuple[ResultRow, Diagnosed]]) -> Table:
    """Fits 80 columns."""
    several = len({(row.dataset, row.encoder) for row, _ in rows}) > 1
    table = Table(
        title="Diagnosis: features and head after the last task, per cent",
        caption="oracle, ridge: heads fitted to all training data, for diagnosis only\n"
        "lost: oracle less own; drift of old tasks' features, and what of it is linear",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for name in (*(["data"] if several else []), "scenario", "method", "head"):
        table.add_column(name, no_wrap=True)
    for name in ("own", "oracle", "ridge", "lost", "drift", "linear"):
        table.add_column(name, justify="right", no_wrap=True, min_width=max(5, len(name)))
    for row, found in rows:
        numbers = (found.accuracy.mean(), found.oracle.mean(), found.ridge.mean(), found.lost.mean())
        moved = (old_tasks(found.drift), old_tasks(found.explained))
        told = [f"{n:.1f}" for n in numbers] + [f"{n:.0f}" if np.isfinite(n) else "" for n in moved]
        table.add_row(*([row.dataset] if several else []), row.scenario, method_label(row), row.head, *told)
    return table


def confusions(found: Diagnosed) -> str:
    """In words: the worst pairs, and how often the newest classes are answered for older ones."""
    pairs = ", ".join(
        f"{one.shown} as {one.answered}: {_two(one.share, one.oracle or 0.0)}" for one in found.confused[:3]
    )
    told = [f"confuses {pairs}" if pairs else "confuses nothing"]
    if found.newest is not None:
        told.append(f"older samples answered with newest classes: {_two(*found.newest)}")
    return "; ".join(told)


def _two(own: float, best: float) -> str:
    return f"{own:.1f} % (oracle {best:.1f} %)"


def _name(row: ResultRow) -> str:
    return f"{method_label(row)} ({row.head}, {row.scenario})"
