"""Where a penalty comes to rest against dense matrices, on a net without hidden layers and on one with."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.autograd.functional import hessian

from efc.core.network import Layout
from efc.theory.penalised import Penalised, coupled, rest
from efc.theory.situation import Situation
from support.theory_oracle import net


def dense_hessian(s: Situation, theta: torch.Tensor) -> torch.Tensor:
    """Of task B's mean loss over the probes, by automatic differentiation."""

    def loss(t: torch.Tensor) -> torch.Tensor:
        pairs = zip(s.probes.x, s.probes.y, strict=True)
        each = [-torch.log_softmax(net(s, t, x, s.classes), 0)[int(y)] for x, y in pairs]
        return torch.stack(each).mean()

    found: torch.Tensor = hessian(loss, theta)
    return found


def problem(s: Situation, strength: float) -> Penalised:
    theta = s.theta_A[0]
    return Penalised(s, s.probes, theta, strength * (0.5 + torch.rand(len(theta), dtype=torch.float64)))


@pytest.fixture
def convex(tiny: Situation) -> Situation:
    layout = Layout((6, 4))
    theta = torch.randn(2, layout.n_parameters, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    return replace(tiny, layout=layout, theta_A=theta, _cache={})


def test_hessian_products(tiny: Situation) -> None:
    held = problem(tiny, 1.0)
    H = dense_hessian(tiny, held.anchor)
    v = torch.randn(len(H), dtype=torch.float64)
    torch.testing.assert_close(held.bend(v), H @ v, rtol=1e-4, atol=1e-6)
    assert held.bend(torch.zeros_like(v)).norm() == 0


def test_coupled_is_the_dense_inverse(convex: Situation) -> None:
    held = problem(convex, 0.05)
    H = dense_hessian(convex, held.anchor)
    expected = -torch.linalg.solve(H + torch.diag(held.strength), held.gradient(held.anchor))
    found = coupled(held)
    assert found is not None
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_a_model_that_bends_downwards_has_no_minimum(tiny: Situation) -> None:
    smallest = float(torch.linalg.eigvalsh(dense_hessian(tiny, tiny.theta_A[0]))[0])
    assert smallest < -1e-3
    assert coupled(problem(tiny, 1e-4)) is None
    assert coupled(problem(tiny, 10.0)) is not None


@pytest.mark.parametrize("strength", [0.1, 10.0])
def test_rest_is_stationary(convex: Situation, strength: float) -> None:
    held = problem(convex, strength)
    end, left = rest(held)
    assert left < 1e-5
    assert float((held.gradient(end) + held.pull(end)).norm()) < 1e-4 * float(held.gradient(held.anchor).norm())
    assert float((end - held.anchor).norm()) > 1e-3
    formula = coupled(held)
    assert formula is not None
    error = float((formula - (end - held.anchor)).norm() / (end - held.anchor).norm())
    assert (error < 0.01) == (strength > 1)  # a formula of first order: for small displacements
