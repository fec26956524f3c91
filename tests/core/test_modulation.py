"""How a signal changes a rate: exponentially, or by a tenth at most."""

from __future__ import annotations

import math

import pytest
import torch

from efc.core.modulation import modulation, modulation_slope


def test_known_values() -> None:
    s = torch.tensor([-1.0, 0.0, math.log(3.0)], dtype=torch.float64)
    torch.testing.assert_close(
        modulation("multiplicative", s), torch.tensor([1 / math.e - 1, 0, 2], dtype=torch.float64)
    )
    expected = torch.tensor([-0.1 * math.tanh(1), 0, 0.08], dtype=torch.float64)  # tanh(log 3) = 0.8
    torch.testing.assert_close(modulation("bounded", s), expected)


@pytest.mark.parametrize("form", ["multiplicative", "bounded"])
def test_the_slope_is_the_derivative(form: str) -> None:
    s = torch.linspace(-3, 3, 31, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(modulation(form, s).sum(), s)
    torch.testing.assert_close(modulation_slope(form, s).detach(), expected)


def test_a_weak_signal_keeps_its_digits() -> None:
    s = torch.tensor([1e-6], dtype=torch.float32)
    assert modulation("multiplicative", s).item() == pytest.approx(1e-6, rel=1e-5)


def test_bounded_is_bounded() -> None:
    s = torch.tensor([-1e3, 1e3])
    assert modulation("bounded", s).tolist() == pytest.approx([-0.1, 0.1])
