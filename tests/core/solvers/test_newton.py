"""Newton's method: quadratic convergence, and strong feedback in a few steps."""

from __future__ import annotations

import torch

from efc.core.solvers import Newton
from support.helpers import Problem


def test_the_residual_is_squared_with_every_step() -> None:
    system = Problem(beta=0.0, kappa=5.0, target="strong", dynamics={"activation": "relu"}).system()
    exact = Newton(tol=1e-14, max_steps=60).solve(system).u
    errors = []
    for steps in (2, 3, 4):
        found = Newton(tol=1e-300, max_steps=steps, start="free").solve(system).u
        errors.append((found - exact).norm(dim=-1))
    near = errors[1] < 0.05  # where it is near enough for the theory
    assert near.any()
    assert (errors[2] <= 10 * errors[1].square() + 1e-13)[near].all()


def test_strong_feedback_is_settled_in_a_few_steps() -> None:
    found = Newton(tol=1e-10).solve(Problem(beta=0.0, kappa=50.0, target="strong").system())
    assert found.settled.all()
    assert int(found.iterations.max()) <= 30
    torch.testing.assert_close(found.u, found.system.kappa * found.activity.error)
