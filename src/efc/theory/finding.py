"""What an experiment is, and what it says: numbers, claims with a verdict each, and a figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from efc.metrics import Array
from efc.report.style import COLOURS
from efc.theory.situation import Situation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Numbers = dict[str, Any]
"""Plain values and lists: what the JSON file holds, and all that a verdict or a figure may use."""
Tell = Callable[[str], None]


class Verdict(StrEnum):
    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "does not hold"


@dataclass(frozen=True)
class Claim:
    """A statement of the paper beside what was measured."""

    statement: str
    paper: str
    """What the paper says or reports, in short."""
    measured: str
    verdict: Verdict


@dataclass(frozen=True)
class Experiment:
    """``measure`` takes the time; ``judge`` and ``draw`` see nothing but its numbers."""

    name: str
    title: str
    measure: Callable[[Situation, Tell], Numbers]
    judge: Callable[[Numbers], Sequence[Claim]]
    draw: Callable[[Numbers], Figure]


def verdict(*holds: bool) -> Verdict:
    """All of it, some of it, or none of it."""
    if all(holds):
        return Verdict.HOLDS
    return Verdict.IN_PART if any(holds) else Verdict.FAILS


def mean_std(values: npt.ArrayLike, digits: int = 3) -> str:
    """``mean ± standard deviation`` over seeds, for a sentence."""
    v = np.asarray(values, float)
    return f"{v.mean():.{digits}g} ± {v.std(ddof=1) if v.size > 1 else 0.0:.{min(digits, 2)}g}"


def clearly(a: npt.ArrayLike, b: npt.ArrayLike) -> bool:
    """Whether ``a`` is above ``b``, seed by seed, by more than two standard errors of the difference."""
    d = np.asarray(a, float) - np.asarray(b, float)
    error = d.std(ddof=1) / math.sqrt(len(d)) if len(d) > 1 else 0.0
    return bool(d.mean() > 2 * error)


def array(values: Any) -> Array:
    """A list of the numbers as an array."""
    return np.asarray(values, float)


def band(axis: Axes, x: Sequence[float], runs: npt.ArrayLike, label: str, colour: str, line: str = "-") -> None:
    """The mean over runs (len(x), R) as a line, one standard deviation as a band."""
    y = np.asarray(runs, float)
    mean, std = y.mean(1), y.std(1)
    axis.plot(x, mean, line, color=colour, label=label, linewidth=1.4)
    axis.fill_between(x, mean - std, mean + std, color=colour, alpha=0.18, linewidth=0)


def bars(axis: Axes, values: Sequence[Sequence[float]], names: Sequence[str]) -> None:
    """Means as bars, the runs as dots on them."""
    at = range(len(values))
    axis.bar(at, [sum(v) / len(v) for v in values], color=COLOURS[: len(values)], width=0.7)
    for k, v in enumerate(values):
        axis.plot([k] * len(v), v, "k.", markersize=3)
    axis.set_xticks(at, names)
