"""Rows of derivatives against automatic differentiation of the obvious function, sample by sample."""

from __future__ import annotations

import torch

from efc.core.control import Controller, Dynamics
from efc.core.linear import preservation_effect
from efc.core.system import build, free_activity
from efc.theory import rows
from efc.theory.methods import Control, preservation_terms
from efc.theory.situation import Situation, one_hot
from support.theory_oracle import net


def test_gradient_rows_are_the_gradients(tiny: Situation) -> None:
    s, theta = tiny, tiny.theta_A[0]
    y = one_hot(s.A.y, s.classes_A, theta)
    found = rows.gradient_rows(s.layout, theta, s.sigma, s.A.x, y, s.classes_A)
    for n in (0, 5):
        t = theta.clone().requires_grad_()
        loss = -torch.log_softmax(net(s, t, s.A.x[n], s.classes_A), 0)[int(s.A.y[n])]
        expected = torch.autograd.grad(loss, t)[0]
        torch.testing.assert_close(found[n], expected)
    assert found[:, -1].abs().max() == 0  # the last bias belongs to task B's classes


def test_jacobian_rows(tiny: Situation) -> None:
    s, theta = tiny, tiny.theta_A[1]
    x = s.probes.x[:3]
    found = rows.jacobian_rows(s.layout, theta, s.sigma, x, s.classes)
    for n in range(3):
        expected = torch.autograd.functional.jacobian(
            lambda t, n=n: torch.softmax(net(s, t, x[n], s.classes), 0), theta
        )
        torch.testing.assert_close(found[n], expected)


def test_effective_preservation_is_the_cores(tiny: Situation) -> None:
    """Against the first-order response the solvers use, at weights that have moved."""
    s, run = tiny, 0
    theta = s.theta_A[run] + 0.1 * torch.randn(s.layout.n_parameters, dtype=torch.float64)
    terms = preservation_terms(s, run, theta, Control(beta=1.0, head_beta=1.0))
    x, y = s.probes.x, one_hot(s.probes.y, s.classes, theta)
    layers = rows.layers_of(s.layout, theta, s.classes)
    system = build(
        Dynamics(feedback="jacobian"), layers, x.unsqueeze(0), y.unsqueeze(0), Controller.from_gain(0.1), terms=terms
    )
    expected = preservation_effect(system, free_activity(system))
    assert expected is not None
    assert expected.abs().max() > 1e-6
    for n in range(len(x)):
        D, anchor = s.diagonal()[run], s.theta_A[run]
        found = rows.effective_preservation(s.layout, theta, s.sigma, x[n], D, anchor, s.classes)
        torch.testing.assert_close(found, expected[0, n])


def test_preservation_rows_by_finite_differences(tiny: Situation) -> None:
    s, run, h = tiny, 1, 1e-6
    theta = s.theta_A[run] + 0.05 * torch.randn(
        s.layout.n_parameters, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    D, anchor, x = s.diagonal()[run], s.theta_A[run], s.probes.x[:2]
    found = rows.preservation_rows(s.layout, theta, s.sigma, x, D, anchor, s.classes)
    for n in range(2):
        for j in (0, 20, 45, 80, s.layout.n_parameters - 1):
            step = torch.zeros_like(theta)
            step[j] = h
            ends = [
                rows.effective_preservation(s.layout, theta + sign * step, s.sigma, x[n], D, anchor, s.classes)
                for sign in (1, -1)
            ]
            torch.testing.assert_close(found[n, :, j], -(ends[0] - ends[1]) / (2 * h), rtol=1e-4, atol=1e-8)


def test_model_fisher_is_the_expectation_over_the_models_labels(tiny: Situation) -> None:
    s, theta = tiny, tiny.theta_A[0]
    v = torch.randn(s.layout.n_parameters, dtype=torch.float64)
    total = 0.0
    for x in s.A.x:
        p = torch.softmax(net(s, theta, x, s.classes_A), 0)
        for c in range(2):
            y = torch.eye(2, dtype=torch.float64)[c]
            g = rows.gradient_rows(s.layout, theta, s.sigma, x[None], y[None], s.classes_A)[0]
            total += float(p[c] * (g @ v) ** 2)
    found = rows.model_fisher_along(s.layout, theta, s.sigma, s.A.x, v, s.classes_A)
    assert abs(found - total / len(s.A.x)) < 1e-10 * abs(found)


def test_mean_gradient(tiny: Situation) -> None:
    s = tiny
    y = one_hot(s.A.y, s.classes_A, s.theta_A)
    loss, gradient = rows.mean_gradient(s.layout, s.theta_A, s.sigma, s.A.x, y, s.classes_A)
    for run in range(2):
        each = rows.gradient_rows(s.layout, s.theta_A[run], s.sigma, s.A.x, y, s.classes_A)
        torch.testing.assert_close(gradient[run], each.mean(0))
        z = torch.stack([net(s, s.theta_A[run], x, s.classes_A) for x in s.A.x])
        torch.testing.assert_close(loss[run], torch.nn.functional.cross_entropy(z, s.A.y))
