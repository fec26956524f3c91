"""Kronecker factors against per-sample gradients by autograd."""

from __future__ import annotations

import pytest
import torch

from efc.core.activations import activation
from efc.core.kronecker import Factors, joined, kronecker_factors, merged, write
from efc.core.network import Layout, initialise
from efc.errors import EFCError

LAYOUT = Layout((3, 4, 5))
SIGMA = activation("softplus")
CLASSES = slice(1, 4)


def made(n: int = 7) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    theta = initialise(LAYOUT, [torch.Generator().manual_seed(k) for k in (1, 2)], torch.float64)
    x = torch.randn(2, n, 3, generator=generator, dtype=torch.float64)
    y = torch.nn.functional.one_hot(torch.randint(3, (2, n), generator=generator), 3).double()
    return theta, x, y


def test_the_factors_are_mean_products_of_inputs_and_of_derivatives_by_pre_activations() -> None:
    theta, x, y = made()
    found = kronecker_factors(LAYOUT, theta, SIGMA, [(x[:, :4], y[:, :4]), (x[:, 4:], y[:, 4:])], CLASSES)
    for run in range(2):
        W, b = (t[run] for t in (LAYOUT.views(theta).weights[0], LAYOUT.views(theta).biases[0]))
        V, c = (t[run][CLASSES] for t in (LAYOUT.views(theta).weights[1], LAYOUT.views(theta).biases[1]))
        A = [torch.zeros(4, 4).double(), torch.zeros(5, 5).double()]
        G = [torch.zeros(4, 4).double(), torch.zeros(3, 3).double()]
        for one, target in zip(x[run], y[run], strict=True):
            a = (W @ one + b).requires_grad_()
            h = torch.nn.functional.softplus(a)
            z = V @ h + c
            loss = -(target * torch.log_softmax(z, 0)).sum()
            deltas = torch.autograd.grad(loss, (a, z))
            for i, (r, delta) in enumerate(zip((one, h.detach()), deltas, strict=True)):
                r1 = torch.cat([r, torch.ones(1).double()])
                A[i] += torch.outer(r1, r1) / 7
                G[i] += torch.outer(delta, delta) / 7
        for i in range(2):
            torch.testing.assert_close(found.A[i][run], A[i])
        torch.testing.assert_close(found.G[0][run], G[0])
        torch.testing.assert_close(found.G[1][run][CLASSES, CLASSES], G[1])
    outside = [0, 4]
    assert not found.G[1][:, outside].any()
    assert not found.G[1][:, :, outside].any()


def test_with_one_sample_the_product_is_the_fisher_itself() -> None:
    """Of one sample inputs and derivatives are independent, so nothing is approximated."""
    theta, x, y = made(1)
    found = kronecker_factors(LAYOUT, theta, SIGMA, [(x, y)], CLASSES)
    flat = theta[0].clone().requires_grad_()
    layers = LAYOUT.views(flat.unsqueeze(0)).active(CLASSES)
    h = torch.nn.functional.softplus(x[0] @ layers.weights[0][0].T + layers.biases[0][0])
    z = h @ layers.weights[1][0].T + layers.biases[1][0]
    loss = -(y[0] * torch.log_softmax(z, -1)).sum()
    g = torch.autograd.grad(loss, flat)[0]
    gradients = LAYOUT.views(g.unsqueeze(0))
    for i in range(2):
        mine = joined(gradients, i)[0].reshape(-1)
        product = torch.kron(found.G[i][0].contiguous(), found.A[i][0].contiguous())
        torch.testing.assert_close(product, torch.outer(mine, mine))


def test_no_samples_are_refused() -> None:
    with pytest.raises(EFCError, match="no samples"):
        kronecker_factors(LAYOUT, made()[0], SIGMA, [], CLASSES)


def square(n: int, seed: int) -> torch.Tensor:
    M = torch.randn(1, n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.bmm(M, M.transpose(1, 2))


def test_two_products_in_proportion_are_merged_exactly() -> None:
    A, G = square(3, 0), square(2, 1)
    found = merged(Factors([A], [G]), Factors([2 * A], [3 * G]))
    torch.testing.assert_close(torch.kron(found.A[0][0], found.G[0][0]), _sum_in_proportion(A, G))


def _sum_in_proportion(A: torch.Tensor, G: torch.Tensor) -> torch.Tensor:
    """``(A + 2 pi A) (x) (G + 3 G / pi)`` is least at ``pi^2 = 3 / 2``: close to the sum, 7 products, from above."""
    pi = (3 / 2) ** 0.5
    return torch.kron(A[0], G[0]) * (1 + 2 * pi) * (1 + 3 / pi)


def test_no_other_ratio_leaves_smaller_products_over() -> None:
    one, two = Factors([square(3, 0)], [square(2, 1)]), Factors([5 * square(3, 2)], [square(2, 3)])
    found = merged(one, two)

    def left(A: torch.Tensor, G: torch.Tensor) -> float:
        exact = torch.kron(one.A[0][0], one.G[0][0]) + torch.kron(two.A[0][0], two.G[0][0])
        return float((torch.kron(A[0], G[0]) - exact).trace())

    best = left(found.A[0], found.G[0])
    for pi in torch.logspace(-2, 2, 41).tolist():
        assert best <= left(one.A[0] + pi * two.A[0], one.G[0] + two.G[0] / pi) * (1 + 1e-9)


def test_nothing_merged_with_something_is_that() -> None:
    some = Factors([square(3, 0)], [square(2, 1)])
    none = Factors([torch.zeros(1, 3, 3).double()], [torch.zeros(1, 2, 2).double()])
    for found in (merged(some, none), merged(none, some)):
        torch.testing.assert_close(found.A[0], some.A[0])
        torch.testing.assert_close(found.G[0], some.G[0])


def test_a_layer_taken_apart_is_put_together_again() -> None:
    theta = made()[0]
    copy = torch.zeros_like(theta)
    for i in range(2):
        write(joined(LAYOUT.views(theta), i), LAYOUT.views(copy), i)
    assert torch.equal(copy, theta)
