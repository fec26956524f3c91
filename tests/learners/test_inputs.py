"""Standardised inputs: the running mean and deviation are exact, and what is kept follows when they change."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from efc.core.network import Layout, forward
from efc.core.task import TaskData
from efc.learners import LEARNERS, find_learner
from efc.learners.inputs import LIMIT, Standardiser

STEPPING = ("efc", "efc-paper", "activity", "ewc", "online_ewc", "si", "mas", "full_fisher", "der", "derpp", "sgd")


@given(seed=st.integers(0, 100), cuts=st.lists(st.integers(1, 59), max_size=3))
def test_mean_and_deviation_are_those_of_all_data_at_once(seed: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(60, 5)) + rng.uniform(-1000, 1000, 5)) * 10.0 ** rng.uniform(-6, 6, 5)
    found = Standardiser(5)
    for part in np.split(x, sorted(set(cuts))):
        found.take_in(torch.tensor(part))
    np.testing.assert_allclose(found.mean.numpy(), x.mean(0), rtol=1e-9)
    np.testing.assert_allclose(found.scale.numpy(), x.std(0), rtol=1e-6)
    np.testing.assert_allclose(found(torch.tensor(x), torch.float64), (x - x.mean(0)) / x.std(0), rtol=1e-4, atol=1e-6)


def test_constant_and_sparse_columns_and_outliers_stay_in_bounds() -> None:
    x = torch.zeros(1000, 3, dtype=torch.float64)
    x[:, 0] = 1e9 + 0.1
    x[0, 1] = 5.0
    x[:, 2] = torch.linspace(0, 1, 1000)
    x[1, 2] = 1e12
    found = Standardiser(3)
    found.take_in(x)
    assert not found.known[0]
    ready = found(x, torch.float32)
    assert float(ready.abs().max()) <= LIMIT
    assert float(ready[:, 0].abs().max()) < 1e-3


def task(seed: int, shift: float, scale: float, new: slice) -> TaskData:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(40, 4, generator=generator, dtype=torch.float64) * torch.tensor([scale, 1.0, 100.0, 1e-3]) + shift
    y = new.start + torch.arange(40) % (new.stop - new.start)
    return TaskData(x, y, active=slice(0, new.stop), new=new, steps=8)


@pytest.mark.parametrize("method", STEPPING)
def test_the_network_is_the_same_function_of_raw_inputs_after_the_change(method: str) -> None:
    """A second task of another scale: before its first step, old inputs get the answers they had."""
    cls = find_learner(method)
    learner = cls((4, 7, 4), [0, 1], cls.options_type(inputs="standardised"), head="random", dtype=torch.float64)
    first, second = task(0, 0.0, 1.0, slice(0, 2)), task(1, 0.7, 3.0, slice(2, 4))
    learner.begin_task(first)
    for _ in range(4):
        learner.step(first.x[None].expand(2, -1, -1), first.y[None].expand(2, -1))
    learner.end_task(first)
    before, kept = learner.logits(first.x, slice(0, 2)), learner.standardised(first.x).clone()
    learner.begin_task(second)
    torch.testing.assert_close(learner.logits(first.x, slice(0, 2)), before, rtol=1e-9, atol=1e-9)
    assert not torch.allclose(learner.standardised(first.x), kept, atol=0.05)


def test_moments_and_anchor_are_those_of_the_inputs_as_they_are_now() -> None:
    """Remembered activity and the head's moments after the change, against those of the old samples themselves."""
    cls = LEARNERS["efc"]
    options = cls.options_type(inputs="standardised")
    learner = cls((4, 7, 4), [0], options, head="input_compensated", dtype=torch.float64)
    first, second = task(0, 0.0, 1.0, slice(0, 2)), task(1, 0.7, 3.0, slice(2, 4))
    learner.begin_task(first)
    learner.end_task(first)
    learner.begin_task(second)
    x = learner.standardised(first.x)
    one = torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], 1)
    assert learner.remembered is not None  # type: ignore[attr-defined]
    torch.testing.assert_close(learner.remembered.layers[0].A[0], one.T @ one / len(x))  # type: ignore[attr-defined]
    torch.testing.assert_close(learner.remembered.anchor[:, :28], learner.theta[:, :28])  # type: ignore[attr-defined]
    h = forward(learner.layers, learner.sigma, x[None]).r[-1][0]
    both = torch.cat([x, h, torch.ones(len(x), 1, dtype=x.dtype)], 1)
    torch.testing.assert_close(learner.head_policy.total.A[0], both.T @ both)  # type: ignore[attr-defined]


def test_the_closed_form_is_that_of_all_data_standardised_at_once() -> None:
    """Task after task equals ridge regression on everything, whatever the scale of the first task."""
    cls = LEARNERS["analytic"]
    learner = cls((4, 4), [0], cls.options_type(inputs="standardised", ridge=1e-3))
    tasks = [task(0, 0.0, 1.0, slice(0, 2)), task(1, 0.7, 3.0, slice(2, 4))]
    for each in tasks:
        learner.begin_task(each)
        learner.end_task(each)
    x = torch.cat([each.x for each in tasks])
    y = torch.cat([each.y for each in tasks])
    ready = (x - x.mean(0)) / x.std(0, correction=0)
    one = torch.cat([ready, torch.ones(80, 1, dtype=x.dtype)], 1)
    Y = torch.nn.functional.one_hot(y, 4).double()
    V = torch.linalg.solve(one.T @ one + 1e-3 * 80 * torch.eye(5, dtype=x.dtype), one.T @ Y)
    torch.testing.assert_close(learner.logits(x, slice(0, 4))[0], one @ V, rtol=1e-6, atol=1e-6)


def test_weights_of_a_feature_that_was_constant_stay() -> None:
    layout, found = Layout((2, 3, 2)), Standardiser(2)
    theta = torch.randn(1, layout.n_parameters, dtype=torch.float64)
    first = torch.tensor([[0.0, 5.0], [1.0, 5.0]], dtype=torch.float64)
    assert found.take_in(first) is None
    old = layout.views(theta.clone())
    before = found(first, torch.float64) @ old.weights[0][0].T + old.biases[0][0]
    change = found.take_in(torch.tensor([[3.0, 9.0], [4.0, 1.0]], dtype=torch.float64))
    assert change is not None
    change.weights(layout, theta)
    now = layout.views(theta)
    torch.testing.assert_close(now.weights[0][..., 1], old.weights[0][..., 1])
    torch.testing.assert_close(found(first, torch.float64) @ now.weights[0][0].T + now.biases[0][0], before)
