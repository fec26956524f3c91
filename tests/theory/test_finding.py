"""How seeds decide, or do not; and how numbers are put into sentences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from efc.theory.finding import (
    Verdict,
    above,
    alike,
    every,
    interval,
    mean_std,
    ratios,
    student,
    told_ratio,
    verdict,
    within,
)


@pytest.mark.parametrize(
    ("values", "digits", "said"),
    [([1.0, 2.0, 3.0], 3, "2 ± 1"), ([0.5], 3, "0.5 ± 0"), ([100.0, 101.0], 4, "100.5 ± 0.71"), ([1, 2], 1, "2 ± 0.7")],
)
def test_mean_and_deviation_over_seeds(values: list[float], digits: int, said: str) -> None:
    """The deviation of a sample (n - 1), with two digits at most."""
    assert mean_std(values, digits) == said


def test_verdicts() -> None:
    assert verdict(True, True) is Verdict.HOLDS
    assert verdict(True, False) is verdict(True, None) is Verdict.IN_PART
    assert verdict(False, None) is verdict(None) is Verdict.OPEN
    assert verdict(False, False) is Verdict.FAILS
    assert verdict(np.bool_(True)) is Verdict.HOLDS
    assert verdict(np.bool_(False)) is Verdict.FAILS
    assert [every([True, True]), every([True, None]), every([None, False])] == [True, None, False]


@pytest.mark.parametrize("quantile", [0.95, 1 - 0.05 / 3])
def test_quantiles(quantile: float) -> None:
    for freedom in (1, 2, 3, 4, 9, 19, 99):
        assert student(freedom, quantile) == pytest.approx(stats.t.ppf(quantile, freedom), rel=0.01)


def test_the_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    means = [interval(rng.standard_normal(5) + 3) for _ in range(2000)]
    assert np.mean([low <= 3 <= high for low, high in means]) == pytest.approx(0.9, abs=0.02)
    assert interval([0.7]) == (0.7, 0.7)


def test_above_is_shown_refuted_or_open() -> None:
    assert above([1.1, 1.2, 1.3], [1.0, 1.0, 1.0]) is True
    assert above([0.9, 1.3, 1.0], [1.0, 1.0, 1.0]) is None
    assert above([0.7, 0.8, 0.9], [1.0, 1.0, 1.0]) is False
    assert above([1.0, 1.0]) is True
    assert above([1.0, 1.01, 0.99], 1.0, least=0.1) is False  # at most a difference that is not worth speaking of
    assert above([1.0, 1.2, 0.8], 1.0, least=0.1) is None
    assert above([], 1.0) is above(1.0, []) is within([], 0.0, 1.0) is None  # nothing measured, nothing decided


def test_equivalence() -> None:
    """Ratios near one, far from it, and spread over both."""
    assert alike(ratios([1.0, 1.05, 0.97], 1.0)) is True
    assert alike(ratios([1.6, 1.7, 1.65], 1.0)) is False
    assert alike(ratios([1.6, 0.7, 1.1], 1.0)) is None  # the mean is near one, which proves nothing
    assert within([0.5, 0.5], 0.4, 0.6) is True
    assert within([0.7, 0.7], 0.4, 0.6) is False
    rng = np.random.default_rng(1)
    few, many = rng.normal(0.0, 0.5, 5), rng.normal(0.0, 0.5, 200)
    assert [alike(few), alike(many)] == [None, True]  # what five seeds leave open two hundred decide
    false = [alike(rng.normal(math.log(1.25), 0.3, 30)) is True for _ in range(500)]
    assert np.mean(false) < 0.08  # at the margin itself: 5 %


def test_ratios_have_a_floor_and_a_sentence() -> None:
    assert ratios([0.0, 2.0], [1e-3, 1.0], floor=1e-3) == pytest.approx([0.0, math.log(2)])
    assert told_ratio([0.0, 0.0]) == "1.00 (1.00 to 1.00)"
