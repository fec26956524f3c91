"""The differential equations themselves, stepped until they rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from efc.core.solution import Solution
from efc.core.solvers.base import STARTS, Solver, initial_u, over, positive
from efc.core.solvers.watch import Watch, largest, rounding
from efc.core.system import System, drive
from efc.errors import EFCError, choose

UNITS = 1
"""Rounding errors that are allowed for. A course that creeps towards its end stops as soon as it may, always short of
it: sixteen, as for the other solvers, left ``u`` a per cent off in single precision, whatever the tolerance."""


@dataclass(frozen=True)
class Relaxation(Solver):
    """``tau dr_i/dt = -r_i + f_i exp(psi_i + gamma_i)`` and the leaky PI controller, by Euler steps of ``dt``.

    The rates are stepped explicitly, the controller's leak implicitly (``v <- (v + dt e) / (1 + dt alpha)``), since at
    small gain ``alpha`` is large and an explicit leak would blow up. ``tau`` and ``dt`` shape the path, not its end.
    For looking at the dynamics; for training the other solvers reach the same point in a tenth of the sweeps.
    The tolerance is smaller than theirs, because the error does not fall far below it as it does with their last step.
    """

    tol: float = 1e-4
    max_steps: int = 1000
    tau: float = 1.0
    dt: float = 0.5
    patience: float = 24.0
    """In units of ``tau`` (and of steps, if that is longer)."""
    start: str = "free"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tau", "dt", "patience"):
            positive(getattr(self, name), name)
        choose("solver.start", self.start, STARTS)
        if self.dt > self.tau:
            raise EFCError(f"solver.dt: an explicit step must not exceed tau ({self.tau}), got {self.dt}")

    def solve(self, system: System) -> Solution:
        rate = self.dt / self.tau
        leak = 1 / (1 + self.dt * system.alpha)
        r, error = list(system.free.r[1:]), system.free_error
        v = initial_u(system, self.start) - system.k_p * error
        patience = max(24, round(self.patience * self.tau / self.dt))
        watch = Watch(system, self.tol, patience, self.max_steps, UNITS)
        for step in range(1, self.max_steps + 1):
            u = v + system.k_p * error
            activity = drive(system, u, r)
            answer = [system.kappa * activity.error, *activity.rates]
            done = watch.look(step, [u, *r], answer, self._scales(system, answer))
            if step == self.max_steps or over(done):
                break
            r = [torch.where(done, old, old + rate * (new - old)) for old, new in zip(r, activity.rates, strict=True)]
            v = torch.where(done, v, (v + self.dt * error) * leak)
            error = torch.where(done, error, error + rate * (activity.error - error))
        return watch.solution(u, activity)

    def _scales(self, system: System, answer: Sequence[Tensor]) -> list[Tensor]:
        """What control changes, at most: ``|u|`` and ``|r_i - r_i^free|``."""
        noise = rounding(answer[0], self.tol, UNITS)
        changes = (
            largest(r - free) + noise * largest(free) for r, free in zip(answer[1:], system.free.r[1:], strict=True)
        )
        return [largest(answer[0]), *changes]
