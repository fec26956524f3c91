"""The least-squares head against scikit-learn's ridge regression."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from efc.core.network import forward
from efc.learners import SGD, Options, TaskData
from efc.learners.ridge import RidgeMoments
from support.learner_helpers import PLAIN, make, train_on
from support.tasks import toy_stream


def test_ridge_moments_equal_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    h, Y = rng.standard_normal((2, 50, 7)), rng.standard_normal((2, 50, 3))
    moments = RidgeMoments(2, 7, 3)
    for c in (slice(0, 20), slice(20, 50)):
        moments.add(torch.as_tensor(h[:, c]), torch.as_tensor(Y[:, c]))
    W, b = moments.solve(ridge=1e-2)
    for run in range(2):
        features = np.concatenate([h[run], np.ones((50, 1))], 1)  # the bias is penalised like any weight
        expected = Ridge(alpha=1e-2 * 50, fit_intercept=False).fit(features, Y[run]).coef_
        np.testing.assert_allclose(W[run], expected[:, :-1], rtol=1e-8)
        np.testing.assert_allclose(b[run], expected[:, -1], rtol=1e-8)


def test_moments_stay_accurate_for_badly_scaled_features() -> None:
    """Features of very different size in float32: the head still predicts what float64 least squares predicts."""
    rng = np.random.default_rng(1)
    h = (rng.standard_normal((1, 400, 6)) * 10.0 ** np.arange(-3, 3)).astype(np.float32)
    Y = rng.standard_normal((1, 400, 2))
    moments = RidgeMoments(1, 6, 2).add(torch.as_tensor(h), torch.as_tensor(Y))
    W, b = moments.solve(ridge=1e-12)
    features = np.concatenate([h[0].astype(np.float64), np.ones((400, 1))], 1)
    expected = features @ np.linalg.lstsq(features, Y[0], rcond=None)[0]
    np.testing.assert_allclose(h[0] @ W[0].numpy().T + b[0].numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("task", [0, 1])
def test_least_squares_sets_the_new_rows_and_no_others(task: int) -> None:
    stream = toy_stream("class", dtype=torch.float64)
    learner = SGD((6, 8, 6), [0, 1], Options(**PLAIN, ridge=1e-3), head="least_squares", dtype=torch.float64)
    before = learner.theta.clone()
    data = stream.data(task, steps=1)
    learner.begin_task(data)
    old, now = learner.layout.views(before), learner.layers
    assert torch.equal(old.weights[0], now.weights[0])
    rows = [k for k in range(6) if not data.new.start <= k < data.new.stop]
    assert torch.equal(old.weights[1][:, rows], now.weights[1][:, rows])
    h = forward(learner.layers, learner.sigma, data.x.expand(2, -1, -1)).r[-1]
    for run in range(2):
        features = np.concatenate([h[run].numpy(), np.ones((len(data.y), 1))], 1)
        Y = np.eye(6)[data.y.numpy()][:, data.new]
        expected = Ridge(alpha=1e-3 * len(data.y), fit_intercept=False).fit(features, Y).coef_
        np.testing.assert_allclose(now.weights[1][run, data.new], expected[:, :-1], rtol=1e-6)
        np.testing.assert_allclose(now.biases[1][run, data.new], expected[:, -1], rtol=1e-6)


def test_random_head_changes_nothing_and_domain_has_new_rows_only_once() -> None:
    stream = toy_stream("class", dtype=torch.float64)
    learner = SGD((6, 8, 6), [0], Options(**PLAIN), head="random", dtype=torch.float64)
    before = learner.theta.clone()
    learner.begin_task(stream.data(1, steps=1))
    assert torch.equal(learner.theta, before)
    domain = toy_stream("domain", dtype=torch.float64)
    learner = SGD((6, 8, 2), [0], Options(**PLAIN), head="least_squares", dtype=torch.float64)
    learner.begin_task(domain.data(0, steps=1))
    after = learner.theta.clone()
    learner.begin_task(domain.data(1, steps=1))
    assert torch.equal(learner.theta, after)


def test_a_wide_head_is_solved_on_several_threads() -> None:
    """1000 features and two runs: where an LU on two threads breaks down, this must not."""
    g = torch.Generator().manual_seed(0)
    h, Y = torch.rand(2, 1500, 1000, generator=g), torch.rand(2, 1500, 3, generator=g)
    moments = RidgeMoments(2, 1000, 3).add(h, Y)
    torch.set_num_threads(2)
    try:
        W, b = moments.solve(ridge=1e-3)
    finally:
        torch.set_num_threads(1)
    features = torch.cat([h.double(), torch.ones(2, 1500, 1).double()], -1)
    V = torch.cat([W, b.unsqueeze(-1)], -1).transpose(1, 2)
    gradient = features.transpose(1, 2) @ (features @ V - Y.double()) + 1.5 * V
    assert float(gradient.abs().max()) < 1e-8


def test_a_finite_but_singular_neighbour_does_no_harm() -> None:
    """Features that are copies of each other, at a scale at which the ridge is nothing: least norm, and no NaN."""
    h = torch.rand(2, 30, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    h[0] = 2.0**60 * h[0, :, :1]
    Y = torch.rand(2, 30, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    W, b = RidgeMoments(2, 4, 2).add(h, Y).solve(1e-30)
    assert torch.isfinite(W).all()
    features = np.concatenate([h[0].numpy(), np.ones((30, 1))], 1)
    expected = features @ np.linalg.lstsq(features / 2.0**60, Y[0].numpy(), rcond=1e-10)[0] / 2.0**60
    found = features[:, :-1] @ W[0].numpy().T + b[0].numpy()
    residual = [np.square(fit - Y[0].numpy()).sum() for fit in (found, expected)]
    assert residual[0] <= residual[1] * (1 + 1e-6)


def analytic_oracle(learner: SGD, kept: list[np.ndarray], labels: list[np.ndarray], ridge: float) -> np.ndarray:
    """Rows (C, d + 1) of the ridge regression on features kept from all tasks."""
    h, y = np.concatenate(kept), np.concatenate(labels)
    features = np.concatenate([h, np.ones((len(h), 1))], 1)
    return np.asarray(Ridge(alpha=ridge * len(h), fit_intercept=False).fit(features, np.eye(6)[y]).coef_)


@pytest.mark.parametrize("scenario", ["class", "task"])
def test_analytic_head_is_ridge_regression_on_the_features_of_all_tasks(scenario: str) -> None:
    """At the start of a task with its features as they are then, at the end with those it ended with; old tasks' as
    they were when they ended. Only rows of classes met are written."""
    stream = toy_stream(scenario, dtype=torch.float64)
    learner = SGD((6, 8, 6), [0, 1], Options(**PLAIN, ridge=1e-3, lr=1e-2), head="analytic", dtype=torch.float64)
    kept: list[np.ndarray] = []
    labels: list[np.ndarray] = []

    def check(task: TaskData, seen: int) -> np.ndarray:
        h = forward(learner.layers, learner.sigma, task.x.expand(2, -1, -1)).r[-1][1].numpy()
        expected = analytic_oracle(learner, [*kept, h], [*labels, task.y.numpy()], 1e-3)[:seen]
        np.testing.assert_allclose(learner.layers.weights[-1][1, :seen], expected[:, :-1], rtol=1e-6, atol=1e-10)
        np.testing.assert_allclose(learner.layers.biases[-1][1, :seen], expected[:, -1], rtol=1e-6, atol=1e-10)
        return h

    for i in range(3):
        task, seen = stream.data(i, 5), 2 * i + 2
        unseen = learner.layers.weights[-1][:, seen:].clone()
        learner.begin_task(task)
        check(task, seen)
        train_on(learner, task, 5, begin=False)
        learner.end_task(task)
        kept.append(check(task, seen))
        labels.append(task.y.numpy())
        assert torch.equal(learner.layers.weights[-1][:, seen:], unseen)


@pytest.mark.parametrize("name", ["efc", "ewc", "online_ewc", "si", "mas", "full_fisher"])
def test_what_is_preserved_of_an_analytic_head_is_the_head_as_solved_when_the_task_began(name: str) -> None:
    """Without a pull back to rows that the head policy has just replaced: at its beginning a task feels no penalty."""
    stream = toy_stream("class", dtype=torch.float64)
    learner = make(name, head="analytic")
    old = learner.layers.weights[-1].clone()
    for i in range(3):
        task = stream.data(i, 5)
        learner.begin_task(task)
        memory = learner.memory  # type: ignore[attr-defined]
        if i > 0:
            assert not torch.equal(learner.layers.weights[-1], old)
            pull = learner.layout.views(memory.gradient(learner.theta))
            if name in ("efc", "online_ewc", "si", "mas") or i == 1:
                assert max(float(t.abs().max()) for t in (*pull.weights, *pull.biases)) < 1e-12
            else:  # several anchors: hidden weights may be pulled, the head only by way of them
                assert float(pull.weights[0].abs().max()) > 0
        train_on(learner, task, 5, begin=False)
        learner.end_task(task)
        old = learner.layers.weights[-1].clone()
    with_random = make(name, head="least_squares")
    train_on(with_random, stream.data(0, 5), 5)
    with_random.end_task(stream.data(0, 5))
    kept = with_random.memory.anchor.clone()  # type: ignore[attr-defined]
    with_random.begin_task(stream.data(1, 5))
    assert torch.equal(with_random.memory.anchor, kept)  # type: ignore[attr-defined]


def test_domain_incremental_analytic_head_goes_on_with_the_shared_outputs() -> None:
    stream = toy_stream("domain", dtype=torch.float64)
    learner = SGD((6, 8, 2), [0], Options(**PLAIN, ridge=1e-3, lr=1e-9), head="analytic", dtype=torch.float64)
    for i in range(3):
        train_on(learner, stream.data(i, 1), 1)
        learner.end_task(stream.data(i, 1))
    x, y = (torch.cat([getattr(stream.data(i, 1), name) for i in range(3)]) for name in "xy")
    h = forward(learner.layers, learner.sigma, x.unsqueeze(0)).r[-1][0].numpy()
    features = np.concatenate([h, np.ones((len(h), 1))], 1)
    expected = Ridge(alpha=1e-3 * len(h), fit_intercept=False).fit(features, np.eye(2)[y]).coef_
    np.testing.assert_allclose(learner.layers.weights[-1][0], expected[:, :-1], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("head", ["least_squares", "zero"])
def test_the_first_tasks_rows_may_stay_as_they_were_drawn(head: str) -> None:
    stream = toy_stream("class", dtype=torch.float64)
    learner = SGD((6, 8, 6), [0, 1], Options(**PLAIN, first_head="drawn"), head=head, dtype=torch.float64)
    usual = SGD((6, 8, 6), [0, 1], Options(**PLAIN), head=head, dtype=torch.float64)
    drawn = learner.layers.weights[-1].clone()
    for each in (learner, usual):
        each.begin_task(stream.data(0, steps=1))
    assert torch.equal(learner.layers.weights[-1], drawn)
    assert not torch.equal(usual.layers.weights[-1][:, :2], drawn[:, :2])
    for each in (learner, usual):
        each.begin_task(stream.data(1, steps=1))
    assert torch.equal(learner.layers.weights[-1][:, 2:], usual.layers.weights[-1][:, 2:])
    assert torch.equal(learner.layers.weights[-1][:, :2], drawn[:, :2])


def test_rows_that_are_fitted_may_be_scaled_run_by_run() -> None:
    task = toy_stream("task", dtype=torch.float64).data(1, steps=1)
    heads = []
    for scale in (1.0, [1.0, 0.5]):
        options = Options(**PLAIN, head_scale=scale)
        learner = SGD((6, 8, 6), [0, 1], options, head="least_squares", dtype=torch.float64)
        learner.begin_task(task)
        heads.append((learner.layers.weights[-1][:, task.new].clone(), learner.layers.biases[-1][:, task.new].clone()))
    for whole, scaled in zip(*heads, strict=True):
        assert torch.equal(scaled[0], whole[0])
        torch.testing.assert_close(scaled[1], 0.5 * whole[1])
        assert (whole != 0).any()
