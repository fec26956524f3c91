"""Random features before ridge regression."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from efc.core.network import forward
from efc.learners import Analytic
from efc.learners.analytic import AnalyticOptions
from support.learner_helpers import PLAIN, SIZES, fit
from support.tasks import toy_stream

DOUBLE = torch.float64


def made(seeds: tuple[int, ...] = (0, 1), **options: Any) -> Analytic:
    return Analytic(SIZES, list(seeds), AnalyticOptions(**(PLAIN | {"ridge": 1e-3, "width": 9} | options)))


@pytest.mark.parametrize("features", ["relu", "fourier"])
def test_the_head_is_ridge_regression_on_the_random_features_of_all_data(features: str) -> None:
    learner, stream = made(features=features), toy_stream(dtype=DOUBLE)
    first = [t.clone() for t in (learner.layers.weights[0], learner.layers.biases[0])]
    fit(learner)
    assert torch.equal(learner.layers.weights[0], first[0])  # drawn once, never trained
    tasks = [stream.data(k, 1) for k in range(3)]
    x, y = torch.cat([t.x for t in tasks]), torch.cat([t.y for t in tasks])
    for run in range(2):
        a = x @ first[0][run].T + first[1][run]
        h = torch.relu(a) if features == "relu" else torch.cos(a)
        h1 = torch.cat([h, torch.ones(len(h), 1, dtype=DOUBLE)], 1)
        Y = torch.nn.functional.one_hot(y, 6).double()
        V = torch.linalg.solve(h1.T @ h1 + 1e-3 * len(y) * torch.eye(10, dtype=DOUBLE), h1.T @ Y)
        torch.testing.assert_close(learner.layers.weights[1][run], V[:-1].T)
        torch.testing.assert_close(learner.logits(x, slice(0, 6))[run], h1 @ V)


def test_every_seed_draws_features_of_its_own() -> None:
    learner = made()
    assert not torch.allclose(learner.layers.weights[0][0], learner.layers.weights[0][1])
    alone = made(seeds=(1,))
    assert torch.equal(learner.layers.weights[0][1], alone.layers.weights[0][0])


def test_the_bandwidth_scales_the_weights() -> None:
    assert torch.allclose(made(bandwidth=3.0).layers.weights[0], 3.0 * made().layers.weights[0])


def test_random_features_stay_the_same_functions_of_raw_inputs() -> None:
    """Standardised anew, the moments of old features still are those of the same features."""
    learner, stream = made(inputs="standardised"), toy_stream(dtype=DOUBLE)
    for k in (0, 1):
        learner.begin_task(stream.data(k, 1))
        learner.end_task(stream.data(k, 1))
    x = torch.cat([stream.data(k, 1).x for k in (0, 1)])
    h = forward(learner.layers, learner.sigma, learner.standardised(x).expand(2, -1, -1)).r[-1]
    h1 = torch.cat([h, torch.ones(2, len(x), 1, dtype=DOUBLE)], -1)
    torch.testing.assert_close(learner.moments.A, torch.bmm(h1.transpose(1, 2), h1))


def test_without_a_width_nothing_is_drawn_and_one_copy_is_kept() -> None:
    assert len(made(width=0).moments.A) == 1
    assert len(made(width=0).layers.weights) == 1
    assert len(made().moments.A) == 2
