"""Inputs in units that cannot be right, or that a stream did not announce, have their sentence; others have none."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch

from efc import EFCClassifier, EFCHead
from efc.classifiers.units import cut_off, faint
from efc.errors import EFCError, EFCWarning
from efc.learners.inputs import Standardiser

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)) + 3.0 * (np.arange(60) % 2)[:, None]
Y = np.arange(60) % 2


def seen(x: np.ndarray) -> Standardiser:
    found = Standardiser(x.shape[1])
    found.take_in(torch.tensor(x))
    return found


def estimator(mode: str) -> Callable[..., object]:
    return EFCClassifier((8,), random_state=0, epochs=1, mode=mode).partial_fit


def head(mode: str) -> Callable[..., object]:
    made = EFCHead(3, hidden=(8,), epochs=1)
    return made.observe if mode == "stream" else lambda x, y: made.learn_task((x, y))


@pytest.mark.parametrize("made", [estimator, head])
@pytest.mark.parametrize("mode", ["tasks", "stream"])
def test_what_varies_too_little_is_told(made: Callable[[str], Callable[..., object]], mode: str) -> None:
    """Clouds that are easily told apart, a millionth wide and a million away from zero, count as one point."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made(mode)(1e-6 * X + 1e-3, Y)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "task 0", EFCWarning)  # what comes of it is told as well
        with pytest.warns(EFCWarning, match="3 of 3 features vary by less than 5e-07 of their size"):
            made(mode)(1e-6 * X + 1e6, Y)
        with pytest.warns(EFCWarning, match="3 of 3 features are so small that their squares vanish"):
            made(mode)(1e-170 * X, Y)
        with pytest.warns(EFCWarning, match="all samples so far are the same"):
            made(mode)(np.ones_like(X), Y)


@pytest.mark.parametrize("made", [estimator, head])
@pytest.mark.parametrize("mode", ["tasks", "stream"])
def test_numbers_whose_squares_overflow_are_refused(made: Callable[[str], Callable[..., object]], mode: str) -> None:
    with pytest.raises(EFCError, match=r"inputs: there is a number of size [\d.]+e\+160, and beyond 1e\+150 squares"):
        made(mode)(1e160 * X / abs(X).max(), Y)
    made(mode)(1e149 * X / abs(X).max(), Y)


def test_rounding_is_no_variation_and_a_few_samples_say_nothing() -> None:
    assert faint(seen(X)) == []
    constant = np.c_[X, np.full(60, 0.1)]
    assert faint(seen(constant)) == []
    (found,) = faint(seen(constant + np.arange(60)[:, None] * [0, 0, 0, 1e-10]))
    assert found.text.startswith("1 of 4 features vary by less than 5e-07 of their size")
    assert faint(seen(1e-6 * X[:3] + 1e6)) == []


def test_what_is_cut_off_by_the_first_samples_scale_is_told() -> None:
    inputs = seen(X)
    assert cut_off(inputs, torch.tensor(X)) == []
    assert len(cut_off(inputs, torch.tensor(X + 100.0))) == 1
    assert cut_off(inputs, torch.tensor(X + np.array([100.0, 0.0, 0.0]))) == []  # one feature of three is no news
    assert cut_off(inputs, torch.tensor(np.r_[X + 100.0, np.tile(X, (20, 1))])) == []


def test_a_class_far_beyond_those_a_stream_began_with_is_told() -> None:
    """Classes at 0, 15 and 30, one after the other: of both that come late, all that is seen is 'large'."""
    x, y = RNG.normal(size=(1800, 1)) + 15.0 * np.repeat(np.arange(3), 600)[:, None], np.repeat(np.arange(3), 600)
    mixed = EFCClassifier((8,), random_state=0, mode="stream")
    order = RNG.permutation(1800)
    for some in np.split(order, 18):
        mixed.partial_fit(x[some], y[some])
    assert mixed.score(x, y) > 0.99
    late = EFCClassifier((8,), random_state=0, mode="stream").partial_fit(x[:600], y[:600])
    with pytest.warns(EFCWarning, match="half of what arrives lies more than 10 deviations out, and is cut off"):
        late.partial_fit(x[600:], y[600:])
    assert late.score(x, y) < 0.8
