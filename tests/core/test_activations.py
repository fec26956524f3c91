"""Activation functions at points where their values are known."""

from __future__ import annotations

import math

import pytest
import torch

from efc.core.activations import ACTIVATIONS, activation
from efc.errors import EFCError

KNOWN = {
    # name: (value, slope) at -1, 0 and 1
    "relu": [(0.0, 0.0), (0.0, 0.0), (1.0, 1.0)],
    "softplus": [(math.log1p(math.exp(-1)), 1 / (1 + math.e)), (math.log(2), 0.5),
                 (math.log1p(math.e), math.e / (1 + math.e))],
    "tanh": [(-math.tanh(1), 1 / math.cosh(1) ** 2), (0.0, 1.0), (math.tanh(1), 1 / math.cosh(1) ** 2)],
    "sigmoid": [(1 / (1 + math.e), math.e / (1 + math.e) ** 2), (0.5, 0.25),
                (math.e / (1 + math.e), math.e / (1 + math.e) ** 2)],
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_known_values(name: str) -> None:
    a = torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)
    sigma = activation(name)
    values, slopes = zip(*KNOWN[name], strict=True)
    torch.testing.assert_close(sigma.rate(a), torch.tensor(values, dtype=torch.float64))
    torch.testing.assert_close(sigma.slope(a, sigma.rate(a)), torch.tensor(slopes, dtype=torch.float64))


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(EFCError, match="activation: unknown value 'relo'"):
        activation("relo")
