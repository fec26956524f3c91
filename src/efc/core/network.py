"""The feed-forward network over a leading run axis: parameters, the free forward pass, back-propagated deltas.

All parameters of R runs live in one flat (R, P) tensor, so that an optimiser step, a Fisher or an anchor is one
elementwise pass; the layers are views of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from efc.core.activations import Activation
from efc.errors import EFCError


class Parameters(NamedTuple):
    """``W_i`` (R, d_i, d_{i-1}) and ``b_i`` (R, d_i) of layers i = 1..L; also used for gradients and Fishers."""

    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...]

    def active(self, classes: slice) -> Parameters:
        """The same with the head cut down to the active classes: views, the rest is neither read nor changed."""
        return Parameters(
            (*self.weights[:-1], self.weights[-1][:, classes]),
            (*self.biases[:-1], self.biases[-1][:, classes]),
        )


@dataclass(frozen=True)
class Layout:
    """Layer sizes ``(d_0, ..., d_L)`` and how a flat (R, P) tensor divides into them, layer by layer, W then b."""

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) < 2 or any(int(d) != d or d < 1 for d in self.sizes):
            raise EFCError(
                f"sizes: a network needs an input and an output size, all positive integers; got {self.sizes}"
            )

    @property
    def n_parameters(self) -> int:
        return sum((d_in + 1) * d_out for d_in, d_out in self._pairs())

    def views(self, flat: Tensor) -> Parameters:
        """The layers of a flat (R, P) tensor, without a copy."""
        if flat.shape[-1] != self.n_parameters:
            raise EFCError(
                f"parameters: expected {self.n_parameters} per run for sizes {self.sizes}, got {flat.shape[-1]}"
            )
        weights, biases, at = [], [], 0
        for d_in, d_out in self._pairs():
            weights.append(flat[:, at : at + d_in * d_out].view(flat.shape[0], d_out, d_in))
            at += d_in * d_out
            biases.append(flat[:, at : at + d_out])
            at += d_out
        return Parameters(tuple(weights), tuple(biases))

    def _pairs(self) -> list[tuple[int, int]]:
        return list(zip(self.sizes[:-1], self.sizes[1:], strict=True))


INITIAL = ("he", "uniform_biases")
"""How parameters are drawn; :func:`initialise` says what each means."""


def initialise(
    layout: Layout,
    generators: Sequence[torch.Generator],
    dtype: torch.dtype = torch.float32,
    initial: str = "he",
) -> Tensor:
    """Flat (R, P) parameters, run r from ``generators[r]`` alone.

    ``he``: He-normal weights (head: ``1/sqrt(d)``), zero biases. ``uniform_biases``: He-normal weights, the head's too,
    and biases uniform in ``+- 1/sqrt(d)``, d the number of inputs of the layer.
    """
    flat = torch.zeros(len(generators), layout.n_parameters, dtype=dtype)
    weights, biases = layout.views(flat)
    for run, generator in enumerate(generators):
        for i, (W, b) in enumerate(zip(weights, biases, strict=True)):
            head = i == len(weights) - 1 and initial == "he"
            gain = math.sqrt((1.0 if head else 2.0) / W.shape[2])
            W[run] = gain * torch.randn(W.shape[1:], generator=generator, dtype=dtype)
            if initial == "uniform_biases":
                b[run] = (2 * torch.rand(b.shape[1:], generator=generator, dtype=dtype) - 1) / math.sqrt(W.shape[2])
    return flat


class Trace(NamedTuple):
    """A free forward pass: pre-activations ``a_1..a_L`` (the last is z) and rates ``r_0..r_{L-1}`` (the first is x)."""

    a: tuple[Tensor, ...]
    r: tuple[Tensor, ...]

    @property
    def z(self) -> Tensor:
        return self.a[-1]


def affine(r: Tensor, W: Tensor, b: Tensor) -> Tensor:
    """``a_i = r_{i-1} W_i^T + b_i``: (R, B, d_{i-1}) -> (R, B, d_i)."""
    return torch.baddbmm(b.unsqueeze(1), r, W.transpose(1, 2))


def flat_bmm(t: Tensor, M: Tensor) -> Tensor:
    """``t @ M`` over the last axis for t (R, ..., d) and M (R, d, e): one batched product, whatever lies between."""
    return torch.bmm(t.flatten(1, -2), M).view(*t.shape[:-1], M.shape[-1])


def forward(theta: Parameters, sigma: Activation, x: Tensor) -> Trace:
    """``a_i = W_i r_{i-1} + b_i``, ``r_i = sigma(a_i)``, ``r_0 = x``; the output is left as ``z = a_L``."""
    a, r = [], [x]
    for i, (W, b) in enumerate(zip(theta.weights, theta.biases, strict=True)):
        a.append(affine(r[-1], W, b))
        if i < len(theta.weights) - 1:
            r.append(sigma.rate(a[-1]))
    return Trace(tuple(a), tuple(r))


def backward(theta: Parameters, sigma: Activation, trace: Trace, delta_L: Tensor) -> tuple[Tensor, ...]:
    """``delta_i = dLoss/da_i`` per sample from ``delta_L``: ``delta_{i-1} = sigma'(a_{i-1}) * (delta_i W_i)``."""
    deltas = [delta_L]
    for i in range(len(theta.weights) - 1, 0, -1):
        slope = sigma.slope(trace.a[i - 1], trace.r[i])
        deltas.append(slope * torch.bmm(deltas[-1], theta.weights[i]))
    return tuple(reversed(deltas))


def outer_sums(post: Sequence[Tensor], pre: Sequence[Tensor], out: Parameters, scale: float, add: bool = False) -> None:
    """``W_i = scale * sum_b post_i pre_{i-1}^T``, ``b_i = scale * sum_b post_i``, written (or added) into ``out``."""
    for delta, r, W, b in zip(post, pre, out.weights, out.biases, strict=True):
        W.baddbmm_(delta.transpose(1, 2), r, beta=float(add), alpha=scale)
        b.copy_(b.add(delta.sum(1), alpha=scale) if add else delta.sum(1).mul_(scale))


def mean_loss_gradient(
    theta: Parameters, sigma: Activation, trace: Trace, delta_L: Tensor, out: Parameters, add: bool = False
) -> None:
    """``dL/dW_i = mean_b delta_i r_{i-1}^T``, ``dL/db_i = mean_b delta_i``, written into ``out``, or added to it.

    ``trace`` is the forward pass of a batch, ``delta_L`` (R, B, C) the gradient of each sample's loss with respect to
    its outputs z; L is the mean loss over the batch.
    """
    outer_sums(backward(theta, sigma, trace, delta_L), trace.r, out, 1.0 / delta_L.shape[1], add)
