"""Standardised inputs: every feature about its running mean, in units of its running deviation.

Mean and deviation are learned from the stream itself, task by task, and what is kept (weights, anchors, moments,
importances) follows when they change: the network goes on computing the same function of the raw inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from efc.core.network import Layout
from efc.learners.state import Stored

LIMIT = 10.0
"""Deviations from the mean that are let through: an outlier, or a rare value of a sparse column, counts as this far."""
CONSTANT = 5e-7
"""The range, as a share of its largest value, that rounding to single precision may give a feature that is constant."""
CHUNK = 4096


@dataclass(frozen=True)
class Change:
    """Standardised inputs have become ``x_new = a x_old + c``, (d,) each, in float64.

    A feature that was constant so far had no deviation to be measured in: its weights stay as they are, because no old
    sample says anything about them.
    """

    a: Tensor
    c: Tensor
    known: Tensor
    """(d,): whether the feature had a deviation before."""

    def inputs(self, x: Tensor) -> Tensor:
        """Inputs (..., d) that were standardised in the old way."""
        return x * self.a.to(x) + self.c.to(x)

    def weights(self, layout: Layout, flat: Tensor) -> None:
        """Parameters (R, P), in place: ``W_new = W / a``, ``b_new = b - W_new c``, the same function of raw inputs."""
        layers = layout.views(flat)
        W, b = layers.weights[0], layers.biases[0]
        W.mul_(torch.where(self.known, 1.0 / self.a, 1.0).to(W))
        b.sub_(torch.matmul(W, self.c.to(W)))

    def importances(self, layout: Layout, flat: Tensor) -> None:
        """Importances (R, P), in place. A weight's gradient is ``delta x``: ``a^2 Omega_W + c^2 Omega_b``, but for the
        product of the two parts, of which a diagonal says nothing."""
        layers = layout.views(flat)
        W, b = layers.weights[0], layers.biases[0]
        W.mul_(torch.where(self.known, self.a.square(), 1.0).to(W)).add_(b.unsqueeze(-1) * self.c.square().to(W))

    def moments(self, A: Tensor, symmetric: bool = True) -> None:
        """Sums of products (R, n, m), in place, whose first d rows belong to the inputs and whose last to the constant
        one; ``symmetric``: the columns likewise."""
        d = len(self.a)
        A[:, :d] = self.a[:, None] * A[:, :d] + self.c[:, None] * A[:, -1:]
        if symmetric:
            A[:, :, :d] = A[:, :, :d] * self.a + A[:, :, -1:] * self.c


@runtime_checkable
class FollowsInputs(Protocol):
    """A part of a learner that keeps something of the inputs."""

    def follow_inputs(self, change: Change) -> None: ...


class Standardiser(Stored):
    """Mean and variance of every feature over all tasks so far, in float64.

    Args:
        d: The number of features.
        device: Where they live.
    """

    stored = ("mean", "variance", "n", "low", "high")

    def __init__(self, d: int, device: torch.device | str = "cpu") -> None:
        self.mean = torch.zeros(d, dtype=torch.float64, device=device)
        self.variance = torch.zeros(d, dtype=torch.float64, device=device)
        self.n = torch.zeros((), dtype=torch.float64, device=device)
        self.low = torch.full((d,), float("inf"), dtype=torch.float64, device=device)
        self.high = torch.full((d,), float("-inf"), dtype=torch.float64, device=device)

    @property
    def known(self) -> Tensor:
        """Whether a feature has been seen to vary, beyond what rounding makes of a constant.

        Once it has, it has for good: where a new value raises ``largest``, it widens the range by as much. A deviation
        may fall when more is seen, and weights that were converted to its unit would be taken for those of another.
        """
        largest = torch.maximum(self.low.abs(), self.high.abs())
        return (self.high - self.low > CONSTANT * largest) & (self.variance > 0)

    @property
    def scale(self) -> Tensor:
        return torch.where(self.known, self.variance.sqrt(), 1.0)

    def __call__(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Raw inputs (..., d), standardised."""
        if x.dtype is not torch.float64:  # a large offset must not eat the digits
            x = x.double()
        return ((x - self.mean) / self.scale).clamp_(-LIMIT, LIMIT).to(dtype)

    def take_in(self, x: Tensor) -> Change | None:
        """A new task's raw inputs (N, d); how standardised inputs change by them, None for the first task."""
        mean, scale, known, n = self.mean, self.scale, self.known, self.n
        for part in x.split(CHUNK):
            self._merge(part.double())
        if float(n) == 0:
            return None
        return Change(scale / self.scale, (mean - self.mean) / self.scale, known)

    def _merge(self, x: Tensor) -> None:
        """Chan's rule for the mean and variance of two samples together."""
        m = float(len(x))
        total = self.n + m
        difference = x.mean(0) - self.mean
        spread = self.n * self.variance + m * x.var(0, correction=0) + difference.square() * self.n * m / total
        self.mean = self.mean + difference * m / total
        self.variance, self.n = spread / total, total
        self.low, self.high = torch.minimum(self.low, x.amin(0)), torch.maximum(self.high, x.amax(0))

    def far(self, x: Tensor) -> Tensor:
        """(N,): how far any feature lies from the middle of the values that were seen, the farthest of these being one;
        for a feature that did not vary, in its own units."""
        half = torch.where(self.known, (self.high - self.low) / 2, 1.0)
        return ((x.double() - (self.low + self.high) / 2) / half).abs().amax(-1)

    def reset(self) -> None:
        self.__init__(len(self.mean), self.mean.device)  # type: ignore[misc]
