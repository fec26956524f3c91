"""The run axis: core tensors are (R, B, D), R seeds or settings trained side by side, and numbers are (R, 1, 1)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from efc.errors import EFCError

PerRun = float | Sequence[float] | Tensor
"""A hyper-parameter: one number for all runs, or one per run."""


def per_run(name: str, value: PerRun, runs: int, like: Tensor) -> Tensor:
    """``value`` as an (R, 1, 1) tensor beside ``like``."""
    t = torch.as_tensor(value, dtype=like.dtype, device=like.device).reshape(-1)
    if t.numel() not in (1, runs):
        raise EFCError(f"{name}: give one value or one per run ({runs}), got {t.numel()} values")
    return t.expand(runs).reshape(runs, 1, 1)
