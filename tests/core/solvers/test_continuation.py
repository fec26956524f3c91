"""Strong feedback through several smooth layers: whatever a general root finder finds is found."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from efc.core import Newton, Result
from efc.core.solvers import continuation
from efc.core.solvers.base import SweepSolver
from efc.core.solvers.continuation import at_share, follow, loop_is_bent
from efc.core.system import sent, sweep_sent
from support.helpers import Problem, packed

NETS = {3: (4, 5, 4, 3), 4: (4, 5, 4, 4, 3)}
STRONG = [("softplus", "least_control", 5.0), ("softplus", "least_control", 100.0), ("softplus", "jacobian", 5.0),
          ("softplus", "jacobian", 100.0), ("smooth_relu", "least_control", 5.0),
          ("smooth_relu", "jacobian", 100.0)]  # fmt: skip


@pytest.mark.parametrize("depth", NETS)
@pytest.mark.parametrize(("activation", "feedback", "kappa"), STRONG)
def test_nearly_every_sample_settles_where_the_equations_hold(
    activation: str, feedback: str, kappa: float, depth: int
) -> None:
    """Brouwer: with a continuous slope every sample has an equilibrium. 99 % of 200 are found, and they are ones."""
    dynamics = {"feedback": feedback, "activation": activation}
    problem = Problem(NETS[depth], B=100, kappa=kappa, lam=1.0, dynamics=dynamics)
    solution = Newton(tol=1e-9).solve(problem.system())
    settled = solution.settled
    assert settled.double().mean() >= 0.99, solution.counts()
    assert solution.iterations[settled].double().mean() < 30
    for run, b in settled.nonzero()[::17].tolist():
        assert np.abs(problem.sample(run, b).equations(packed(solution, run, b))).max() < 1e-6


def test_what_a_root_finder_finds_is_found_as_well() -> None:
    """The case in which half of the samples used to be missed: least control, gain 5, four layers."""
    problem = Problem(
        NETS[4], B=6, kappa=5.0, lam=1.0, dynamics={"feedback": "least_control", "activation": "softplus"}
    )
    solution = Newton(tol=1e-10).solve(problem.system())
    assert solution.settled.all()
    for run in range(problem.R):
        for b in range(problem.B):
            found = problem.sample(run, b).equilibrium()
            np.testing.assert_allclose(packed(solution, run, b), found, rtol=1e-6, atol=1e-8)


def test_cases_that_plain_steps_settle_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weak feedback, one hidden layer, a ReLU, learned feedback: nobody is followed."""

    def refuse(*_: object) -> None:
        raise AssertionError("followed")

    monkeypatch.setattr("efc.core.solvers.newton.follow", refuse)
    weak = Problem(NETS[3], kappa=0.1, lam=0.01, dynamics={"activation": "softplus"}).system()
    shallow = Problem((4, 6, 3), kappa=5.0, lam=1.0, dynamics={"activation": "softplus"}).system()
    learned = Problem(NETS[3], kappa=0.5, dynamics={"activation": "softplus", "feedback": "learned"}).system()
    kinked = Problem(NETS[3], B=40, kappa=5.0, lam=1.0, dynamics={"activation": "relu"}).system()
    assert loop_is_bent(weak)
    assert not loop_is_bent(shallow)
    for system in (weak, shallow, learned):
        assert Newton().solve(system).settled.all()
    assert not Newton().solve(kinked).settled.all()
    with pytest.raises(AssertionError, match="followed"):
        Newton().solve(Problem(NETS[3], kappa=50.0, lam=1.0, dynamics={"activation": "softplus"}).system())


