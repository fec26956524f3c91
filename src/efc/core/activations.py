"""Activation functions sigma and their derivatives, elementwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from efc.errors import choose


@dataclass(frozen=True)
class Activation:
    """``rate(a) = sigma(a)`` and ``slope(a, f) = sigma'(a)``, the latter given ``f = sigma(a)`` to save work."""

    name: str
    rate: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor, Tensor], Tensor]
    signed: bool = False
    """Whether rates can be negative: multiplicative control then flips sign with the rate."""


ACTIVATIONS = {
    "relu": Activation("relu", torch.relu, lambda a, f: torch.sign(f)),  # f >= 0; comparisons are slow on a CPU
    "softplus": Activation("softplus", torch.nn.functional.softplus, lambda a, f: torch.sigmoid(a)),
    "tanh": Activation("tanh", torch.tanh, lambda a, f: 1 - f * f, signed=True),
    "sigmoid": Activation("sigmoid", torch.sigmoid, lambda a, f: f * (1 - f)),
}
"""The activation functions by name."""


def activation(name: str) -> Activation:
    """Look an activation up by name."""
    return ACTIVATIONS[choose("activation", name, ACTIVATIONS)]
