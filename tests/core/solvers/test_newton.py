"""Newton's method: quadratic convergence, and strong feedback in a few steps."""

from __future__ import annotations

import torch

from efc.core.solvers import Newton
from support.helpers import Problem


def test_the_residual_is_squared_with_every_step() -> None:
    system = Problem(beta=0.0, kappa=5.0, target="strong", dynamics={"activation": "relu"}).system()
    exact = Newton(tol=1e-14, max_steps=60).solve(system).u
    before, after = (
        (Newton(tol=1e-300, max_steps=steps, start="free").solve(system).u - exact).norm(dim=-1) for steps in (4, 5)
    )
    near = before < 0.01  # where the theory speaks: an iteration that is linear gains a fixed factor only
    assert int(near.sum()) >= 3
    assert (after <= before.square())[near].all()


def test_strong_feedback_is_settled_in_a_few_steps() -> None:
    found = Newton(tol=1e-10).solve(Problem(beta=0.0, kappa=50.0, target="strong").system())
    assert found.settled.all()
    assert int(found.iterations.max()) <= 30
    torch.testing.assert_close(found.u, found.system.kappa * found.activity.error)