@pytest.mark.parametrize("depth", NETS)
@pytest.mark.parametrize("activation", ["softplus", "smooth_relu"])
def test_at_most_twice_the_sweeps_of_plain_steps(activation: str, depth: int) -> None:
    """Of the samples that Newton's steps with held slopes settle: weak to strong feedback, both tolerances. And there
    are cases in which these settle far fewer."""
    gained = 0.0
    for feedback, kappa, tol in itertools.product(("jacobian", "least_control"), (0.1, 5.0, 100.0), (1e-2, 1e-9)):
        dynamics = {"feedback": feedback, "activation": activation}
        system = Problem(NETS[depth], B=100, kappa=kappa, lam=1.0, dynamics=dynamics).system()
        plain, found = SweepSolver.solve(Newton(tol=tol), system), Newton(tol=tol).solve(system)
        both = plain.settled & found.settled
        assert both.double().mean() > 0.4
        assert found.iterations[both].sum() <= 2 * plain.iterations[both].sum(), (feedback, kappa, tol)
        gained = max(gained, float(found.settled.double().mean() - plain.settled.double().mean()))
    assert gained > 0.05


def test_with_one_hidden_layer_too() -> None:
    """There the first steps are exact already, and miss a sample now and then."""
    for activation in ("relu", "softplus"):
        problem = Problem((4, 6, 3), B=100, kappa=50.0, lam=1.0, dynamics={"activation": activation})
        solution = Newton(tol=1e-9).solve(problem.system())
        assert solution.settled.all()
        for run, b in ((0, 2), (1, 57)):
            assert np.abs(problem.sample(run, b).equations(packed(solution, run, b))).max() < 1e-7


def test_the_way_leads_from_almost_no_control_to_the_system_itself() -> None:
    problem = Problem(NETS[3], kappa=50.0, dynamics={"activation": "smooth_relu"})
    system = problem.system()
    share = torch.ones_like(system.free_error[..., :1])
    whole = at_share(system, share)
    torch.testing.assert_close(whole.kappa, system.kappa.expand_as(share))
    torch.testing.assert_close(whole.free.r[1], system.free.r[1])
    begun = at_share(system, 0 * share)
    torch.testing.assert_close(begun.kappa, torch.full_like(share, continuation.WEAK))
    torch.testing.assert_close(begun.free.r[1], torch.nn.functional.softplus(system.free.a[0]))
    weaker = problem.system(kappa=0.02)
    torch.testing.assert_close(at_share(weaker, 0 * share).kappa, weaker.kappa.expand_as(share))


def test_a_state_that_is_reached_is_what_one_more_pass_returns() -> None:
    system = Problem(NETS[4], B=20, kappa=20.0, lam=1.0, dynamics={"activation": "softplus"}).system()
    found = follow(system, tol=1e-11, max_steps=100)
    assert found.reached.all()
    again = sweep_sent(system, found.u, sent(found.activity))
    torch.testing.assert_close(system.kappa * again.error, found.u, rtol=1e-8, atol=1e-9)
    for one, other in zip(again.rates, found.activity.rates, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)


def test_whole_and_in_parts_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide layers are solved a few samples at a time."""
    problem = Problem(NETS[3], B=4, kappa=20.0, lam=1.0, dynamics={"activation": "softplus"})
    whole = Newton(tol=1e-9).solve(problem.system())
    monkeypatch.setattr("efc.core.solvers.newton.AT_ONCE", 1)
    parts = Newton(tol=1e-9).solve(problem.system())
    assert torch.equal(whole.iterations, parts.iterations)
    torch.testing.assert_close(whole.u, parts.u)
    torch.testing.assert_close(whole.rates[1], parts.rates[1])


def test_a_broken_sample_is_given_up_soon_and_alone() -> None:
    problem = Problem(NETS[3], R=1, B=4, kappa=50.0, lam=1.0, dynamics={"activation": "softplus"})
    problem.x[0, 1, 2] = float("nan")
    solution = Newton(max_steps=100).solve(problem.system())
    assert solution.result[0].tolist() == [Result.CONVERGED, Result.NON_FINITE, Result.CONVERGED, Result.CONVERGED]
    assert int(solution.iterations[0, 1]) < 20


def test_max_steps_bounds_all_sweeps_together() -> None:
    system = Problem(NETS[3], B=30, kappa=100.0, lam=1.0, dynamics={"activation": "softplus"}).system()
    for most in (3, 4, 5, 9):
        solution = Newton(tol=1e-12, max_steps=most).solve(system)
        assert int(solution.iterations.max()) <= most
        assert (solution.result[~solution.settled] != Result.CONVERGED).all()
