"""Standardised inputs: the running mean and deviation are exact, and what is kept follows when they change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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


def test_how_far_out_a_sample_lies_is_measured_by_the_values_that_were_seen() -> None:
    """A rare value of a sparse column is no news when it comes again, twenty deviations or not; other units are."""
    x = torch.zeros(1000, 3, dtype=torch.float64)
    x[0, 0] = 4.0
    x[:, 1] = 100.0 + torch.linspace(-1, 1, 1000)
    found = Standardiser(3)
    found.take_in(x[:500])
    found.take_in(x[500:])
    asked = torch.tensor([[4.0, 100.0, 0.0], [0.0, 99.5, 0.0], [0.0, 1.0, 0.0], [0.0, 100.0, 3.0]], dtype=torch.float64)
    assert found.far(asked).tolist() == pytest.approx([1.0, 1.0, 99.0, 3.0])
    assert (float(found.low[1]), float(found.high[1])) == (99.0, 101.0)


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


@pytest.mark.parametrize("scale", [1.0, 1e-30])
def test_importances_of_a_feature_that_was_constant_are_those_of_its_offset(scale: float) -> None:
    """A weight's gradient is ``delta x``; the old samples of the feature all lie where the new mean is not. However
    small its unit is, numbers stay finite."""
    layout, found = Layout((1, 1, 1)), Standardiser(1)
    found.take_in(torch.full((2, 1), 5.0 * scale, dtype=torch.float64))
    importances = torch.zeros(1, layout.n_parameters)
    layout.views(importances).biases[0][:] = 2.0
    change = found.take_in(torch.tensor([[9.0 * scale], [1.0 * scale], [8.0 * scale]], dtype=torch.float64))
    assert change is not None
    change.importances(layout, importances)
    x = found(torch.full((1, 1), 5.0 * scale, dtype=torch.float64), torch.float64)
    assert float(layout.views(importances).weights[0]) == pytest.approx(2.0 * float(x) ** 2)


@pytest.mark.parametrize("method", ["efc-paper", "derpp", "analytic"])
def test_scaled_inputs_are_those_that_were_scaled_beforehand(method: str) -> None:
    """Training, importances, replay, head and answers, to the last digit but rounding."""
    cls = find_learner(method)
    head = "analytic" if method == "analytic" else "least_squares"

    def learned(x: Callable[[torch.Tensor], torch.Tensor], **options: object) -> torch.Tensor:
        learner = cls((4, 7, 4), [0, 1], cls.options_type(**options), head=head, dtype=torch.float64)
        for each in (task(0, 0.0, 1.0, slice(0, 2)), task(1, 0.7, 3.0, slice(2, 4))):
            mine = replace(each, x=x(each.x))
            learner.begin_task(mine)
            for _ in range(4):
                learner.step(mine.x[None].expand(2, -1, -1), mine.y[None].expand(2, -1))
            learner.end_task(mine)
        return learner.logits(x(task(0, 0.0, 1.0, slice(0, 2)).x), slice(0, 4))

    inside = learned(lambda x: x, inputs="scaled", input_mean=-0.5, input_deviation=3.0)
    torch.testing.assert_close(inside, learned(lambda x: (x + 0.5) / 3.0, inputs="raw"))
    assert not torch.allclose(inside, learned(lambda x: x, inputs="raw"))


@given(seed=st.integers(0, 50), offset=st.sampled_from([0.0, 1.0, 1e3, 1e6]))
def test_what_has_varied_counts_as_varying_for_good(seed: int, offset: float) -> None:
    """A rare value gives a feature its scale; many others after it, all alike, do not take it away again."""
    rng = np.random.default_rng(seed)
    found, was = Standardiser(40), torch.zeros(40, dtype=torch.bool)
    width = 10.0 ** rng.uniform(-12, 2, 40)
    for n in (3, 10, 100, 1000, 10, 1000):
        rare = rng.random((n, 40)) < 1 / n
        rare[:2] = [[True], [False]]
        found.take_in(torch.tensor(offset + width * rare))
        assert bool((found.known | ~was).all())
        was = found.known
    assert bool(was[width > 1e-5 * max(1.0, offset)].all())
    assert not bool(was[width < 1e-8 * offset].any())


def test_a_feature_at_the_edge_of_rounding_does_not_ruin_the_network() -> None:
    """One or two values in a hundred differ, by a millionth: the deviation is around what single precision's rounding
    makes of a constant, and goes up and down. Before every task the network is the function that it was."""
    learner = find_learner("sgd")((4, 7, 2), [0], find_learner("sgd").options_type(), head="random")
    rng, first = np.random.default_rng(0), None
    for rare in (2, 0, 4, 0, 12):
        x = rng.normal(size=(100, 4))
        x[:, 3] = 1.0 + 8.5e-7 * (np.arange(100) < rare)
        given = TaskData(torch.tensor(x), torch.arange(100) % 2, slice(0, 2), slice(0, 2 if first is None else 0), 1)
        before = None if first is None else learner.logits(first, slice(0, 2))
        learner.begin_task(given)
        if before is not None:
            torch.testing.assert_close(learner.logits(first, slice(0, 2)), before, rtol=1e-3, atol=1e-3)
        learner.end_task(given)
        first = torch.tensor(x) if first is None else first
