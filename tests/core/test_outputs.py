"""The output layer against what its names mean: softmax, cross-entropy and squared error as PyTorch has them."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy, mse_loss, one_hot

from efc.core.outputs import (
    OUTPUTS,
    check_output,
    compared,
    loss_gradient,
    output_learning_signal,
    output_shift,
    softmax_jacobian_product,
)
from efc.errors import EFCError

Z = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
S = 0.5 * torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("output", OUTPUTS)
def test_the_gradient_is_that_of_the_loss(output: str) -> None:
    labels = torch.tensor([[0, 3, 1], [2, 2, 0]])
    z = Z.clone().requires_grad_()
    if output == "linear":
        loss = 0.5 * mse_loss(z, one_hot(labels, 4).double(), reduction="sum")
    else:
        loss = cross_entropy(z.flatten(0, 1), labels.flatten(), reduction="sum")
    (expected,) = torch.autograd.grad(loss, z)
    torch.testing.assert_close(loss_gradient(output, Z, one_hot(labels, 4).double()), expected)


def test_what_is_compared() -> None:
    assert torch.equal(compared("linear", Z), Z)
    for output in ("softmax", "linear_ce"):
        torch.testing.assert_close(compared(output, Z), torch.softmax(Z, -1))


def test_the_shift_is_the_difference_of_the_two_rates() -> None:
    shifted = torch.softmax(Z + S, -1) - torch.softmax(Z, -1)
    torch.testing.assert_close(output_shift("softmax", "multiplicative", Z, S), shifted)
    for output in ("linear", "linear_ce"):
        torch.testing.assert_close(output_shift(output, "multiplicative", Z, S), Z * torch.exp(S) - Z)


def test_the_product_with_the_softmax_jacobian() -> None:
    p, v = torch.softmax(Z, -1), S
    dense = torch.diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2)
    torch.testing.assert_close(softmax_jacobian_product(p, v), torch.einsum("rbij,rbj->rbi", dense, v))


def test_the_learning_signal_is_u_but_on_a_linear_output_under_least_control() -> None:
    assert torch.equal(output_learning_signal("softmax", "least_control", Z, S), S)
    assert torch.equal(output_learning_signal("linear", "jacobian", Z, S), S)
    torch.testing.assert_close(output_learning_signal("linear", "least_control", Z, S), Z * S)


def test_an_unknown_output_is_refused() -> None:
    assert check_output("softmax") == "softmax"
    with pytest.raises(EFCError, match="output: unknown value 'softmx'"):
        check_output("softmx")
