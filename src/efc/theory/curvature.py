"""Curvature matrices as products of rows, ``M = 1/n U^T V``: their inner products, inverses and eigenvectors.

Only Gram matrices between rows are ever formed, (m, m) for m rows; a P x P matrix of the paper's net would have three
billion entries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from efc.core.control import Controller, Dynamics
from efc.core.linear import control_jacobian
from efc.core.system import build, free_activity
from efc.theory.rows import gradient_rows, jacobian_rows, layers_of, preservation_rows
from efc.theory.situation import KAPPA, Situation, one_hot


@dataclass(frozen=True)
class Rows:
    """``M = 1/n left^T right``, never formed; ``left`` and ``right`` are (m, P)."""

    left: Tensor
    right: Tensor
    n: int

    @cached_property
    def small(self) -> Tensor:
        """``1/n right left^T`` (m, m), in float64: it has the eigenvalues of M that are not zero."""
        return (self.right @ self.left.T).double() / self.n

    def times(self, v: Tensor) -> Tensor:
        """``M v``."""
        return self.left.T @ (self.right @ v) / self.n

    def inner(self, other: Rows) -> float:
        """``<M, M'> = tr(M^T M')``, the Frobenius product."""
        gram = self.left @ other.left.T
        symmetric = self.left is self.right and other.left is other.right
        both = gram.square() if symmetric else gram * (self.right @ other.right.T)
        return float(both.double().sum()) / (self.n * other.n)

    @cached_property
    def norm(self) -> float:
        return math.sqrt(max(0.0, self.inner(self)))

    def diagonal(self) -> Tensor:
        """(P,)."""
        return (self.left * self.right).sum(0) / self.n

    def trace(self) -> float:
        return float(self.diagonal().double().sum())

    def damped_inverse(self, v: Tensor, damping: float) -> Tensor:
        """``(M + damping I)^{-1} v`` for v (P,) or (P, k), by Woodbury's identity: one system of the rows' size."""
        small = self.small + damping * torch.eye(len(self.left), dtype=torch.float64, device=v.device)
        solved = torch.linalg.solve(small, (self.right @ v).double() / self.n)
        inverse: Tensor = (v - self.left.T @ solved.to(v)) / damping
        return inverse


def cosine(a: Tensor, b: Tensor) -> float:
    """Between two vectors; zero if one of them is."""
    a, b = a.double().flatten(), b.double().flatten()
    lengths = float(a.norm() * b.norm())
    return float(a @ b) / lengths if lengths > 0 else 0.0


def normalised(a: Rows, b: Rows) -> float:
    """``<a, b> / (|a| |b|)``."""
    lengths = a.norm * b.norm
    return a.inner(b) / lengths if lengths > 0 else 0.0


def with_identity(m: Rows) -> float:
    """``<I, M> / (|I| |M|)``."""
    return m.trace() / (math.sqrt(m.left.shape[1]) * m.norm)


def with_diagonal(d: Tensor, m: Rows) -> float:
    """``<diag(d), M> / (|d| |M|)``."""
    return float((d * m.diagonal()).double().sum()) / (float(d.double().norm()) * m.norm)


def fisher(situation: Situation, run: int, theta: Tensor | None = None) -> Rows:
    """``F_A = 1/N sum_n g_n g_n^T`` over the samples of task A, at ``theta_A*`` or elsewhere."""
    s = situation
    theta = s.theta_A[run] if theta is None else theta
    rows = gradient_rows(s.layout, theta, s.sigma, s.A.x, one_hot(s.A.y, s.classes_A, theta), s.classes_A)
    return Rows(rows, rows, len(rows))


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of a symmetric :class:`Rows`, largest first, and its eigenvectors (k, P), as far as they are kept."""

    values: Tensor
    vectors: Tensor

    def project(self, v: Tensor, k: int | None = None) -> Tensor:
        """The part of ``v`` (..., P) that lies in the span of the first ``k`` eigenvectors (all that are kept)."""
        Q = self.vectors if k is None else self.vectors[:k]
        return (v @ Q.T) @ Q


def spectrum(m: Rows, floor: float = 1e-7) -> Spectrum:
    """Of ``1/n G^T G`` through the Gram matrix ``1/n G G^T``; values under ``floor`` of the largest are dropped."""
    values, q = torch.linalg.eigh((m.left @ m.left.T).double() / m.n)
    values, q = values.flip(0), q.flip(1)
    kept = values > floor * values[0]
    vectors = (q[:, kept].T @ m.left.double()) / (m.n * values[kept]).sqrt().unsqueeze(1)
    return Spectrum(values[kept], vectors.to(m.left))


def implicit(
    situation: Situation,
    run: int,
    x: Tensor,
    theta: Tensor | None = None,
    kappa: float = KAPPA,
    importance: Tensor | None = None,
) -> Rows:
    """``F~_A = mean_b J^T (J_eff + I/kappa)^{-1} G`` over samples ``x`` (n, d_0) of task B.

    ``G = -(1/beta) d gamma_eff / d theta`` (C, P) and ``J = dp/dtheta`` (C, P) per sample: shapes that match (as
    printed in the paper they do not). Its rank is at most C - 1 per sample. ``importance`` (P,) takes the place of
    the diagonal Fisher.
    """
    s = situation
    theta = s.theta_A[run] if theta is None else theta
    left = jacobian_rows(s.layout, theta, s.sigma, x, s.classes)
    D = s.diagonal()[run] if importance is None else importance
    G = preservation_rows(s.layout, theta, s.sigma, x, D, s.theta_A[run], s.classes)
    J_eff = effective_jacobian(s, theta, x)
    J_eff.diagonal(dim1=1, dim2=2).add_(1.0 / kappa)
    right = torch.linalg.solve(J_eff, G)
    return Rows(left.flatten(0, 1), right.flatten(0, 1), len(x))


def effective_jacobian(situation: Situation, theta: Tensor, x: Tensor) -> Tensor:
    """``J_eff`` (n, C, C) at the free state."""
    s = situation
    y = torch.zeros(1, len(x), s.classes.stop, dtype=theta.dtype, device=theta.device)
    dynamics = Dynamics(s.activation, feedback="jacobian")
    system = build(dynamics, layers_of(s.layout, theta, s.classes), x.unsqueeze(0), y, Controller.from_gain(1.0))
    return control_jacobian(system, free_activity(system))[0].clone()
