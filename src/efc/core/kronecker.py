"""Kronecker factors of the Fisher information, layer by layer, streaming over batches.

Per sample the gradient of a layer is ``delta_i [r_{i-1} 1]^T``. Where ``delta`` and ``r`` are taken as independent, the
layer's Fisher is ``A_i (x) G_i`` with ``A_i = mean [r 1] [r 1]^T`` and ``G_i = mean delta delta^T``: applied to a
change ``V`` (d_i, d_{i-1} + 1) of the layer it is ``G_i V A_i`` (Martens & Grosse, 2015).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from efc.core.activations import Activation
from efc.core.moments import with_one
from efc.core.network import Layout, Parameters, backward, forward
from efc.core.outputs import loss_gradient
from efc.errors import EFCError


@dataclass(frozen=True)
class Factors:
    """``A_i`` (R, d_{i-1} + 1, d_{i-1} + 1) and ``G_i`` (R, d_i, d_i) of every layer, in float64."""

    A: list[Tensor]
    G: list[Tensor]

    @classmethod
    def zeros(cls, layout: Layout, runs: int, device: torch.device) -> Factors:
        def squares(sizes: tuple[int, ...], more: int) -> list[Tensor]:
            return [torch.zeros(runs, d + more, d + more, dtype=torch.float64, device=device) for d in sizes]

        return cls(squares(layout.sizes[:-1], 1), squares(layout.sizes[1:], 0))


def kronecker_factors(
    layout: Layout,
    theta: Tensor,
    sigma: Activation,
    batches: Iterable[tuple[Tensor, Tensor]],
    classes: slice,
    output: str = "softmax",
) -> Factors:
    """The factors of the mean over all samples, the softmax over the active ``classes`` alone; rows and columns of the
    last ``G`` that belong to other outputs are zero.

    ``batches`` yields (x, y): x (R, B, d_0), y one-hot over the active classes (R, B, C). With true labels it is the
    empirical Fisher, with labels drawn from the network's own answers an estimate of the Fisher itself.
    """
    found = Factors.zeros(layout, len(theta), theta.device)
    layers, n = layout.views(theta).active(classes), 0
    for x, y in batches:
        trace = forward(layers, sigma, x)
        deltas = backward(layers, sigma, trace, loss_gradient(output, trace.z, y))
        for A, r in zip(found.A, trace.r, strict=True):
            r1 = with_one(r)
            A.baddbmm_(r1.transpose(1, 2), r1)
        for i, (G, delta) in enumerate(zip(found.G, deltas, strict=True)):
            rows = classes if i == len(deltas) - 1 else slice(None)
            d = delta.double()
            G[:, rows, rows] += torch.bmm(d.transpose(1, 2), d)
        n += x.shape[1]
    if n == 0:
        raise EFCError("fisher: no samples were given")
    for t in (*found.A, *found.G):
        t.div_(n)
    return found


def merged(one: Factors, two: Factors) -> Factors:
    """``A (x) G`` close to ``A_1 (x) G_1 + A_2 (x) G_2``, layer by layer.

    ``(A_1 + pi A_2) (x) (G_1 + G_2 / pi)`` is that sum and two products more, ``pi A_2 (x) G_1`` and
    ``A_1 (x) G_2 / pi``; the pi for which these are smallest together, measured by their traces, is
    ``sqrt(tr A_1 tr G_2 / (tr A_2 tr G_1))``. Where one of the two is zero the other one is the sum.
    """
    A, G = [], []
    for A1, A2, G1, G2 in zip(one.A, two.A, one.G, two.G, strict=True):
        size = [t.diagonal(dim1=1, dim2=2).sum(1)[:, None, None] for t in (A1, A2, G1, G2)]
        above, below = size[0] * size[3], size[1] * size[2]
        pi = torch.where((above > 0) & (below > 0), (above / below.clamp_min(1e-300)).sqrt(), 1.0)
        A.append(A1 + pi * A2)
        G.append(G1 + G2 / pi)
    return Factors(A, G)


def joined(layers: Parameters, i: int) -> Tensor:
    """``[W_i b_i]`` (R, d_i, d_{i-1} + 1)."""
    return torch.cat([layers.weights[i], layers.biases[i].unsqueeze(-1)], -1)


def write(V: Tensor, layers: Parameters, i: int) -> None:
    """Put ``[W b]`` back into layer i."""
    layers.weights[i].copy_(V[..., :-1])
    layers.biases[i].copy_(V[..., -1])
