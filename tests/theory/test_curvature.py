"""Products of rows against the matrices themselves, P x P, on a net of 118 parameters."""

from __future__ import annotations

import math

import pytest
import torch

from efc.theory import curvature
from efc.theory.curvature import Rows
from efc.theory.rows import jacobian_rows, preservation_rows
from efc.theory.situation import Situation


def dense(m: Rows) -> torch.Tensor:
    return m.left.T @ m.right / m.n


@pytest.fixture
def pair() -> tuple[Rows, Rows]:
    g = torch.Generator().manual_seed(0)
    a, b, c = (torch.randn(9, 30, generator=g, dtype=torch.float64) for _ in range(3))
    return Rows(a, b, 4), Rows(c, c, 9)


def test_products(pair: tuple[Rows, Rows]) -> None:
    a, b = pair
    assert a.inner(b) == pytest.approx(float((dense(a) * dense(b)).sum()))
    assert a.norm == pytest.approx(float(dense(a).norm()))
    assert a.trace() == pytest.approx(float(dense(a).trace()))
    torch.testing.assert_close(a.diagonal(), dense(a).diagonal())
    v = torch.randn(30, dtype=torch.float64)
    torch.testing.assert_close(a.times(v), dense(a) @ v)
    assert curvature.with_identity(b) == pytest.approx(float(dense(b).trace()) / (math.sqrt(30) * b.norm))
    d = torch.rand(30, dtype=torch.float64)
    expected = float((torch.diag(d) * dense(b)).sum() / (d.norm() * dense(b).norm()))
    assert curvature.with_diagonal(d, b) == pytest.approx(expected)


@pytest.mark.parametrize("damping", [1e-6, 1e-2, 10.0])
def test_damped_inverse(pair: tuple[Rows, Rows], damping: float) -> None:
    g = torch.Generator().manual_seed(5)
    for m in pair:
        v = torch.randn(30, 3, generator=g, dtype=torch.float64)
        expected = torch.linalg.solve(dense(m) + damping * torch.eye(30, dtype=torch.float64), v)
        close = 1e-6 * float(expected.abs().max())  # single entries may cancel: with 1e-6 the largest are a million
        torch.testing.assert_close(m.damped_inverse(v, damping), expected, rtol=0, atol=close)
        torch.testing.assert_close(m.damped_inverse(v[:, 0], damping), expected[:, 0], rtol=0, atol=close)


def test_spectrum_and_projection(pair: tuple[Rows, Rows]) -> None:
    b = pair[1]
    found = curvature.spectrum(b)
    values, vectors = torch.linalg.eigh(dense(b))
    torch.testing.assert_close(found.values, values.flip(0)[: len(found.values)])
    assert len(found.values) == 9
    torch.testing.assert_close(found.vectors @ found.vectors.T, torch.eye(9, dtype=torch.float64))
    v = torch.randn(4, 30, dtype=torch.float64)
    for k in (1, 4, None):
        P = vectors.flip(1)[:, : k or 9]
        once = found.project(v, k)
        torch.testing.assert_close(once, v @ P @ P.T)
        torch.testing.assert_close(found.project(once, k), once)  # a projection


def test_fisher_has_the_cores_diagonal(tiny: Situation) -> None:
    for run in range(2):
        F = curvature.fisher(tiny, run)
        torch.testing.assert_close(F.diagonal(), tiny.diagonal()[run])
        assert float(tiny.diagonal()[run].sum()) > 0


def test_effective_jacobian_is_the_formula(tiny: Situation) -> None:
    """``S (I + sum_i Z_i diag(f_i) Z_i'^T)`` written out, with Q_i = sigma' Z_i^T."""
    s, theta = tiny, tiny.theta_A[0]
    layers = s.layout.views(theta.unsqueeze(0))
    (W1, W2, W3), (b1, b2, b3) = ([t[0] for t in group] for group in layers)
    found = curvature.effective_jacobian(s, theta, s.probes.x)
    for n, x in enumerate(s.probes.x):
        a1 = W1 @ x + b1
        f1 = a1.clamp_min(0)
        a2 = W2 @ f1 + b2
        f2 = a2.clamp_min(0)
        p = torch.softmax(W3 @ f2 + b3, 0)
        S = torch.diag(p) - torch.outer(p, p)
        D1, D2 = torch.diag((a1 > 0).double()), torch.diag((a2 > 0).double())
        Z2, Z1 = W3, W3 @ D2 @ W2
        Q2, Q1 = D2 @ W3.T, D1 @ W2.T @ D2 @ W3.T
        expected = S @ (torch.eye(4, dtype=torch.float64) + Z2 @ torch.diag(f2) @ Q2 + Z1 @ torch.diag(f1) @ Q1)
        torch.testing.assert_close(found[n], expected)


def test_implicit_curvature_is_the_formula(tiny: Situation) -> None:
    s, run, kappa = tiny, 1, 0.3
    theta = s.theta_A[run] + 0.03
    x = s.probes.x
    J = jacobian_rows(s.layout, theta, s.sigma, x, s.classes)
    G = preservation_rows(s.layout, theta, s.sigma, x, s.diagonal()[run], s.theta_A[run], s.classes)
    J_eff = curvature.effective_jacobian(s, theta, x)
    eye = torch.eye(4, dtype=torch.float64) / kappa
    expected = sum(J[n].T @ torch.linalg.inv(J_eff[n] + eye) @ G[n] for n in range(len(x))) / len(x)
    found = dense(curvature.implicit(s, run, x, theta, kappa))
    assert float(found.norm()) > 0
    torch.testing.assert_close(found, expected)
    values = torch.linalg.matrix_rank(dense(curvature.implicit(s, run, x[:1], theta, kappa)))
    assert int(values) <= 3  # C - 1: the output rates sum to one


def test_planted_a_linear_head_alone_has_an_exact_implicit_curvature(tiny: Situation) -> None:
    """With equal importances and no hidden layer, G is S [x 1] itself and F~ is J^T (J_eff + I/kappa)^{-1} J."""
    from dataclasses import replace

    from efc.core.network import Layout

    layout = Layout((6, 4))
    theta = torch.randn(2, layout.n_parameters, dtype=torch.float64)
    s = replace(tiny, layout=layout, theta_A=theta, _cache={})
    ones = torch.ones(layout.n_parameters, dtype=torch.float64)
    m = curvature.implicit(s, 0, s.probes.x, importance=ones)
    J = jacobian_rows(layout, theta[0], s.sigma, s.probes.x, s.classes)
    G = preservation_rows(layout, theta[0], s.sigma, s.probes.x, ones, theta[0], s.classes)
    torch.testing.assert_close(G, J)
    assert curvature.normalised(m, Rows(J.flatten(0, 1), J.flatten(0, 1), 7)) > 0.5
    symmetric = dense(m)
    torch.testing.assert_close(symmetric, symmetric.T)
