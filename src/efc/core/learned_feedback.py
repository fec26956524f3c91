"""Feedback weights learned from noise: an anti-Hebbian rule that makes ``Q_i`` an estimate of ``J_i^T = (dz/da_i)^T``.

Every hidden neuron's pre-activation is jittered by its own slow (Ornstein-Uhlenbeck) noise ``xi``. The controller sees
the logits deviate from their noiseless value and answers ``u = -(z - z_free)``; a neuron's noise correlated with ``u``,

    dQ_i = -xi_i u^T / s^2 - Q_i,      hence at rest      Q_i = E[xi_i (z - z_free)^T] / s^2 ~ E[J_i^T],

tells how that neuron moves the output, without weight transport. The noise must be slow against ``tau``, or it has
moved on before its effect arrives.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from efc.core.activations import Activation
from efc.core.network import Parameters, affine, flat_bmm, forward


@dataclass(frozen=True)
class FeedbackLearning:
    """A bout of noisy dynamics: ``steps`` Euler steps of ``dt`` (tau = 1), noise of size ``noise`` and its memory."""

    rate: float = 0.05
    steps: int = 40
    dt: float = 0.5
    tau_noise: float = 20.0
    noise: float = 0.02

    def update(
        self,
        Q: Sequence[Tensor],
        theta: Parameters,
        sigma: Activation,
        x: Tensor,
        generators: Sequence[torch.Generator],
    ) -> list[Tensor]:
        """Feedback weights (R, d_i, C) after one bout on the inputs ``x`` (R, B, d_0); run r uses its own generator."""
        free = forward(theta, sigma, x)
        r = list(free.r[1:])
        xi = [self.noise * _normal(t, generators) for t in r]
        keep = 1 - self.dt / self.tau_noise
        kick = self.noise * math.sqrt(1 - keep * keep)
        correlation = [torch.zeros_like(q) for q in Q]
        warm_up = self.steps // 4
        for step in range(self.steps):
            for i in reversed(range(len(r))):
                a = free.a[0] if i == 0 else affine(r[i - 1], theta.weights[i], theta.biases[i])
                r[i] = r[i] + self.dt * (sigma.rate(a + xi[i]) - r[i])
            u = free.z - affine(r[-1], theta.weights[-1], theta.biases[-1])
            if step >= warm_up:
                for i, c in enumerate(correlation):
                    c.baddbmm_(xi[i].transpose(1, 2), u)
            xi = [keep * t + kick * _normal(t, generators) for t in xi]
        scale = 1.0 / (self.noise**2 * x.shape[1] * (self.steps - warm_up))
        return [q + self.rate * (-scale * c - q) for q, c in zip(Q, correlation, strict=True)]


def jacobian_transpose(theta: Parameters, sigma: Activation, x: Tensor) -> list[Tensor]:
    """The batch mean of ``(dz/da_i)^T`` (R, d_i, C) for each hidden layer: what ``Q`` is meant to become."""
    free = forward(theta, sigma, x)
    g = theta.weights[-1].unsqueeze(1).expand(-1, x.shape[1], -1, -1)
    result: list[Tensor] = []
    for i in range(len(theta.weights) - 2, -1, -1):
        delta = sigma.slope(free.a[i], free.r[i + 1]).unsqueeze(2) * g
        result.append(delta.mean(1).transpose(1, 2))
        g = flat_bmm(delta, theta.weights[i]) if i > 0 else g
    return result[::-1]


def alignment(Q: Sequence[Tensor], J_T: Sequence[Tensor]) -> Tensor:
    """Cosine of the angle between ``Q_i`` and ``J_i^T``, one number per run and hidden layer: (R, L-1)."""
    return torch.stack(
        [torch.nn.functional.cosine_similarity(q.flatten(1), j.flatten(1), dim=1) for q, j in zip(Q, J_T, strict=True)],
        1,
    )


def _normal(like: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
    """Standard normal noise shaped like (R, B, d), run r from ``generators[r]``: no run depends on another."""
    draws = [torch.randn(like.shape[1:], generator=g, dtype=like.dtype, device=g.device) for g in generators]
    return torch.stack(draws).to(like.device)
