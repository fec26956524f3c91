"""A small stream made for tests: six well separated classes in three tasks."""

from __future__ import annotations

import numpy as np
import torch

from efc.streams import Dataset, Stream, split


def toy_dataset(per_class: int = 24) -> Dataset:
    rng = np.random.default_rng(0)
    centres = 2 * np.eye(6)
    y = np.repeat(np.arange(6), per_class)
    x = np.abs(centres[y] + 0.2 * rng.standard_normal((len(y), 6))).astype(np.float32)
    order = rng.permutation(len(y))
    x, y = x[order], y[order]
    cut = len(y) * 3 // 4
    return Dataset("toy", x[:cut], y[:cut], x[cut:], y[cut:], tuple("abcdef"))


def toy_stream(scenario: str = "class", dtype: torch.dtype = torch.float32) -> Stream:
    return split(toy_dataset(), tasks=3, classes_per_task=2, scenario=scenario, validation=0.1, dtype=dtype)
