"""The head of Gaussian classes: it finds what no linear head can, follows the features, and can be stopped."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from efc.learners import SGD, Options, TaskData
from efc.learners.head_policies import gaussian
from efc.learners.head_policies.gaussian import GaussianHead

QUIET = {"lr": 1e-9}
"""Features that stay as they are."""


def rings(first: int, classes: int = 4, n: int = 300, seed: int = 0) -> TaskData:
    """Two classes about the same centre, with different spreads: no plane divides them."""
    rng = np.random.default_rng([seed, first])
    y = np.repeat([first, first + 1], n)
    x = rng.standard_normal((2 * n, 5)) * (0.3 * 3.0 ** (y - first))[:, None] + 4.0 * (first > 0)
    return TaskData(torch.tensor(x), torch.tensor(y), slice(0, first + 2), slice(first, first + 2), 1)


def learned(head: str, tasks: list[TaskData], **options: object) -> SGD:
    learner = SGD((5, 6, 4), [0, 1], Options(**{**QUIET, **options}), head=head, dtype=torch.float64)  # type: ignore[arg-type]
    for task in tasks:
        learner.begin_task(task)
        learner.step(task.x[None, :64].expand(2, -1, -1), task.y[None, :64].expand(2, -1))
        learner.end_task(task)
    return learner


def share_right(learner: SGD, tasks: list[TaskData]) -> float:
    x, y = torch.cat([task.x for task in tasks]), torch.cat([task.y for task in tasks])
    return float((learner.logits(x, slice(0, 4)).argmax(-1) == y).double().mean())


@pytest.mark.parametrize("skip", ["on", "off"])
def test_classes_that_differ_in_their_spread_alone_are_told_apart(skip: str) -> None:
    tasks = [rings(0), rings(2)]
    ours, linear = (learned(head, tasks, skip=skip) for head in ("gaussian", "input_compensated"))
    fresh = [rings(0, seed=1), rings(2, seed=1)]
    assert share_right(ours, fresh) > 0.8
    assert share_right(linear, fresh) < share_right(ours, fresh) - 0.05
    torch.testing.assert_close(ours.layers.weights[-1], linear.layers.weights[-1])  # what importances are measured with


def test_classes_that_share_their_covariance_are_left_to_the_linear_head() -> None:
    """And then it answers as that one does."""
    rng = np.random.default_rng(0)
    tasks = []
    for first in (0, 2):
        y = np.repeat([first, first + 1], 40)
        x = rng.standard_normal((80, 5)) + 1.5 * np.eye(5)[y]
        tasks.append(TaskData(torch.tensor(x), torch.tensor(y), slice(0, first + 2), slice(first, first + 2), 1))
    ours, linear = (learned(head, tasks) for head in ("gaussian", "input_compensated"))
    policy = ours.head_policy
    assert isinstance(policy, GaussianHead)
    chosen = policy.errors.argmin(1) == 0
    assert bool(chosen.any())
    answers = [learner.logits(tasks[0].x, slice(0, 4))[chosen] for learner in (ours, linear)]
    torch.testing.assert_close(*answers, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("drift", ["trusted", "checked"])
def test_the_moments_of_the_classes_stay_the_parts_of_the_whole(drift: str) -> None:
    """Whatever happens to the features and to the inputs' scale: sums over classes are the moments of the head that
    keeps no classes apart, which have tests of their own."""
    tasks = [rings(0), rings(2)]
    held = torch.arange(len(tasks[0].y)) % 4 == 0
    tasks = [TaskData(t.x, t.y, t.active, t.new, t.steps, held=held if drift == "checked" else None) for t in tasks]
    ours, other = (learned(head, tasks, lr=0.05, drift=drift) for head in ("gaussian", "input_compensated"))
    total = ours.head_policy.total  # type: ignore[attr-defined]
    torch.testing.assert_close(total.own.sum(1), total.A, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(total.A, other.head_policy.total.A, rtol=1e-8, atol=1e-8)  # type: ignore[attr-defined]


def test_it_goes_on_from_its_state_bit_for_bit() -> None:
    first, second, x = rings(0), rings(2), rings(2, seed=1).x
    whole = learned("gaussian", [first])
    again = SGD((5, 6, 4), [0, 1], Options(**QUIET), head="gaussian", dtype=torch.float64)  # type: ignore[arg-type]
    again.load_state_dict({key: value.clone() for key, value in whole.state_dict().items()})
    assert torch.equal(whole.logits(x, slice(0, 2)), again.logits(x, slice(0, 2)))
    for learner in (whole, again):
        learner.begin_task(second)
    assert torch.equal(whole.logits(x, slice(0, 4)), again.logits(x, slice(0, 4)))
    for learner in (whole, again):
        learner.end_task(second)
    assert torch.equal(whole.logits(x, slice(0, 4)), again.logits(x, slice(0, 4)))
    found, expected = (learner.head_policy.misfit(second) for learner in (whole, again))  # type: ignore[attr-defined]
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], expected[1])


def test_outputs_of_classes_to_come_can_be_asked_for() -> None:
    first = rings(0)
    learner = learned("gaussian", [first])
    z = learner.logits(first.x, slice(0, 4))
    torch.testing.assert_close(z[..., :2], learner.logits(first.x, slice(0, 2)))
    torch.testing.assert_close(learner.logits(first.x, slice(1, 3)), z[..., 1:3])


def test_with_too_many_classes_it_is_the_input_compensated_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussian, "MOST", 4 * 12**2 - 1)
    tasks = [rings(0), rings(2)]
    ours, linear = (learned(head, tasks) for head in ("gaussian", "input_compensated"))
    torch.testing.assert_close(*(learner.logits(tasks[0].x, slice(0, 4)) for learner in (ours, linear)))
    assert GaussianHead.numbers_kept((5, 6, 4)) < GaussianHead.numbers_kept((5, 6, 3))
