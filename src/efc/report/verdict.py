"""What happened, in a sentence: the best row of every data set and scenario, what is level with it, its margins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from efc.report.labels import differences, method_label
from efc.runs.results import ResultRow

CONTROLS = {"frozen": "the control that learns features from the first task alone", "analytic": "ridge regression"}
"""Methods that any other has to beat, and what they are."""
NOISE = 2.0
"""Standard errors within which two means are called level."""
SHOWN = 3


def ranked(rows: Sequence[ResultRow]) -> list[ResultRow]:
    """By data set and scenario, in the order in which these come; the best first, what diverged altogether last."""
    return [row for group in groups(rows).values() for row in group]


def groups(rows: Sequence[ResultRow]) -> dict[tuple[str, ...], list[ResultRow]]:
    """Rows that can be compared, the best first."""
    found: dict[tuple[str, ...], list[ResultRow]] = {}
    for row in rows:
        found.setdefault((row.dataset, row.encoder, row.scenario, row.evaluated_on), []).append(row)
    return {key: sorted(group, key=lambda row: (_lost(row), -row.accuracy.mean)) for key, group in found.items()}


def verdict(rows: Sequence[ResultRow]) -> list[str]:
    """A sentence or three for each group in which there is something to compare."""
    told = dict(zip(map(id, rows), differences(rows), strict=True))
    found = []
    for (dataset, encoder, scenario, _), group in groups(rows).items():
        running = [row for row in group if not _lost(row)]
        if len(running) > 1:
            data = dataset if encoder == "none" else f"{dataset} ({encoder})"
            found.append(f"{data}, {scenario}-IL: {_sentence(running, told)}")
    return found


def level(a: ResultRow, b: ResultRow) -> bool:
    """Whether the difference of two means is within noise: ``|a - b| <= 2 sqrt(s_a^2 / n_a + s_b^2 / n_b)``.

    One seed says nothing about noise: such rows are level if they look the same.
    """
    difference = abs(a.accuracy.mean - b.accuracy.mean)
    if min(len(a.seeds), len(b.seeds)) < 2:
        return difference < 0.05
    error = math.sqrt(sum(row.accuracy.std**2 / len(row.seeds) for row in (a, b)))
    return difference <= NOISE * error + 1e-9


def _sentence(rows: Sequence[ResultRow], told: Mapping[int, str]) -> str:
    best, *others = rows
    ties = [row for row in others if level(best, row)]
    parts = [f"{_name(best, told)} has the highest accuracy, {_accuracy(best)}"]
    if ties:
        listed = ", ".join(f"{_name(row, told)} ({row.accuracy.mean:.1f})" for row in ties[:SHOWN])
        more = f" and {len(ties) - SHOWN} more" if len(ties) > SHOWN else ""
        parts.append(f"level with it, within noise: {listed}{more}")
    for method, what in CONTROLS.items():
        if best.method == method:
            parts.append(f"it is itself {what}")
        elif control := next((row for row in others if row.method == method), None):
            margin = best.accuracy.mean - control.accuracy.mean
            parts.append(f"{margin:+.1f} points against {what}" + (", within noise" if control in ties else ""))
    if min(len(row.seeds) for row in rows) < 2:
        parts.append("one seed alone: how much of this is noise is not known")
    return "; ".join(parts) + "."


def _name(row: ResultRow, told: Mapping[int, str]) -> str:
    own = f" [{told[id(row)]}]" if told[id(row)] else ""
    return f"{method_label(row)}{own} with the head {row.head}"


def _accuracy(row: ResultRow) -> str:
    spread = f" ± {row.accuracy.std:.1f}" if len(row.seeds) > 1 else ""
    return f"{row.accuracy.mean:.1f}{spread} %"


def _lost(row: ResultRow) -> bool:
    return len(row.diverged) == len(row.seeds)
