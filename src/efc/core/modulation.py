"""How a multiplicative signal changes a rate: ``r = f (1 + modulation(s))``."""

from __future__ import annotations

import torch
from torch import Tensor

BOUND = 0.1
"""How far ``bounded`` control can change a rate, as a share of it."""


def modulation(form: str, s: Tensor) -> Tensor:
    """``expm1(s)``, hence ``r = f exp(s)``; ``0.1 tanh(s)`` in the ablation ``bounded``."""
    return BOUND * torch.tanh(s) if form == "bounded" else torch.expm1(s)


def modulation_slope(form: str, s: Tensor) -> Tensor:
    """Derivative of :func:`modulation` with respect to ``s``."""
    return BOUND * (1 - torch.tanh(s).square()) if form == "bounded" else torch.exp(s)
