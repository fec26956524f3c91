"""Diagonal empirical Fisher information in closed form, streaming over batches.

Per sample the gradient of a layer is ``delta_i r_{i-1}^T``, so the mean of its square is two matrix products,
``F_W = (delta^2)^T (r^2) / N``: no per-sample gradients are formed. (Squaring the batch-mean gradient is not this.)
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from efc.core.activations import Activation
from efc.core.network import Layout, Parameters, backward, forward, outer_sums
from efc.core.outputs import loss_gradient
from efc.errors import EFCError


def diagonal_fisher(
    layout: Layout,
    theta: Tensor,
    sigma: Activation,
    batches: Iterable[tuple[Tensor, Tensor]],
    classes: slice,
    output: str = "softmax",
) -> Tensor:
    """``F = mean_n (dLoss_n/dtheta)^2`` (R, P) with true labels, the softmax over the active ``classes`` alone.

    ``batches`` yields (x, y): x (R, B, d_0), y one-hot over the active classes (R, B, C).
    """
    F = torch.zeros_like(theta)
    layers = layout.views(theta).active(classes)
    out: Parameters = layout.views(F).active(classes)
    n = 0
    for x, y in batches:
        trace = forward(layers, sigma, x)
        deltas = backward(layers, sigma, trace, loss_gradient(output, trace.z, y))
        outer_sums([d.square() for d in deltas], [r.square() for r in trace.r], out, scale=1.0, add=True)
        n += x.shape[1]
    if n == 0:
        raise EFCError("fisher: no samples were given")
    return F.div_(n)


def accumulate(running: Tensor, new: Tensor) -> Tensor:
    """``running + new * |running| / |new|``, per run: a new task weighs as much as all before it together."""
    old_norm, new_norm = running.norm(dim=1, keepdim=True), new.norm(dim=1, keepdim=True)
    scale = torch.where((old_norm > 0) & (new_norm > 0), old_norm / new_norm, torch.ones_like(new_norm))
    return running + scale * new
