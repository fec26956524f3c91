"""Newton's method in the C-dimensional space of ``u``."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from efc.core.linear import control_jacobian, solve_gain
from efc.core.solution import Result, Solution
from efc.core.solvers.base import Proposal, SweepSolver, over, rows_of
from efc.core.solvers.continuation import can_be_followed, follow, loop_is_bent
from efc.core.solvers.rows import Rows, left_in_parts
from efc.core.system import Activity, System

CHEAP = 4
"""Sweeps before exact steps on the whole loop."""
AT_ONCE = 2**23
"""Numbers in one tensor of the exact steps."""


@dataclass(frozen=True)
class Newton(SweepSolver):
    """``u <- u + (I + kappa dr_L/du)^{-1} (kappa (r* - r_L) - u)``, the step halved while the residual grows.

    The derivatives sigma' are held fixed inside a step: exact for ReLU between flips, and with one hidden layer. For
    strong feedback. Each step solves a C x C system per sample and holds (R, B, d, C) numbers: not for hundreds of
    classes in weak feedback.

    Where sigma is smooth, or there is one hidden layer, samples that such steps do not settle (with several layers: a
    few of them) get exact steps on the whole loop, with the gain (and the sharpness of ``smooth_relu``) raised step by
    step where they fail: see ``efc.core.solvers.continuation``. These cost more: a system of as many unknowns as the
    hidden layers above the first have units, and outputs.
    """

    start: str = "steady_state"

    @property
    def recordable(self) -> bool:
        return False  # solves linear systems by a library that wants the host

    def begin(self, system: System) -> Proposal:
        return _Step(system)

    def solve(self, system: System) -> Solution:
        brief = replace(self, max_steps=min(CHEAP, self.max_steps)) if loop_is_bent(system) else self
        first = super(Newton, brief).solve(system)
        settled = first.settled.unsqueeze(-1)
        if can_be_followed(system) and not over(settled):
            left = self.max_steps - int(first.iterations.max())
            if left > 0:
                self._follow(first, settled, left)
        return first

    def _follow(self, first: Solution, settled: Tensor, max_steps: int) -> None:
        """Exact steps for those that have not settled; what they find is written into ``first``."""
        units = sum(a.shape[-1] for a in first.system.free.a[1:])
        widest = max(a.shape[-1] for a in first.system.free.a)
        most = max(1, AT_ONCE // (len(settled) * units * max(units, widest)))
        result, iterations, residual = (t.unsqueeze(-1) for t in (first.result, first.iterations, first.residual))
        for rows in left_in_parts(settled, most):
            found = follow(rows_of(first.system, rows), self.tol, max_steps)
            rows.put(iterations, rows.take(iterations) + found.steps)
            there = rows.only(found.reached)
            ends = torch.full_like(found.steps, Result.CONVERGED)
            there.put([first.u, result, residual], [found.u, ends, found.residual])
            there.put(first.activity, found.activity)


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
