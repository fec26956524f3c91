"""The least-squares head against scikit-learn's ridge regression."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from efc.core.network import forward
from efc.learners import SGD, Options
from efc.learners.heads import RidgeMoments
from tasks import toy_stream


def test_ridge_moments_equal_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    h, Y = rng.standard_normal((2, 50, 7)), rng.standard_normal((2, 50, 3))
    moments = RidgeMoments()
    for chunk in (slice(0, 20), slice(20, 50)):
        moments.add(torch.as_tensor(h[:, chunk]), torch.as_tensor(Y[:, chunk]))
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
    moments = RidgeMoments()
    moments.add(torch.as_tensor(h), torch.as_tensor(Y))
    W, b = moments.solve(ridge=1e-12)
    features = np.concatenate([h[0].astype(np.float64), np.ones((400, 1))], 1)
    expected = features @ np.linalg.lstsq(features, Y[0], rcond=None)[0]
    np.testing.assert_allclose(h[0] @ W[0].numpy().T + b[0].numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("task", [0, 1])
def test_least_squares_sets_the_new_rows_and_no_others(task: int) -> None:
    stream = toy_stream("class", dtype=torch.float64)
    learner = SGD((6, 8, 6), [0, 1], Options(ridge=1e-3), head="least_squares", dtype=torch.float64)
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
    learner = SGD((6, 8, 6), [0], head="random", dtype=torch.float64)
    before = learner.theta.clone()
    learner.begin_task(stream.data(1, steps=1))
    assert torch.equal(learner.theta, before)
    domain = toy_stream("domain", dtype=torch.float64)
    learner = SGD((6, 8, 2), [0], head="least_squares", dtype=torch.float64)
    learner.begin_task(domain.data(0, steps=1))
    after = learner.theta.clone()
    learner.begin_task(domain.data(1, steps=1))
    assert torch.equal(learner.theta, after)


def test_a_wide_head_is_solved_on_several_threads() -> None:
    """1000 features and two runs: where an LU on two threads breaks down, this must not."""
    g = torch.Generator().manual_seed(0)
    h, Y = torch.rand(2, 1500, 1000, generator=g), torch.rand(2, 1500, 3, generator=g)
    moments = RidgeMoments()
    moments.add(h, Y)
    torch.set_num_threads(2)
    try:
        W, b = moments.solve(ridge=1e-3)
    finally:
        torch.set_num_threads(1)
    features = torch.cat([h.double(), torch.ones(2, 1500, 1).double()], -1)
    V = torch.cat([W, b.unsqueeze(-1)], -1).transpose(1, 2)
    gradient = features.transpose(1, 2) @ (features @ V - Y.double()) + 1.5 * V
    assert float(gradient.abs().max()) < 1e-8
