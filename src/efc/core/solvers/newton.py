"""Newton's method in the C-dimensional space of ``u``."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from efc.core.linear import control_jacobian, solve_gain
from efc.core.solvers.base import Proposal, SweepSolver
from efc.core.solvers.rows import Rows
from efc.core.system import Activity, System


@dataclass(frozen=True)
class Newton(SweepSolver):
    """``u <- u + (I + kappa dr_L/du)^{-1} (kappa (r* - r_L) - u)``, the step halved while the residual grows.

    The derivatives sigma' are held fixed inside a step: exact for ReLU between flips. For strong feedback. Each step
    solves a C x C system per sample and holds (R, B, d, C) numbers: not for hundreds of classes in weak feedback.
    """

    start: str = "steady_state"

    @property
    def recordable(self) -> bool:
        return False  # solves linear systems by a library that wants the host

    def begin(self, system: System) -> Proposal:
        return _Step(system)


class _Step(Proposal):
    """Keeps, per sample, the best ``u`` so far and the step from it; a step that does not help is halved."""

    smallest = 2.0**-6

    def __init__(self, system: System) -> None:
        self.system = system
        self.best: Tensor | None = None
        self.base = self.step = self.length = torch.empty(0)

    def narrow(self, rows: Rows) -> None:
        self.best, self.base, self.step, self.length = rows.take((self.best, self.base, self.step, self.length))

    def __call__(self, u: Tensor, activity: Activity) -> Tensor:
        residual = self.system.kappa * activity.error - u
        size = residual.norm(dim=-1, keepdim=True)
        step = solve_gain(self.system.kappa, control_jacobian(self.system, activity), residual)
        if self.best is None:
            self.best, self.base, self.step, self.length = size, u, step, torch.ones_like(size)
        else:
            # Accept progress, and accept the smallest step in any case: the slopes may have changed under it.
            good = (size < self.best) | (self.length <= self.smallest)
            self.best = torch.where(good, size, self.best)
            self.base = torch.where(good, u, self.base)
            self.step = torch.where(good, step, self.step)
            self.length = torch.where(good, torch.ones_like(size), self.length / 2)
        return self.base + self.length * self.step
