"""The compensated heads: old moments follow the features, and where these stay it is the analytic head."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from efc.core.network import forward
from efc.learners import SGD, Learner, Options, TaskData
from efc.learners.head_policies import CompensatedHead, InputCompensatedHead
from efc.learners.ridge import RidgeMoments
from support.learner_helpers import PLAIN, fit, make, train_on
from support.tasks import toy_stream


def features(learner: Learner, task: TaskData) -> torch.Tensor:
    return forward(learner.layers, learner.sigma, task.x.expand(learner.runs, -1, -1)).r[-1]


COMPENSATED = ("compensated", "input_compensated")


def one(h: np.ndarray) -> np.ndarray:
    return np.concatenate([h, np.ones((*h.shape[:-1], 1))], -1)


def test_moments_carried_along_a_linear_change_are_those_of_the_changed_features() -> None:
    g = torch.Generator().manual_seed(0)
    h, Y = (torch.rand(2, 40, n, generator=g, dtype=torch.float64) for n in (5, 3))
    W, b = torch.randn(2, 5, 5, generator=g, dtype=torch.float64), torch.randn(2, 5, generator=g, dtype=torch.float64)
    carried = RidgeMoments(2, 5, 3).add(h, Y).carry(W, b)
    expected = RidgeMoments(2, 5, 3).add(h + h @ W.transpose(1, 2) + b.unsqueeze(1), Y)
    torch.testing.assert_close(carried.A, expected.A, rtol=1e-10, atol=1e-9)
    torch.testing.assert_close(carried.T, expected.T, rtol=1e-10, atol=1e-9)
    same = RidgeMoments(2, 5, 3).add(h, Y)
    A, T = same.A.clone(), same.T.clone()
    same.carry(torch.zeros_like(W), torch.zeros_like(b))
    assert torch.equal(same.A, A)
    assert torch.equal(same.T, T)


def test_moments_with_inputs_are_the_moments_of_inputs_and_features_together() -> None:
    g = torch.Generator().manual_seed(1)
    x = torch.rand(30, 4, generator=g)
    h, Y = (torch.rand(2, 30, n, generator=g, dtype=torch.float64) for n in (5, 3))
    found = RidgeMoments(2, 9, 3)
    for part in (slice(0, 12), slice(12, 30)):
        found.add_with_inputs(x[part], h[:, part], Y[:, part])
    expected = RidgeMoments(2, 9, 3).add(torch.cat([x.double().expand(2, -1, -1), h], -1), Y)
    for a, b in zip(found.of_last(9).state_dict().values(), expected.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    alone = RidgeMoments(2, 5, 3).add(h, Y)
    for a, b in zip(found.of_last(5).state_dict().values(), alone.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scenario", ["class", "task", "domain"])
@pytest.mark.parametrize("compensated", COMPENSATED)
def test_where_the_features_stay_it_is_the_analytic_head(compensated: str, scenario: str) -> None:
    sizes = (6, 8, 7, 2 if scenario == "domain" else 6)
    ends = []
    for head in ("analytic", compensated):
        learner = type(make("frozen"))(sizes, [0, 1], Options(**PLAIN, lr=1e-2), head=head, dtype=torch.float64)
        ends.append(fit(learner, scenario).theta)
    if compensated == "compensated":  # bit for bit; with the inputs the same sums are taken in other pieces
        assert torch.equal(*ends)
    torch.testing.assert_close(*ends, rtol=1e-9, atol=1e-11)


def test_a_linear_change_of_the_features_is_followed_exactly() -> None:
    """Each unit scaled by its own factor: a ReLU's features change linearly, and old moments become those that the old
    data would give now."""
    stream = toy_stream("class", dtype=torch.float64)
    learner = SGD(
        (6, 5, 6), [0, 1], Options(**PLAIN, lr=1e-3, drift_ridge=1e-14), head="compensated", dtype=torch.float64
    )
    first, second = stream.data(0, 5), stream.data(1, 5)
    train_on(learner, first, 5)
    learner.end_task(first)
    learner.begin_task(second)
    moved = features(learner, second).std(1) > 0.05  # units that the second task's data show
    assert int(moved.sum(1).min()) >= 2
    factor = torch.where(moved, torch.linspace(0.5, 2.0, 5, dtype=torch.float64), 1.0)
    learner.layers.weights[0].mul_(factor.unsqueeze(-1))
    learner.layers.biases[0].mul_(factor)
    policy = learner.head_policy
    assert isinstance(policy, CompensatedHead)
    stale = policy.total.A.clone()
    policy.total.carry(*policy._drift(second)[:2])
    expected = policy.moments(first, slice(0, 6))
    torch.testing.assert_close(policy.total.A, expected.A, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(policy.total.T, expected.T, rtol=1e-6, atol=1e-6)
    assert float((stale - expected.A).abs().max()) > 1.0


def test_a_change_that_the_features_do_not_show_is_followed_from_the_inputs() -> None:
    """Five units that are always on are linear in six inputs; new weights may then be any, and what the units will be
    cannot be told from what they were, but from the inputs it can."""
    stream = toy_stream("class", dtype=torch.float64)
    off = {}
    for head in COMPENSATED:
        learner = SGD((6, 5, 6), [0, 1], Options(**PLAIN, lr=1e-12, drift_ridge=1e-14), head=head, dtype=torch.float64)
        learner.layers.biases[0].fill_(50.0)
        first, second = stream.data(0, 5), stream.data(1, 5)
        train_on(learner, first, 1)
        learner.end_task(first)
        learner.begin_task(second)
        g = torch.Generator().manual_seed(3)
        learner.layers.weights[0].copy_(torch.randn(2, 5, 6, generator=g, dtype=torch.float64))
        policy = learner.head_policy
        assert isinstance(policy, CompensatedHead)
        policy.total.carry(*policy._drift(second)[:2])
        now = RidgeMoments(2, 5, 6).add(features(learner, first), learner.one_hot(first.y.expand(2, -1), slice(0, 6)))
        off[head] = float((policy.kept().A - now.A).abs().max() + (policy.kept().T - now.T).abs().max())
    assert off["input_compensated"] < 1e-3
    assert off["compensated"] > 10


def test_three_tasks_with_inputs_against_a_dense_reference() -> None:
    """As below, with the drift fitted on inputs and features together, for one run of two."""
    ridge, drift_ridge = 1e-3, 1e-2
    stream = toy_stream("class", dtype=torch.float64)
    options = Options(**PLAIN, lr=1e-2, ridge=ridge, drift_ridge=drift_ridge)
    learner = SGD((6, 8, 6), [0, 1], options, head="input_compensated", dtype=torch.float64)
    assert isinstance(learner.head_policy, InputCompensatedHead)
    A, T, n = np.zeros((15, 15)), np.zeros((15, 6)), 0
    for i in range(3):
        task = stream.data(i, 5)
        x, Y = task.x.numpy(), np.eye(6)[task.y.numpy()]
        old = one(np.concatenate([x, features(learner, task)[1].numpy()], -1))
        train_on(learner, task, 5)
        learner.end_task(task)
        new = one(np.concatenate([x, features(learner, task)[1].numpy()], -1))
        if i > 0:
            D = np.linalg.solve(old.T @ old + drift_ridge * len(Y) * np.eye(15), old.T @ (new - old))
            assert np.abs(D[:, :6]).max() == np.abs(D[:, -1]).max() == 0  # neither inputs nor the one change
            M = np.eye(15) + D
            A, T = M.T @ A @ M, M.T @ T
        A, T, n = A + new.T @ new, T + new.T @ Y, n + len(Y)
        V = np.linalg.solve(A[6:, 6:] + ridge * n * np.eye(9), T[6:]).T[: 2 * i + 2]
        np.testing.assert_allclose(learner.layers.weights[-1][1, : 2 * i + 2], V[:, :-1], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(learner.layers.biases[-1][1, : 2 * i + 2], V[:, -1], rtol=1e-6, atol=1e-9)


def test_three_tasks_against_a_dense_reference() -> None:
    """Moments, drift and head of every task by plain numpy, in one run of two."""
    ridge, drift_ridge = 1e-3, 1e-2
    stream = toy_stream("class", dtype=torch.float64)
    options = Options(**PLAIN, lr=1e-2, ridge=ridge, drift_ridge=drift_ridge)
    learner = SGD((6, 8, 6), [0, 1], options, head="compensated", dtype=torch.float64)
    A, T, n = np.zeros((9, 9)), np.zeros((9, 6)), 0
    for i in range(3):
        task = stream.data(i, 5)
        Y = np.eye(6)[task.y.numpy()]
        old = one(features(learner, task)[1].numpy())
        train_on(learner, task, 5)
        learner.end_task(task)
        new = one(features(learner, task)[1].numpy())
        if i > 0:
            D = np.linalg.solve(old.T @ old + drift_ridge * len(Y) * np.eye(9), old.T @ (new - old))
            M = np.eye(9) + D
            A, T = M.T @ A @ M, M.T @ T
            assert np.abs(D).max() > 1e-3
        A, T, n = A + new.T @ new, T + new.T @ Y, n + len(Y)
        V = np.linalg.solve(A + ridge * n * np.eye(9), T).T[: 2 * i + 2]
        np.testing.assert_allclose(learner.layers.weights[-1][1, : 2 * i + 2], V[:, :-1], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(learner.layers.biases[-1][1, : 2 * i + 2], V[:, -1], rtol=1e-6, atol=1e-9)


def test_with_very_many_inputs_it_is_the_compensated_head() -> None:
    """Their moments would take gigabytes; with one input less than that they are kept."""
    generator = torch.Generator().manual_seed(0)
    ends, kept = [], []
    for head in COMPENSATED:
        learner = SGD((2049, 4, 4), [0, 1], Options(lr=1e-2), head=head, dtype=torch.float64)
        for first in (0, 2):
            x = torch.randn(20, 2049, generator=generator.manual_seed(first), dtype=torch.float64)
            y = first + torch.arange(20) % 2
            task = TaskData(x, y, slice(0, first + 2), slice(first, first + 2), steps=3)
            train_on(learner, task, 3)
            learner.end_task(task)
        ends.append(learner.logits(x, slice(0, 4)))
        kept.append(learner.head_policy.total.A.shape[-1])  # type: ignore[attr-defined]
    assert torch.equal(*ends)
    assert kept == [5, 5]
    assert InputCompensatedHead.n_features((2048, 4, 4)) == 2052
    assert InputCompensatedHead.numbers_kept((2049, 4, 4)) == CompensatedHead.numbers_kept((2049, 4, 4))


def test_a_task_trains_its_own_classes_unless_old_ones_are_replayed() -> None:
    stream = toy_stream("class", dtype=torch.float64)
    for name, trained in (("sgd", slice(2, 4)), ("efc", slice(2, 4)), ("derpp", slice(0, 4)), ("joint", slice(0, 4))):
        learner = make(name, head="compensated")
        for i in range(2):
            task = stream.data(i, 5, learner.joint)
            train_on(learner, task, 3)
            if i == 0:
                learner.end_task(task)
        assert learner.active == trained, name
    domain = SGD((6, 8, 2), [0], head="compensated", dtype=torch.float64)
    domain.begin_task(toy_stream("domain", dtype=torch.float64).data(1, 5))
    assert domain.active == slice(0, 2)
    plain = make("sgd", head="analytic")
    plain.begin_task(stream.data(1, 5))
    assert plain.active == slice(0, 4)


def test_drifting_features_are_survived() -> None:
    """Plain training at a rate that moves the features: with the old moments as they were the first tasks are lost."""
    kept = {}
    for head in ("analytic", *COMPENSATED):
        learner = SGD((6, 12, 6), [0, 1, 2], Options(**PLAIN, lr=1e-2, ridge=1e-4), head=head)
        fit(learner, epochs=10)
        stream = toy_stream("class")
        hits = []
        for task in stream.tasks:
            test = task.parts["test"]
            hits.append((learner.logits(test.x, slice(0, 6)).argmax(-1) == test.y).double().mean())
        kept[head] = 100 * float(torch.stack(hits).mean())
    assert kept["compensated"] > kept["analytic"] + 2
    assert kept["input_compensated"] > kept["analytic"] + 2
