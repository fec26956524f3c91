"""Streaming linear discriminant analysis against the recursion of the paper, sample by sample."""

from __future__ import annotations

import torch

from efc.learners import SLDA, SLDAOptions
from support.learner_helpers import PLAIN, SIZES, fit, make
from support.tasks import toy_stream

DOUBLE = torch.float64


def streamed(shrinkage: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and biases by the paper's recursion over the stream, in its order."""
    stream = toy_stream(dtype=DOUBLE)
    mu, n = torch.zeros(6, 6, dtype=DOUBLE), torch.zeros(6, dtype=DOUBLE)
    S, t = torch.zeros(6, 6, dtype=DOUBLE), 0
    for k in range(3):
        task = stream.data(k, 1)
        for x, y in zip(task.x, task.y.tolist(), strict=True):
            if n[y] > 0:  # the class's mean is known: how far from it
                v = x - mu[y]
                S = (t * S + n[y] / (n[y] + 1) * torch.outer(v, v)) / (t + 1)
            else:
                S = t * S / (t + 1)
            mu[y] = (n[y] * mu[y] + x) / (n[y] + 1)
            n[y] += 1
            t += 1
    P = torch.linalg.inv((1 - shrinkage) * S + shrinkage * torch.eye(6, dtype=DOUBLE))
    W = mu @ P
    return W, -0.5 * (W * mu).sum(1)


def test_it_is_what_streaming_sample_by_sample_gives() -> None:
    learner = fit(SLDA(SIZES, [0, 1], SLDAOptions(**PLAIN, shrinkage=1e-2)))
    W, b = streamed(1e-2)
    torch.testing.assert_close(learner.layers.weights[-1][0], W)
    torch.testing.assert_close(learner.layers.biases[-1][1], b)


def test_runs_may_differ_in_their_shrinkage() -> None:
    learner = fit(SLDA(SIZES, [0, 1], SLDAOptions(**PLAIN, shrinkage=[1e-2, 0.5])))
    torch.testing.assert_close(learner.layers.weights[-1][1], streamed(0.5)[0])
    assert not torch.allclose(learner.layers.weights[-1][0], learner.layers.weights[-1][1], rtol=1e-2)


def test_the_order_of_tasks_does_not_matter() -> None:
    stream = toy_stream("domain", dtype=DOUBLE)
    found = []
    for order in ((0, 1, 2), (2, 0, 1)):
        learner = SLDA((6, 8, stream.n_outputs), [0], SLDAOptions(**PLAIN))
        for k in order:
            learner.begin_task(stream.data(k, 1))
            learner.end_task(stream.data(k, 1))
        found.append(learner.theta.clone())
    torch.testing.assert_close(*found)


def test_it_learns_the_toy_stream() -> None:
    learner, stream = fit(make("slda")), toy_stream(dtype=DOUBLE)
    for k in range(3):
        task = stream.data(k, 1)
        assert (learner.logits(task.x, slice(0, 6)).argmax(-1) == task.y).double().mean() > 0.95
