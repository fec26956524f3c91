"""Remembered activity as curvature, ``H = blockdiag_i (A_i (x) I)``: its products, its inverse, and what it bounds.

``A_i = mean [r_{i-1} 1]^T [r_{i-1} 1]`` over samples of task A. Nothing here is P x P: a gradient is
``delta_i [r_{i-1} 1]`` per sample and layer, and only these factors are used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from efc.core.moments import with_one
from efc.core.network import Layout, backward, forward
from efc.core.outputs import loss_gradient
from efc.streams.split import Part
from efc.theory.rows import layers_of
from efc.theory.situation import Situation, one_hot


def moments(s: Situation, theta: Tensor, x: Tensor) -> list[Tensor]:
    """``A_i`` (d_{i-1} + 1, d_{i-1} + 1) of every layer, float64, at ``theta`` (P,)."""
    rates = forward(layers_of(s.layout, theta, s.classes), s.sigma, x.unsqueeze(0)).r
    return [r1[0].T @ r1[0] / r1.shape[1] for r1 in map(with_one, rates)]


@dataclass(frozen=True)
class Factors:
    """The gradients of n samples, ``delta_i`` (n, d_i) and ``[r_{i-1} 1]`` (n, d_{i-1} + 1) per layer, float64."""

    deltas: list[Tensor]
    rates: list[Tensor]

    @classmethod
    def of(cls, s: Situation, theta: Tensor, part: Part, classes: slice) -> Factors:
        """Of the cross-entropy over ``classes``; the head's deltas are zero for all other outputs."""
        layers = layers_of(s.layout, theta, classes)
        trace = forward(layers, s.sigma, part.x.unsqueeze(0))
        delta = loss_gradient("softmax", trace.z, one_hot(part.y, classes, theta).unsqueeze(0))
        deltas = [d[0].double() for d in backward(layers, s.sigma, trace, delta)]
        head = deltas[-1].new_zeros(len(part.y), s.layout.sizes[-1])
        head[:, classes] = deltas[-1]
        return cls([*deltas[:-1], head], [r1[0] for r1 in map(with_one, trace.r)])

    @property
    def norm(self) -> float:
        """Of ``F = mean_n g_n g_n^T``: the root of ``mean_nm (g_n . g_m)^2``."""
        gram = torch.stack([(d @ d.T) * (r @ r.T) for d, r in zip(self.deltas, self.rates, strict=True)]).sum(0)
        return float(gram.square().mean().sqrt())


@dataclass(frozen=True)
class Kronecker:
    """``blockdiag_i (A_i (x) B_i)``: inputs' moments, and the outputs' factor (the identity if there is none)."""

    layout: Layout
    inputs: list[Tensor]
    outputs: list[Tensor] | None = None

    def norms(self) -> list[float]:
        """Of the layers' blocks."""
        widths = self.layout.sizes[1:]
        outer = [math.sqrt(d) for d in widths] if self.outputs is None else [float(B.norm()) for B in self.outputs]
        return [float(A.norm()) * b for A, b in zip(self.inputs, outer, strict=True)]

    @property
    def norm(self) -> float:
        return math.hypot(*self.norms())

    def inner(self, F: Factors) -> float:
        """``<H, F> = mean_n sum_i (delta_i^T B_i delta_i) ([r 1]^T A_i [r 1])``."""
        total = 0.0
        for i, (d, r, A) in enumerate(zip(F.deltas, F.rates, self.inputs, strict=True)):
            image = d if self.outputs is None else d @ self.outputs[i]
            total += float(((image * d).sum(1) * ((r @ A) * r).sum(1)).mean())
        return total

    def normalised(self, F: Factors) -> float:
        """``<H, F> / (|H| |F|)``."""
        lengths = self.norm * F.norm
        return self.inner(F) / lengths if lengths > 0 else 0.0

    def times(self, v: Tensor) -> Tensor:
        """``H v`` for v (P,), without an output factor: ``dW A`` layer by layer."""
        return self._each(v, [A.to(v) for A in self.inputs])

    def damped_inverse(self, v: Tensor, damping: float) -> Tensor:
        """``(H + damping I)^{-1} v``, likewise."""
        damped = (A + damping * torch.eye(len(A), dtype=A.dtype, device=A.device) for A in self.inputs)
        return self._each(v, [torch.linalg.inv(A).to(v) for A in damped])

    def _each(self, v: Tensor, matrices: list[Tensor]) -> Tensor:
        out = torch.zeros_like(v).unsqueeze(0)
        given, found = self.layout.views(v.unsqueeze(0)), self.layout.views(out)
        for i, M in enumerate(matrices):
            image = torch.cat([given.weights[i][0], given.biases[i][0].unsqueeze(1)], 1) @ M
            found.weights[i].copy_(image[:, :-1])
            found.biases[i].copy_(image[:, -1])
        return out[0]


