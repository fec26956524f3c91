"""Anderson acceleration in the C-dimensional space of ``u``."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from efc.core.solvers.base import Proposal, SweepSolver, positive
from efc.core.solvers.rows import Rows
from efc.core.system import Activity, System


@dataclass(frozen=True)
class Anderson(SweepSolver):
    """Combine the last ``memory`` sweeps so that the linearised residual ``kappa (r* - r_L) - u`` is smallest.

    Copes with gains at which :class:`FixedPoint` oscillates, at a small cost per sweep. Where masks flip it has nothing
    to extrapolate from; neither has anybody else.
    """

    memory: int = 5
    max_steps: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.memory, "memory")

    def begin(self, system: System) -> Proposal:
        return _Mixing(system, self.memory)


class _Mixing(Proposal):
    """``u_next = u + F - (dU + dF) c`` with ``c = argmin |F - dF c|``, per sample, F the residual of ``u``."""

    def __init__(self, system: System, memory: int) -> None:
        # More differences than dimensions (C, less one under a softmax) are dependent and only amplify rounding.
        self.system, self.memory = system, max(1, min(memory, system.free_error.shape[-1] - 1))
        self.last: tuple[Tensor, Tensor] | None = None
        self.dU: list[Tensor] = []
        self.dF: list[Tensor] = []

    def narrow(self, rows: Rows) -> None:
        self.last, self.dU, self.dF = rows.take((self.last, self.dU, self.dF))

    def __call__(self, u: Tensor, activity: Activity) -> Tensor:
        F = self.system.kappa * activity.error - u
        if self.last is not None:
            self.dU.append(u - self.last[0])
            self.dF.append(F - self.last[1])
            self.dU, self.dF = self.dU[-self.memory :], self.dF[-self.memory :]
        self.last = (u, F)
        if not self.dF:
            return u + F
        dF, dU = torch.stack(self.dF, -2), torch.stack(self.dU, -2)
        return u + F - ((dU + dF) * _coefficients(dF, F).unsqueeze(-1)).sum(-2)


def _coefficients(dF: Tensor, F: Tensor) -> Tensor:
    """``argmin_c |F - dF^T c|`` by normal equations on unit columns, with a small ridge."""
    norm: Tensor = torch.linalg.vector_norm(dF, dim=-1).clamp_min(torch.finfo(F.dtype).tiny)
    unit = dF / norm.unsqueeze(-1)
    gram = unit @ unit.transpose(-1, -2)
    gram.diagonal(dim1=-2, dim2=-1).add_(max(10 * torch.finfo(F.dtype).eps, 1e-10))
    rhs = unit @ F.unsqueeze(-1)
    solved = eliminate(torch.cat([gram, rhs], -1))
    return torch.nan_to_num(solved, nan=0.0, posinf=0.0, neginf=0.0) / norm


def eliminate(augmented: Tensor) -> Tensor:
    """Gauss-Jordan on ``[G | b]`` (..., m, m + 1), G positive definite: ``G^{-1} b``.

    A handful of elementwise passes over all samples at once, where the library's solver goes from one small matrix to
    the next.
    """
    for k in range(augmented.shape[-2]):
        row = augmented[..., k, :] / augmented[..., k, k, None]
        column = augmented[..., :, k].clone()
        column[..., k] -= 1.0  # so that row k itself becomes `row`
        augmented = augmented - column.unsqueeze(-1) * row.unsqueeze(-2)
    return augmented[..., -1]
