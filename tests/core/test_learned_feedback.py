"""Noise teaches the feedback weights where the outputs come from."""

from __future__ import annotations

import pytest
import torch

from efc.core import Layout, activation, initialise
from efc.core.learned_feedback import FeedbackLearning, alignment, jacobian_transpose


def net(runs: int) -> tuple[Layout, torch.Tensor, torch.Tensor]:
    layout = Layout((10, 20, 12, 5))
    theta = initialise(layout, [torch.Generator().manual_seed(s) for s in range(runs)])
    x = torch.rand(runs, 32, 10, generator=torch.Generator().manual_seed(9))
    return layout, theta, x


@pytest.mark.parametrize("name", ["relu", "softplus"])
def test_jacobian_transpose_equals_autograd(name: str) -> None:
    layout, theta, x = net(1)
    layers, sigma = layout.views(theta), activation(name)

    def from_a2(a2: torch.Tensor) -> torch.Tensor:
        return layers.weights[2][0] @ sigma.rate(a2) + layers.biases[2][0]

    def from_a1(a1: torch.Tensor) -> torch.Tensor:
        return from_a2(layers.weights[1][0] @ sigma.rate(a1) + layers.biases[1][0])

    a1 = x[0] @ layers.weights[0][0].T + layers.biases[0][0]
    a2 = sigma.rate(a1) @ layers.weights[1][0].T + layers.biases[1][0]
    J = jacobian_transpose(layers, sigma, x)
    expected1 = torch.stack([torch.autograd.functional.jacobian(from_a1, a) for a in a1]).mean(0).T
    expected2 = torch.stack([torch.autograd.functional.jacobian(from_a2, a) for a in a2]).mean(0).T
    torch.testing.assert_close(J[0][0], expected1)
    torch.testing.assert_close(J[1][0], expected2)


def test_anti_hebbian_learning_aligns_with_the_jacobian() -> None:
    layout, theta, x = net(2)
    layers, sigma = layout.views(theta), activation("relu")
    generators = [torch.Generator().manual_seed(s) for s in range(2)]
    J = jacobian_transpose(layers, sigma, x)
    Q = [torch.zeros_like(j) for j in J]
    for _ in range(80):
        Q = FeedbackLearning().update(Q, layers, sigma, x, generators)
    assert (alignment(Q, J) > 0.95).all()
    for q, j in zip(Q, J, strict=True):
        assert 0.7 < float(q.norm() / j.norm()) < 1.3  # the size is right too, not only the direction


def test_without_noise_correlation_nothing_is_learned() -> None:
    """The rule is driven by the response to noise: on a net whose output ignores the hidden units Q decays to zero."""
    layout, theta, x = net(1)
    layers = layout.views(theta)
    layers.weights[2].zero_()
    Q = [torch.ones(1, 20, 5), torch.ones(1, 12, 5)]
    for _ in range(60):
        Q = FeedbackLearning(rate=0.1).update(Q, layers, activation("relu"), x, [torch.Generator().manual_seed(0)])
    assert all(float(q.abs().max()) < 0.01 for q in Q)


def test_a_runs_noise_is_its_own() -> None:
    layout, theta, x = net(2)
    sigma, rule = activation("relu"), FeedbackLearning()
    Q = [torch.zeros(2, 20, 5), torch.zeros(2, 12, 5)]
    both = rule.update(Q, layout.views(theta), sigma, x, [torch.Generator().manual_seed(s) for s in (3, 4)])
    alone = rule.update([q[1:] for q in Q], layout.views(theta[1:]), sigma, x[1:], [torch.Generator().manual_seed(4)])
    for many, one in zip(both, alone, strict=True):
        torch.testing.assert_close(many[1], one[0], rtol=1e-4, atol=1e-6)