def output_factors(F: Factors) -> list[Tensor]:
    """``B_i = mean delta_i delta_i^T``."""
    return [d.T @ d / len(d) for d in F.deltas]


@dataclass(frozen=True)
class Bound:
    """What remembered activity says about forgetting at weights ``theta``, and what has been forgotten."""

    forgotten: float
    shift: float
    """The root mean square of ``|dz|``, the change of task A's outputs."""
    rho: float
    """Its bound, ``sum_i (prod_{k>i} |W_k|) sqrt(2 R_i)``."""
    bound: float
    """``e rho + rho^2 / 4`` with ``e`` the root mean square of ``|p - y|``: at least what has been forgotten."""
    bound_of_R: float
    """The same from ``R = sum_i R_i`` alone: ``rho <= sqrt(2 R sum_i prod_{k>i} |W_k|^2)``."""
    R: float


def forgetting_bound(s: Situation, theta: Tensor, anchor: Tensor, A: list[Tensor], part: Part) -> Bound:
    """For task A's samples ``part`` among its own classes, if ``A`` are their moments at ``anchor``.

    A layer's pre-activation changes by ``dW_i [r 1]`` on the old activity, and by ``W_i`` times the change of the
    activity itself; a ReLU makes no difference larger; so by Minkowski's inequality the outputs change by at most
    ``sum_i (prod_{k>i} |W_k|) sqrt(mean |dW_i [r 1]|^2)``, and the last root is ``sqrt(2 R_i)``. The cross-entropy's
    gradient in z is ``p - y`` and its curvature at most 1/2.
    """
    classes = s.classes_A
    old, new = (layers_of(s.layout, t.double(), classes) for t in (anchor, theta))
    x, y = part.x.double().unsqueeze(0), one_hot(part.y, classes, anchor.double())
    z_old, z_new = (forward(layers, s.sigma, x).z[0] for layers in (old, new))
    loss_old, loss_new = (-(torch.log_softmax(z, -1) * y).sum(-1).mean() for z in (z_old, z_new))
    R = []
    for i, M in enumerate(A):
        moved = torch.cat([new.weights[i] - old.weights[i], (new.biases[i] - old.biases[i]).unsqueeze(2)], 2)[0]
        R.append(0.5 * float(((moved @ M) * moved).sum()))
    gains = [1.0]
    for W in reversed(new.weights[1:]):
        gains.insert(0, gains[0] * float(torch.linalg.matrix_norm(W[0], 2)))
    rho = sum(gain * math.sqrt(2 * max(0.0, r)) for gain, r in zip(gains, R, strict=True))
    coarse = math.sqrt(2 * max(0.0, sum(R)) * sum(gain**2 for gain in gains))
    error = float((torch.softmax(z_old, -1) - y).square().sum(-1).mean().sqrt())
    return Bound(
        forgotten=float(loss_new - loss_old),
        shift=float((z_new - z_old).square().sum(-1).mean().sqrt()),
        rho=rho,
        bound=error * rho + rho**2 / 4,
        bound_of_R=error * coarse + coarse**2 / 4,
        R=sum(R),
    )
