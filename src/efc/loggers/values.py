"""What is logged of a run: named numbers with a step, and its settings. Every logger writes these and no others."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from efc.runs.identity import flatten


@dataclass(frozen=True)
class Value:
    """A number and its place: ``step`` counts tasks learned or, for ``effort/...``, epochs of the whole stream."""

    name: str
    step: int
    value: float

    @property
    def axis(self) -> str:
        return "epoch" if self.name.startswith("effort/") else "tasks_learned"


def values_of(settings: Mapping[str, Any], result: Mapping[str, Any]) -> list[Value]:
    """All finite numbers of a run, step by step; those of the whole run come last, and of these ``seconds``."""
    found = [*_effort(settings["epochs"], result.get("trace") or []), *_accuracies(result["accuracy_matrix"])]
    last = len(result["accuracy_matrix"])
    whole = {**result["metrics"], "unsettled": result["unsettled"], "diverged": float(result["diverged"])}
    found += [Value(name, last, value) for name, value in (whole | {"seconds": result["seconds"]}).items()]
    return [value for value in found if isinstance(value.value, int | float) and math.isfinite(value.value)]


def _accuracies(matrix: list[list[float | None]]) -> Iterator[Value]:
    """The accuracy on every task met so far, after each task, and their mean."""
    for t, line in enumerate(matrix, 1):
        met = [accuracy for accuracy in line[:t] if accuracy is not None]
        for j, accuracy in enumerate(met, 1):
            yield Value(f"accuracy/task_{j}", t, accuracy)
        yield Value("accuracy/seen", t, sum(met) / len(met))


def _effort(epochs: int, trace: list[dict[str, Any]]) -> Iterator[Value]:
    """Control effort, preservation and the share of unsettled samples, epoch by epoch."""
    for entry in trace:
        step = (entry["task"] - 1) * epochs + entry["epoch"]
        for kind in ("psi", "gamma"):
            for layer, value in enumerate(entry.get(kind) or [], 1):
                yield Value(f"effort/{kind}_{layer}", step, value)
        if "unsettled" in entry:
            yield Value("effort/unsettled", step, entry["unsettled"])


def parameters(settings: Mapping[str, Any]) -> dict[str, bool | int | float | str]:
    """The settings, flat: numbers and texts as they are, lists and mappings as JSON, what is not finite as text."""
    return {name: _plain(value) for name, value in flatten(dict(settings)).items()}


def _plain(value: Any) -> bool | int | float | str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bool | int | float | str):
        return value
    return "none" if value is None else json.dumps(value)
