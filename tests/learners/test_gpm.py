"""Gradient projection memory against singular value decompositions of the samples themselves."""

from __future__ import annotations

import torch

from efc.core.network import forward
from efc.learners import GPM, GPMOptions
from support.learner_helpers import PLAIN, make, train_on
from support.tasks import toy_stream

DOUBLE = torch.float64
STREAM = toy_stream(dtype=DOUBLE)


def made(slack: float, inputs: str = "raw") -> GPM:
    learner = make("gpm", options=GPMOptions(**(PLAIN | {"inputs": inputs}), lr=1e-2, slack=slack))
    assert isinstance(learner, GPM)
    return learner


def activity(learner: GPM, k: int, layer: int, run: int) -> torch.Tensor:
    """(d + 1, samples): a task's activity now, with the constant input."""
    x = learner.standardised(STREAM.data(k, 6).x).expand(2, -1, -1)
    r = forward(learner.layers, learner.sigma, x).r[layer][run]
    return torch.cat([r, torch.ones(len(r), 1, dtype=DOUBLE)], 1).T


def test_the_space_is_that_of_the_papers_algorithm() -> None:
    """Task by task: what is outside the space so far, its singular vectors, as many as the threshold asks for."""
    slack = 0.05
    learner = made(slack)
    spaces: dict[tuple[int, int], torch.Tensor] = {}
    for k in (0, 1):
        train_on(learner, STREAM.data(k, 6), steps=6)
        learner.end_task(STREAM.data(k, 6))
        for layer in range(3):
            for run in range(2):
                R = activity(learner, k, layer, run)
                M = spaces.get((layer, run), torch.zeros(len(R), 0, dtype=DOUBLE))
                U, S, _ = torch.linalg.svd(R - M @ M.T @ R)
                held = float((M.T @ R).square().sum())
                n = 0
                while held < (1 - slack) * float(R.square().sum()):
                    held += float(S[n] ** 2)
                    n += 1
                spaces[layer, run] = torch.cat([M, U[:, :n]], 1)
                B = spaces[layer, run] @ spaces[layer, run].T
                torch.testing.assert_close(learner.directions.layers[layer][run], B, rtol=0, atol=1e-8)
    assert all(0 < M.shape[1] < M.shape[0] for M in spaces.values())


def test_without_slack_old_inputs_lead_to_the_same_pre_activations() -> None:
    learner = made(0.0)
    train_on(learner, STREAM.data(0, 6), steps=6)
    learner.end_task(STREAM.data(0, 6))
    x = STREAM.data(0, 6).x.expand(2, -1, -1)
    before = forward(learner.layers, learner.sigma, x).a[0].clone()
    train_on(learner, STREAM.data(1, 6), steps=20)
    torch.testing.assert_close(forward(learner.layers, learner.sigma, x).a[0], before, rtol=0, atol=1e-9)


def test_with_all_the_slack_it_is_plain_training_and_with_less_it_is_not() -> None:
    def trained(learner: object) -> torch.Tensor:
        for k in (0, 1):
            train_on(learner, STREAM.data(k, 6), steps=6)  # type: ignore[arg-type]
            learner.end_task(STREAM.data(k, 6))  # type: ignore[attr-defined]
        return learner.theta  # type: ignore[attr-defined]

    plain = trained(make("sgd"))
    torch.testing.assert_close(trained(made(1.0)), plain, rtol=0, atol=1e-12)
    assert not torch.allclose(trained(made(0.05)), plain, rtol=1e-3)


def test_the_space_follows_inputs_that_are_standardised_anew() -> None:
    """Protected before, an old input is protected after: its pre-activation stays, though all its numbers change."""
    learner = made(0.0, inputs="standardised")
    train_on(learner, STREAM.data(0, 6), steps=6)
    learner.end_task(STREAM.data(0, 6))
    learner.begin_task(STREAM.data(1, 6))
    x = learner.standardised(STREAM.data(0, 6).x).expand(2, -1, -1)
    before = forward(learner.layers, learner.sigma, x).a[0].clone()
    train_on(learner, STREAM.data(1, 6), steps=20, begin=False)
    torch.testing.assert_close(forward(learner.layers, learner.sigma, x).a[0], before, rtol=0, atol=1e-6)
    B = learner.directions.layers[0]
    torch.testing.assert_close(torch.bmm(B, B), B, rtol=0, atol=1e-8)
