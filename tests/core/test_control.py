"""Gains, combinations that cannot work, and bad values: one clear sentence each."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from efc.core import Controller, Dynamics, Layout, Relaxation, activation, make_solver
from efc.core.axis import per_run
from efc.errors import EFCError
from support.helpers import Problem


def test_gain_is_integral_plus_proportional() -> None:
    controller = Controller.from_gain([0.5, 2.0], [0.1, 2.0])
    torch.testing.assert_close(controller.kappa, torch.tensor([0.5, 2.0]).double())
    torch.testing.assert_close(controller.alpha, torch.tensor([2.5, float("inf")]).double())


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Controller.from_gain(-1.0), "kappa: .*-1"),
        (lambda: Controller.from_gain(1.0, 2.0), "k_p: .*got 2"),
        (lambda: Dynamics(activation="rleu"), "activation: .*'rleu'.*'relu'"),
        (lambda: Dynamics(output="sofmax"), "output: .*'softmax'"),
        (lambda: Dynamics(feedback="least"), "feedback"),
        (lambda: Dynamics(activation="tanh", feedback="jacobian"), "signed activation 'tanh'"),
        (lambda: Dynamics(activation="tanh", feedback="learned"), "signed activation 'tanh'"),
        (lambda: Dynamics(form="additive", feedback="least_control"), "additive"),
        (lambda: make_solver("newtno"), "solver: .*'newton'"),
        (lambda: make_solver("newton", damping=0.5), "solver.damping: newton has no such option"),
        (lambda: make_solver("fixed_point", damping=1.5), "damping: .*1.5"),
        (lambda: make_solver("anderson", tol=0), "tol: must be positive"),
        (lambda: make_solver("anderson", start="warm"), "start: .*'warm'"),
        (lambda: Relaxation(dt=2.0), "dt: .*2.0"),
        (lambda: Layout((3,)), "sizes"),
        (lambda: Layout((3, 0, 2)), "sizes"),
        (lambda: per_run("beta", [1.0, 2.0], 3, torch.zeros(1)), "beta: .*one per run \\(3\\), got 2"),
        (lambda: Problem(target="storng").system(), "target: .*'strong'"),
    ],
)
def test_mistakes_are_named(make: Any, says: str) -> None:
    with pytest.raises(EFCError, match=says):
        make()


@pytest.mark.parametrize("name", ["relu", "softplus", "tanh", "sigmoid"])
def test_slopes_are_derivatives(name: str) -> None:
    a = torch.linspace(-3, 3, 41, dtype=torch.float64, requires_grad=True)
    sigma = activation(name)
    f = sigma.rate(a)
    (expected,) = torch.autograd.grad(f.sum(), a)
    torch.testing.assert_close(sigma.slope(a, f).detach(), expected)
    assert sigma.signed == bool((f < 0).any())


def test_a_plain_number_is_taken_in_double_precision() -> None:
    assert float(Controller.from_gain(0.1).kappa) == pytest.approx(0.1, abs=1e-15)
