"""The output layer: how control modulates it, what the controller compares with its target, and the loss.

| name        | rate r_L                        | compared with r*   | loss                |
|-------------|---------------------------------|--------------------|---------------------|
| `softmax`   | softmax(z + psi_L + gamma_L)    | r_L                | cross-entropy       |
| `linear`    | z * exp(psi_L + gamma_L)        | r_L                | mean-squared error  |
| `linear_ce` | z * exp(psi_L + gamma_L)        | softmax(r_L)       | cross-entropy       |

Multiplicative control needs positive rates, so `softmax` is the method; on a linear output a positive signal pushes a
negative logit further down. `linear_ce` is kept as an ablation, never as a default.
"""

from __future__ import annotations

import torch
from torch import Tensor

from efc.core.modulation import modulation
from efc.errors import choose

OUTPUTS = ("softmax", "linear", "linear_ce")


def check_output(name: str) -> str:
    return choose("output", name, OUTPUTS)


def compared(output: str, z: Tensor) -> Tensor:
    """What the controller compares with its target, in the free state: class probabilities, or ``z`` if linear."""
    return z if output == "linear" else torch.softmax(z, -1)


def loss_gradient(output: str, z: Tensor, y: Tensor) -> Tensor:
    """``dLoss/dz`` per sample for one-hot ``y``: ``p - y`` (cross-entropy) or ``z - y`` (half the squared error)."""
    return compared(output, z) - y


def softmax_difference(p: Tensor, s: Tensor) -> Tensor:
    """``softmax(log p + s) - p`` without cancellation for small ``s``.

    It is ``p expm1(s - c)`` with ``c = log sum_k p_k exp(s_k)``. A shift of ``s`` by a constant changes nothing, so its
    maximum is taken out first; then ``c = log1p(sum_k p_k expm1(s_k))`` keeps its digits where ``s`` is small.
    """
    s = s - s.amax(-1, keepdim=True)
    total = (p * torch.exp(s)).sum(-1, keepdim=True)
    excess = (p * torch.expm1(s)).sum(-1, keepdim=True)
    c = torch.where(total > 0.5, torch.log1p(excess), torch.log(total))
    return p * torch.expm1(s - c)


def output_shift(output: str, form: str, z: Tensor, s: Tensor) -> Tensor:
    """``r_L`` minus the feed-forward rate, for the total signal ``s = psi_L + gamma_L``."""
    return softmax_difference(torch.softmax(z, -1), s) if output == "softmax" else z * modulation(form, s)


def output_learning_signal(output: str, feedback: str, z: Tensor, u: Tensor) -> Tensor:
    """``psi_L = u``; on a linear output under least control ``psi_L = z * u``."""
    return z * u if output != "softmax" and feedback == "least_control" else u


def softmax_jacobian_product(p: Tensor, v: Tensor) -> Tensor:
    """``S v`` with ``S = diag(p) - p p^T``, along the last axis."""
    return p * (v - (p * v).sum(-1, keepdim=True))
