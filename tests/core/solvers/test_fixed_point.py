"""Plain iteration, step by step against the equations, and the gain it can take."""

from __future__ import annotations

import torch

from efc.core.solution import Result
from efc.core.solvers import FixedPoint
from efc.core.system import free_slopes, sweep
from support.helpers import Problem


def test_each_step_goes_the_damped_share_of_the_way() -> None:
    """From ``u_0 = kappa (r* - p)`` on, recomputed with the equations themselves."""
    system = Problem(sizes=(5, 4), beta=0.0).system()
    for damping in (1.0, 0.25):
        u = system.kappa * system.free_error
        for steps in range(2, 5):
            wanted = system.kappa * sweep(system, u, free_slopes(system)).error
            u = u + damping * (wanted - u)
            found = FixedPoint(damping=damping, max_steps=steps, tol=1e-300).solve(system)
            torch.testing.assert_close(found.u, u)


def test_at_rest_u_is_the_gain_times_what_is_left() -> None:
    found = FixedPoint(tol=1e-12).solve(Problem().system())
    assert (found.result == Result.CONVERGED).all()
    torch.testing.assert_close(found.u, found.system.kappa * found.activity.error)


def test_damping_lifts_the_gain_it_can_take() -> None:
    """The loop gain may come up to ``2 / damping - 1``."""
    system = Problem(beta=0.0, kappa=40.0, target="strong").system()
    assert not FixedPoint().solve(system).settled.all()
    assert FixedPoint(damping=0.05, max_steps=2000).solve(system).settled.all()
