"""Activation functions sigma and their derivatives, elementwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from efc.errors import choose

SHARPNESS = 10.0
"""Of ``smooth_relu``: a ReLU but for pre-activations of less than about 0.3."""


@dataclass(frozen=True)
class Activation:
    """``rate(a) = sigma(a)`` and ``slope(a, f) = sigma'(a)``, the latter given ``f = sigma(a)`` to save work."""

    name: str
    rate: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor, Tensor], Tensor]
    signed: bool = False
    """Whether rates can be negative: multiplicative control then flips sign with the rate."""
    bend: Callable[[Tensor, Tensor], Tensor] | None = None
    """``bend(a, f) = sigma''(a)``; None where it is zero, but for kinks."""
    softer: Callable[[Tensor], Activation] | None = None
    """The same at a share of its sharpness, on a logarithmic scale: 0 a softplus, 1 as it is. None: it has none."""


def smooth_relu(sharpness: float | Tensor) -> Activation:
    """``softplus(k a) / k`` with sharpness k, one for all or (R, B, 1): a softplus at 1, a ReLU at infinity."""
    k = sharpness

    def bend(a: Tensor, f: Tensor) -> Tensor:
        on = torch.sigmoid(k * a)
        return k * on * (1 - on)

    return Activation(
        "smooth_relu",
        lambda a: torch.nn.functional.softplus(k * a, threshold=40) / k,
        lambda a, f: torch.sigmoid(k * a),
        bend=bend,
        softer=lambda share: smooth_relu(SHARPNESS**share),
    )


def _softplus_bend(a: Tensor, f: Tensor) -> Tensor:
    on = torch.sigmoid(a)
    return on * (1 - on)


ACTIVATIONS = {
    "relu": Activation("relu", torch.relu, lambda a, f: torch.sign(f)),  # f >= 0; comparisons are slow on a CPU
    "smooth_relu": smooth_relu(SHARPNESS),
    "softplus": Activation(
        "softplus", torch.nn.functional.softplus, lambda a, f: torch.sigmoid(a), bend=_softplus_bend
    ),
    "tanh": Activation("tanh", torch.tanh, lambda a, f: 1 - f * f, True, lambda a, f: -2 * f * (1 - f * f)),
    "sigmoid": Activation(
        "sigmoid", torch.sigmoid, lambda a, f: f * (1 - f), bend=lambda a, f: f * (1 - f) * (1 - 2 * f)
    ),
}
"""The activation functions by name."""


def activation(name: str) -> Activation:
    """Look an activation up by name."""
    return ACTIVATIONS[choose("activation", name, ACTIVATIONS)]
