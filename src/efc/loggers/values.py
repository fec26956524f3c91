"""What is logged of a run: named numbers with a step, and its settings. Every logger writes these and no others."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from efc.files import Json
from efc.runs.identity import flatten
from efc.runs.results import Epoch, Matrix, RunResult, RunSettings


@dataclass(frozen=True)
class Value:
    """A number and its place: ``step`` counts tasks learned or, for ``effort/...``, epochs of the whole stream."""

    name: str
    step: int
    value: float

    @property
    def axis(self) -> str:
        return "epoch" if self.name.startswith("effort/") else "tasks_learned"


Parameters = Mapping[str, bool | int | float | str]
"""The settings of a run, flat."""


def values_of(epochs: int, result: RunResult) -> list[Value]:
    """All finite numbers of a run, step by step; those of the whole run come last, and of these ``seconds``."""
    found = [*_effort(epochs, result.trace or []), *_accuracies(result.accuracy_matrix)]
    last = len(result.accuracy_matrix)
    whole = {**result.metrics, "unsettled": result.unsettled, "diverged": float(result.diverged)}
    for name, value in (whole | {"seconds": result.seconds}).items():
        found += _finite(name, last, value)
    return found


def _finite(name: str, step: int, value: float | None) -> Iterator[Value]:
    if value is not None and math.isfinite(value):
        yield Value(name, step, value)


def _accuracies(matrix: Matrix) -> Iterator[Value]:
    """The accuracy on every task met so far, after each task, and their mean."""
    for t, line in enumerate(matrix, 1):
        met = [accuracy for accuracy in line[:t] if accuracy is not None]
        for j, accuracy in enumerate(met, 1):
            yield from _finite(f"accuracy/task_{j}", t, accuracy)
        yield from _finite("accuracy/seen", t, sum(met) / len(met))


def _effort(epochs: int, trace: Sequence[Epoch]) -> Iterator[Value]:
    """Control effort, preservation and the share of unsettled samples, epoch by epoch."""
    for entry in trace:
        step = (entry.task - 1) * epochs + entry.epoch
        for kind, norms in (("psi", entry.psi), ("gamma", entry.gamma)):
            for layer, value in enumerate(norms, 1):
                yield from _finite(f"effort/{kind}_{layer}", step, value)
        yield from _finite("effort/unsettled", step, entry.unsettled)


def parameters(settings: RunSettings) -> Parameters:
    """The settings, flat: numbers and texts as they are, lists and mappings as JSON, what is not finite as text."""
    return {name: _plain(value) for name, value in flatten(settings.to_json()).items()}


def _plain(value: Json) -> bool | int | float | str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bool | int | float | str):
        return value
    return "none" if value is None else json.dumps(value)
