"""How numbers are put into sentences."""

from __future__ import annotations

import pytest

from efc.theory.finding import mean_std


@pytest.mark.parametrize(
    ("values", "digits", "said"),
    [([1.0, 2.0, 3.0], 3, "2 ± 1"), ([0.5], 3, "0.5 ± 0"), ([100.0, 101.0], 4, "100.5 ± 0.71"), ([1, 2], 1, "2 ± 0.7")],
)
def test_mean_and_deviation_over_seeds(values: list[float], digits: int, said: str) -> None:
    """The deviation of a sample (n - 1), with two digits at most."""
    assert mean_std(values, digits) == said
