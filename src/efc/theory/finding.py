"""What an experiment is, and what it says: numbers, claims with a verdict each, and a figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist
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
Answer = bool | None
"""Whether something holds; None: these seeds do not decide it."""
ALIKE = 1.25
"""Two positive numbers are the same if their ratio lies within this factor of one, as in tests of bioequivalence."""
POINT = 1.0
"""The smallest difference of two accuracies, in per cent, that is worth speaking of."""


class Verdict(StrEnum):
    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "does not hold"
    OPEN = "not decided"


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


def verdict(*holds: Answer) -> Verdict:
    """All of it, some of it, none of it; or nothing that is certain, and something that may be."""
    if all(holds):
        return Verdict.HOLDS
    if any(holds):
        return Verdict.IN_PART
    return Verdict.OPEN if None in holds else Verdict.FAILS


def every(answers: Iterable[Answer]) -> Answer:
    """One answer to several questions at once."""
    known = list(answers)
    if any(answer is not None and not answer for answer in known):
        return False
    return None if None in known else True


def mean_std(values: npt.ArrayLike, digits: int = 3) -> str:
    """``mean ± standard deviation`` over seeds, for a sentence."""
    v = np.asarray(values, float)
    return f"{v.mean():.{digits}g} ± {v.std(ddof=1) if v.size > 1 else 0.0:.{min(digits, 2)}g}"


def student(freedom: int, quantile: float) -> float:
    """Student's t: exact for one and two degrees of freedom, else by its expansion around the normal distribution's."""
    q, n = quantile, freedom
    if n == 1:
        return math.tan(math.pi * (q - 0.5))
    if n == 2:
        return (2 * q - 1) / math.sqrt(2 * q * (1 - q))
    z = NormalDist().inv_cdf(q)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(z + sum(term / n**k for k, term in enumerate(terms, 1)))


def interval(values: npt.ArrayLike, error: float = 0.05) -> tuple[float, float]:
    """The mean's confidence interval over the seeds: what lies above its lower end does so but for ``error``, and so
    does what lies below its upper end. A single seed is taken as it stands; no number at all says nothing."""
    v = np.asarray(values, float)
    if v.size == 0:
        return -math.inf, math.inf
    width = student(v.size - 1, 1 - error) * v.std(ddof=1) / math.sqrt(v.size) if v.size > 1 else 0.0
    return float(v.mean() - width), float(v.mean() + width)


def above(a: npt.ArrayLike, b: npt.ArrayLike = 0.0, least: float = 0.0) -> Answer:
    """Whether ``a`` is above ``b``, seed by seed.

    False needs evidence as well: that the difference is smaller than ``least``, the smallest worth speaking of.
    """
    low, high = interval(np.asarray(a, float) - np.asarray(b, float))
    if high <= least:
        return False
    return True if low > 0 else None


def within(values: npt.ArrayLike, low: float, high: float, error: float = 0.05) -> Answer:
    """Whether the mean lies between two margins: an equivalence test (two one-sided tests)."""
    lower, upper = interval(values, error)
    if low <= lower and upper <= high:
        return True
    return False if upper < low or lower > high else None


def ratios(a: npt.ArrayLike, b: npt.ArrayLike, floor: float = 0.0) -> Array:
    """``log a / b`` seed by seed; what is below ``floor`` counts as that."""
    return array(np.log(np.maximum(a, floor)) - np.log(np.maximum(b, floor)))


def alike(logs: npt.ArrayLike, factor: float = ALIKE, error: float = 0.05) -> Answer:
    """Whether ratios, given by their logarithms, are one but for a factor."""
    return within(logs, -math.log(factor), math.log(factor), error)


def geometric(values: npt.ArrayLike) -> tuple[float, float, float]:
    """The geometric mean and its 90 % interval, for a logarithmic axis."""
    logs = np.log(np.asarray(values, float))
    low, high = interval(logs)
    return math.exp(float(logs.mean())), math.exp(low), math.exp(high)


def told_ratio(logs: npt.ArrayLike, error: float = 0.05) -> str:
    """The geometric mean of ratios and its interval, for a sentence."""
    low, high = np.exp(interval(logs, error))
    return f"{math.exp(array(logs).mean()):.2f} ({low:.2f} to {high:.2f})"


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
