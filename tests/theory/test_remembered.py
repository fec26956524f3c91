"""Remembered activity as curvature against dense blocks, and its bound where it must hold and where it need not."""

from __future__ import annotations

import math

import pytest
import torch

from efc.streams.split import Part
from efc.theory.curvature import fisher, with_diagonal
from efc.theory.experiments.remembered_activity import _diagonal
from efc.theory.remembered import Factors, Kronecker, forgetting_bound, moments, output_factors
from efc.theory.situation import Situation


def dense(s: Situation, blocks: list[torch.Tensor], outputs: list[torch.Tensor] | None = None) -> torch.Tensor:
    """P x P in the layout's order: all of W row by row, then b. Slow and obvious."""
    P = s.layout.n_parameters
    H = torch.zeros(P, P, dtype=torch.float64)
    place, at = {}, 0
    for i, (d_in, d_out) in enumerate(zip(s.layout.sizes[:-1], s.layout.sizes[1:], strict=True)):
        for k in range(d_out):
            for j in range(d_in):
                place[i, k, j] = at + k * d_in + j
            place[i, k, d_in] = at + d_in * d_out + k
        at += (d_in + 1) * d_out
    for (i, k, j), row in place.items():
        for (i2, k2, j2), column in place.items():
            if i == i2:
                B = float(k == k2) if outputs is None else float(outputs[i][k, k2])
                H[row, column] = B * blocks[i][j, j2]
    return H


@pytest.fixture
def known(tiny: Situation) -> tuple[Situation, list[torch.Tensor], Factors]:
    theta = tiny.theta_A[0]
    return tiny, moments(tiny, theta, tiny.A.x), Factors.of(tiny, theta, tiny.A, tiny.classes_A)


def test_moments_are_those_the_learner_keeps(tiny32: Situation) -> None:
    from efc.learners.gradient import GradientLearner
    from efc.theory.methods import learner_at

    learner = learner_at(tiny32, "EFC+A", 1e-3, 0.3)
    assert isinstance(learner, GradientLearner)
    assert learner.remembered is not None
    for mine, layer in zip(moments(tiny32, tiny32.theta_A[1], tiny32.A.x), learner.remembered.layers, strict=True):
        torch.testing.assert_close(mine, layer.state()["A"][-1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("both", [False, True])
def test_products_against_dense_blocks(known: tuple[Situation, list[torch.Tensor], Factors], both: bool) -> None:
    s, A, F = known
    outputs = output_factors(F) if both else None
    H, found = dense(s, A, outputs), Kronecker(s.layout, A, outputs)
    full = fisher(s, 0)
    whole = full.left.T @ full.right / full.n
    assert found.norm == pytest.approx(float(H.norm()))
    assert F.norm == pytest.approx(full.norm)
    assert found.inner(F) == pytest.approx(float((H * whole).sum()))
    assert found.normalised(F) == pytest.approx(float((H * whole).sum() / (H.norm() * whole.norm())))
    torch.testing.assert_close(_diagonal(s, F), whole.diagonal())
    assert with_diagonal(s.diagonal()[0], full) > 0


def test_times_and_inverse(known: tuple[Situation, list[torch.Tensor], Factors]) -> None:
    s, A, _ = known
    H, found = dense(s, A), Kronecker(s.layout, A)
    v = torch.randn(len(H), dtype=torch.float64)
    torch.testing.assert_close(found.times(v), H @ v)
    expected = torch.linalg.solve(H + 0.1 * torch.eye(len(H), dtype=torch.float64), v)
    torch.testing.assert_close(found.damped_inverse(v, 0.1), expected)


def test_the_gradient_of_R_is_the_pull(known: tuple[Situation, list[torch.Tensor], Factors]) -> None:
    """Half the mean squared change of the pre-activations on old activity, written out."""
    s, A, _ = known
    theta = s.theta_A[0]
    moved = 0.1 * torch.randn_like(theta)
    old, new = (s.layout.views(t.unsqueeze(0)) for t in (theta, theta + moved))
    r, R = s.A.x, 0.0
    for i in range(3):
        change = r @ (new.weights[i][0] - old.weights[i][0]).T + new.biases[i][0] - old.biases[i][0]
        R += 0.5 * float(change.square().sum(1).mean())
        r = (r @ old.weights[i][0].T + old.biases[i][0]).clamp_min(0)
    assert 0.5 * float(moved @ Kronecker(s.layout, A).times(moved)) == pytest.approx(R)


@pytest.mark.parametrize("size", [1e-3, 0.03, 0.3, 1.0])
def test_the_bound_holds_for_the_activity_it_was_made_of(
    known: tuple[Situation, list[torch.Tensor], Factors], size: float
) -> None:
    s, A, _ = known
    g = torch.Generator().manual_seed(7)
    for _ in range(20):
        theta = s.theta_A[0] + size * torch.randn(s.layout.n_parameters, dtype=torch.float64, generator=g)
        found = forgetting_bound(s, theta, s.theta_A[0], A, s.A)
        assert found.shift <= found.rho * (1 + 1e-9)
        assert found.forgotten <= found.bound * (1 + 1e-9)
        assert found.bound <= found.bound_of_R * (1 + 1e-9)


def test_the_bound_is_met_where_only_the_head_moves(known: tuple[Situation, list[torch.Tensor], Factors]) -> None:
    s, A, _ = known
    theta = s.theta_A[0].clone().unsqueeze(0)
    s.layout.views(theta).weights[-1][:, 0] += 0.5
    found = forgetting_bound(s, theta[0], s.theta_A[0], A, s.A)
    assert found.shift == pytest.approx(found.rho)


def test_planted_a_bound_from_other_activity_is_broken(known: tuple[Situation, list[torch.Tensor], Factors]) -> None:
    """Weights that move where the remembered samples are silent: R is nothing, other samples are forgotten."""
    s, _, _ = known
    silent = Part(torch.zeros_like(s.A.x), s.A.y)
    A = moments(s, s.theta_A[0], silent.x)
    theta = s.theta_A[0].clone().unsqueeze(0)
    s.layout.views(theta).weights[0][:] += 2.0 * torch.randn(6, 6, generator=torch.Generator().manual_seed(1)).double()
    found = forgetting_bound(s, theta[0], s.theta_A[0], A, s.A)
    assert math.isclose(found.rho, 0.0, abs_tol=1e-9)
    assert found.shift > 0.1
    assert found.forgotten > found.bound
