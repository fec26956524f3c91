"""A situation small enough for dense matrices: two tasks of two classes, a net of 118 parameters, float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from efc.core.network import Layout
from efc.data.dataset import Dataset
from efc.streams import split
from efc.theory.situation import Scale, Situation

TINY = Scale(
    dataset="toy", hidden=(6, 5), seeds=2, epochs=1, batch_size=20, lr=1e-2, fisher_samples=30, probes=7,
    test_samples=40, quick=True,
)  # fmt: skip


def toy() -> Dataset:
    """Four blobs in six dimensions, all positive."""
    rng = np.random.default_rng(0)
    centres = rng.uniform(0.2, 1.0, (4, 6))
    y = np.repeat(np.arange(4), 60)
    x = np.abs(centres[y] + 0.15 * rng.standard_normal((240, 6)))
    order = rng.permutation(240)
    x, y = x[order], y[order]
    return Dataset("toy", x[:160], y[:160], x[160:], y[160:], ("a", "b", "c", "d"))


def situation_of(dtype: torch.dtype, spread: float = 0.7) -> Situation:
    stream = split(toy(), tasks=2, classes_per_task=2, scenario="class", dtype=dtype)
    layout = Layout((6, 6, 5, 4))
    generator = torch.Generator().manual_seed(3)
    theta = spread * torch.randn(2, layout.n_parameters, generator=generator, dtype=torch.float64)
    return Situation(TINY, stream, layout, [0, 1], theta.to(dtype), torch.device("cpu"))


@pytest.fixture
def tiny() -> Situation:
    return situation_of(torch.float64)


@pytest.fixture
def tiny32() -> Situation:
    """In the learners' precision."""
    return situation_of(torch.float32)
