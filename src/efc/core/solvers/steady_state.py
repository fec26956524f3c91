"""The steady-state theorem as a solver: one linear solve at the free state."""

from __future__ import annotations

from dataclasses import dataclass

from efc.core.linear import steady_state_u
from efc.core.solution import Solution
from efc.core.solvers.base import Solver, sweep_states
from efc.core.solvers.watch import Watch
from efc.core.system import System, free_slopes, sweep


@dataclass(frozen=True)
class SteadyState(Solver):
    """``u = (J_eff + I/kappa)^{-1} (r* - p - gamma_eff)``, then one sweep to read the rates off.

    Second-order accurate as the signals shrink: right for weak feedback, wrong for strong. The residual tells; samples
    that miss ``tol`` (loose by default) are reported as out of steps, there being one step only.
    """

    tol: float = 0.1
    max_steps: int = 1

    def solve(self, system: System) -> Solution:
        u = steady_state_u(system)
        watch = Watch(system, self.tol, patience=2, max_steps=1)
        first = sweep(system, u, free_slopes(system))
        activity = sweep(system, u, first.slopes)
        watch.look(1, *sweep_states(system, u, first.slopes, activity))
        return watch.solution(u, activity)
