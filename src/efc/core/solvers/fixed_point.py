"""Damped fixed-point iteration in ``u``."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from efc.core.solvers.base import Proposal, SweepSolver
from efc.core.solvers.rows import Rows
from efc.core.system import Activity, System
from efc.errors import EFCError


@dataclass(frozen=True)
class FixedPoint(SweepSolver):
    """``u <- u + damping (kappa (r* - r_L) - u)``.

    The cheapest solver in weak feedback (a handful of sweeps). Not for large gain: with loop gain ``kappa J_eff`` above
    ``2 / damping - 1`` it oscillates and reports cycling; use :class:`Anderson` or :class:`Newton` there.
    """

    damping: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.damping <= 1:
            raise EFCError(f"solver.damping: must lie in (0, 1], got {self.damping}")

    def begin(self, system: System) -> Proposal:
        return _Damped(system, self.damping)


class _Damped(Proposal):
    def __init__(self, system: System, damping: float) -> None:
        self.system, self.damping = system, damping

    def narrow(self, rows: Rows) -> None:
        return None  # it keeps nothing

    def __call__(self, u: Tensor, activity: Activity) -> Tensor:
        wanted = self.system.kappa * activity.error
        return wanted if self.damping == 1 else u + self.damping * (wanted - u)
