"""The equations of the system, one after the other, against the formulas of its docstring written out in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from efc.core import Controller, Dynamics, build
from efc.core.system import drive, feed_back, free_activity, free_preservation, free_slopes, output_error, sweep
from efc.errors import EFCError
from support.helpers import Problem
from support.oracle import softmax


@pytest.mark.parametrize("feedback", ["jacobian", "least_control", "learned"])
def test_a_sweep_is_the_equations_from_the_bottom_up(feedback: str) -> None:
    problem = Problem(sizes=(5, 6, 7, 4), dynamics={"feedback": feedback, "activation": "softplus"})
    system = problem.system()
    u = 0.1 * torch.randn(system.free_error.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    u = u.to(system.free_error)
    slopes = free_slopes(system)
    at = sweep(system, u, slopes)
    for run in range(problem.R):
        for b in range(problem.B):
            s = problem.sample(run, b)
            signal = u[run, b].cpu().numpy()
            g = [np.zeros(0), np.zeros(0)]
            g[1] = s.W[2].T @ signal
            g[0] = s.W[1].T @ (slopes[1][run, b].cpu().numpy() * g[1])
            r = s.x
            for i in range(2):
                a = s.W[i] @ r + s.b[i]
                f, slope = np.log1p(np.exp(a)), 1 / (1 + np.exp(-a))
                psi = {"jacobian": slope * g[i], "least_control": f * g[i], "learned": s.Q[i] @ signal}[feedback]
                gamma = -(s.G[i] @ r + s.Gb[i])
                r = f * np.exp(psi + gamma)
                np.testing.assert_allclose(at.hidden[i].r[run, b].cpu().numpy(), r, rtol=1e-12)
            z = s.W[2] @ r + s.b[2]
            answer = softmax(z + signal - (s.G[2] @ r + s.Gb[2]))
            np.testing.assert_allclose((system.target - at.error)[run, b].cpu().numpy(), answer, rtol=1e-9)


def test_targets_weak_and_strong() -> None:
    problem = Problem()
    p = torch.softmax(problem.system().free.z, -1)
    torch.testing.assert_close(problem.system(target="strong").target, problem.y)
    torch.testing.assert_close(problem.system(lam=0.25).target, p - 0.25 * (p - problem.y))


def test_without_signals_the_free_state_is_at_rest() -> None:
    system = Problem(beta=0.0).system()
    free, nothing = free_activity(system), torch.zeros_like(system.free_error)
    for at in (sweep(system, nothing, free.slopes), drive(system, nothing, free.rates)):
        torch.testing.assert_close(at.rates, free.rates)
        torch.testing.assert_close(at.error, system.free_error)


def test_drive_reads_all_layers_at_the_rates_it_is_given() -> None:
    """A layer answers to the rate below it as given, not as just computed."""
    system = Problem(sizes=(5, 6, 7, 4), beta=0.0).system()
    u = torch.zeros_like(system.free_error)
    free = free_activity(system)
    other = drive(system, u, [2 * free.rates[0], free.rates[1]])
    torch.testing.assert_close(other.rates[0], free.rates[0])
    torch.testing.assert_close(other.z, free.z)
    assert not torch.allclose(other.rates[1], free.rates[1])


def test_feedback_of_several_directions_is_that_of_each() -> None:
    system = Problem(sizes=(5, 6, 7, 4)).system()
    u = torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    u = u.to(system.free_error)
    together = feed_back(system, u, [slope.unsqueeze(2) for slope in free_slopes(system)])
    for k in range(5):
        for layer, alone in zip(together, feed_back(system, u[:, :, k], free_slopes(system)), strict=True):
            torch.testing.assert_close(layer[:, :, k], alone)


def test_preservation_of_the_free_rates() -> None:
    problem = Problem()
    found = free_preservation(problem.system())
    assert found is not None
    s = problem.sample(1, 2)
    np.testing.assert_allclose(found[0][1, 2].cpu().numpy(), -(s.G[0] @ s.x + s.Gb[0]))
    assert free_preservation(Problem(beta=0.0).system()) is None


def test_a_small_error_keeps_its_digits_in_single_precision() -> None:
    system = Problem(beta=0.0, lam=1e-6, dtype=torch.float32).system()
    exact = Problem(beta=0.0, lam=1e-6).system()
    found = output_error(system, system.free.z, torch.zeros_like(system.free.z))
    torch.testing.assert_close(found.double(), exact.free_error, rtol=1e-5, atol=0)


def test_feedback_weights_where_they_belong() -> None:
    problem = Problem()
    layers = problem.layout.views(problem.theta)
    for feedback, Q in (("learned", []), ("jacobian", problem.Q)):
        with pytest.raises(EFCError, match="Q: feedback weights are needed"):
            build(Dynamics(feedback=feedback), layers, problem.x, problem.y, Controller.from_gain(0.5), Q=Q)
