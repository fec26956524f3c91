"""Activation functions at points where their values are known."""

from __future__ import annotations

import math

import pytest
import torch

from efc.core.activations import ACTIVATIONS, SHARPNESS, Activation, activation
from efc.errors import EFCError

KNOWN = {
    # name: (value, slope) at -1, 0 and 1
    "relu": [(0.0, 0.0), (0.0, 0.0), (1.0, 1.0)],
    "softplus": [(math.log1p(math.exp(-1)), 1 / (1 + math.e)), (math.log(2), 0.5),
                 (math.log1p(math.e), math.e / (1 + math.e))],
    "tanh": [(-math.tanh(1), 1 / math.cosh(1) ** 2), (0.0, 1.0), (math.tanh(1), 1 / math.cosh(1) ** 2)],
    "sigmoid": [(1 / (1 + math.e), math.e / (1 + math.e) ** 2), (0.5, 0.25),
                (math.e / (1 + math.e), math.e / (1 + math.e) ** 2)],
    "smooth_relu": [(math.log1p(math.exp(-SHARPNESS)) / SHARPNESS, 1 / (1 + math.exp(SHARPNESS))),
                    (math.log(2) / SHARPNESS, 0.5),
                    (1 + math.log1p(math.exp(-SHARPNESS)) / SHARPNESS, 1 / (1 + math.exp(-SHARPNESS)))],
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_known_values(name: str) -> None:
    a = torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)
    sigma = activation(name)
    values, slopes = zip(*KNOWN[name], strict=True)
    torch.testing.assert_close(sigma.rate(a), torch.tensor(values, dtype=torch.float64))
    torch.testing.assert_close(sigma.slope(a, sigma.rate(a)), torch.tensor(slopes, dtype=torch.float64))


def slope(sigma: Activation, a: torch.Tensor) -> torch.Tensor:
    return sigma.slope(a, sigma.rate(a))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_slope_and_bend_are_the_derivatives(name: str) -> None:
    """By automatic differentiation, away from the ReLU's kink."""
    sigma = activation(name)
    a = torch.tensor([-2.0, -0.3, -0.05, 0.05, 0.3, 2.0], dtype=torch.float64, requires_grad=True)
    (derivative,) = torch.autograd.grad(sigma.rate(a).sum(), a)
    torch.testing.assert_close(slope(sigma, a), derivative)
    if sigma.bend is None:
        assert (slope(sigma, a.detach() + 0.01) == slope(sigma, a.detach())).all()
        return
    (second,) = torch.autograd.grad(slope(sigma, a).sum(), a)
    torch.testing.assert_close(sigma.bend(a, sigma.rate(a)), second)


def test_the_smooth_relu_lies_between_a_softplus_and_a_relu() -> None:
    """It differs from a ReLU by log 2 over its sharpness at most; a share of its sharpness each (R, B, 1)."""
    smooth = activation("smooth_relu")
    a = torch.linspace(-4, 4, 401, dtype=torch.float64).expand(1, 2, -1)
    off = smooth.rate(a) - torch.relu(a)
    assert float(off.min()) > -1e-15  # rounding, far from the kink
    assert float(off.max()) == pytest.approx(math.log(2) / SHARPNESS)
    assert smooth.softer is not None
    both = smooth.softer(torch.tensor([[[0.0], [1.0]]], dtype=torch.float64))
    torch.testing.assert_close(both.rate(a)[0, 0], activation("softplus").rate(a)[0, 0])
    torch.testing.assert_close(both.rate(a)[0, 1], smooth.rate(a)[0, 1])


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(EFCError, match="activation: unknown value 'relo'"):
        activation("relo")
