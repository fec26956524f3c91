"""Samples that cannot settle are found out, named, and kept from doing harm."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from efc.core import (
    Anderson,
    Controller,
    Dynamics,
    FixedPoint,
    Newton,
    Parameters,
    Relaxation,
    Result,
    Solution,
    Solver,
    SteadyState,
    build,
    weight_change,
)
from efc.core.system import System
from efc.errors import EFCError
from support.helpers import Problem, flat

SOLVERS: list[Solver] = [FixedPoint(), Anderson(), Newton(), Relaxation(), SteadyState()]
by_name = pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)


def flipping(copies: int = 1) -> System:
    """A net of one unit per hidden layer without an equilibrium.

    While layer 2 is on, its feedback pushes layer 1 down, which turns layer 2 off (its bias is negative); while it is
    off no feedback reaches layer 1, which recovers and turns layer 2 on again.
    """
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    W = Parameters(
        (one, one, torch.tensor([[[1.0], [-1.0]]], dtype=torch.float64)),
        (torch.zeros(1, 1).double(), torch.full((1, 1), -0.999).double(), torch.zeros(1, 2).double()),
    )
    x = torch.ones(1, copies, 1, dtype=torch.float64)
    y = torch.tensor([0.0, 1.0], dtype=torch.float64).expand(1, copies, 2)
    return build(Dynamics(feedback="jacobian"), W, x, y, Controller.from_gain(1.0), lam=0.5)


@pytest.mark.parametrize(
    "solver", [FixedPoint(), FixedPoint(damping=0.5), Anderson(), Newton()], ids=lambda s: str(s)[:12]
)
def test_a_unit_that_flips_for_ever_is_cycling_within_a_few_dozen_sweeps(solver: Solver) -> None:
    solution = solver.solve(flipping())
    assert solution.result.item() == Result.CYCLING
    assert solution.iterations.item() <= 36


def test_relaxation_reports_the_flipping_unit_too() -> None:
    solution = Relaxation().solve(flipping())
    assert solution.result.item() == Result.CYCLING
    assert solution.iterations.item() < 200


def test_too_high_a_gain_for_plain_iteration_is_cycling_and_newton_settles() -> None:
    system = Problem((4, 6, 3), kappa=20.0, target="strong", dynamics={"activation": "softplus"}).system()
    assert (FixedPoint().solve(system).result == Result.CYCLING).any()
    assert Newton(tol=1e-6).solve(system).settled.all()


def test_slow_convergence_is_not_taken_for_a_cycle() -> None:
    system = Problem((4, 6, 3), kappa=0.5, dynamics={"activation": "softplus"}).system()
    slow = FixedPoint(damping=0.02, max_steps=2000, tol=1e-8).solve(system)
    assert slow.settled.all()
    assert (slow.iterations > 200).all()


@by_name
def test_max_steps_is_reported(solver: Solver) -> None:
    if isinstance(solver, SteadyState):
        solution = SteadyState(tol=1e-9).solve(Problem(kappa=2.0).system())
    else:
        solution = type(solver)(max_steps=1, tol=1e-12).solve(Problem(kappa=2.0).system())
    assert (solution.result == Result.MAX_STEPS).all()


@by_name
def test_nan_input_is_reported_and_goes_no_further(solver: Solver) -> None:
    problem = Problem((4, 5, 4, 3), B=4)
    clean = solver.solve(problem.system())
    problem.x[0, 1, 2] = float("nan")
    solution = solver.solve(problem.system())
    assert solution.result[0, 1] == Result.NON_FINITE
    others = torch.ones(problem.R, problem.B, dtype=torch.bool)
    others[0, 1] = False
    assert (solution.result[others] != Result.NON_FINITE).all()
    torch.testing.assert_close(solution.u[others], clean.u[others])
    for on_failure in ("keep", "zero"):
        change = weight_change(solution, problem.layout.views(torch.empty_like(problem.theta)), on_failure=on_failure)
        assert torch.isfinite(flat(change)).all()


@by_name
def test_infinite_gain_is_reported_for_its_run_alone(solver: Solver) -> None:
    problem = Problem((4, 5, 3), R=2, lam=0.01, beta=0.01)
    solution = solver.solve(problem.system(kappa=torch.tensor([float("inf"), 0.2])))
    assert (solution.result[0] == Result.NON_FINITE).all()
    assert (solution.result[1] == Result.CONVERGED).all()
    change = weight_change(solution, problem.layout.views(torch.empty_like(problem.theta)))
    assert (flat(change)[0] == 0).all()
    assert torch.isfinite(flat(change)).all()


def test_on_failure_decides_whether_an_unsettled_sample_counts() -> None:
    system = flipping()
    solution = FixedPoint().solve(system)
    out = {rule: flat(weight_change(solution, _empty_like(system.theta), on_failure=rule)) for rule in ("keep", "zero")}
    assert (out["zero"] == 0).all()
    assert (out["keep"] != 0).any()


@pytest.mark.parametrize("solver", [FixedPoint(), Anderson(), Newton(), Relaxation()], ids=lambda s: type(s).__name__)
def test_a_settled_sample_is_frozen_whatever_its_neighbours_do(solver: Solver) -> None:
    """A sample among neighbours that take more sweeps ends where it ends alone, rates included, in as many sweeps."""
    problem = Problem((4, 5, 4, 3), R=1, B=40, kappa=1.0, lam=0.5, dynamics={"activation": "softplus"})
    many = solver.solve(problem.system())
    quick = int(many.iterations[0].argmin())
    assert many.iterations[0, quick] < many.iterations.max()
    problem.x, problem.y = problem.x[:, quick : quick + 1], problem.y[:, quick : quick + 1]
    alone = solver.solve(problem.system())
    assert alone.iterations[0, 0] == many.iterations[0, quick]
    for one, among in zip((alone.u, *alone.rates), (many.u, *many.rates), strict=True):
        torch.testing.assert_close(one[0, 0], among[0, quick], rtol=1e-6, atol=1e-9)


def test_a_sample_that_counts_for_nothing_still_counts_in_the_mean() -> None:
    def first_layer() -> tuple[torch.Tensor, Solution]:
        solution = Anderson(tol=1e-10).solve(problem.system())
        return weight_change(solution, problem.layout.views(torch.empty_like(problem.theta))).weights[0][0], solution

    problem = Problem((4, 5, 3), R=1, B=4)
    with_all, solution = first_layer()
    own = torch.outer(solution.activity.hidden[0].shift[0, 3], problem.x[0, 3])
    problem.x[0, 3] = float("nan")
    torch.testing.assert_close(first_layer()[0], with_all - own / 4, rtol=1e-6, atol=1e-10)


def test_every_result_has_a_sentence() -> None:
    assert all(kind.message.endswith(".") for kind in Result)


def _empty_like(theta: Parameters) -> Parameters:
    return Parameters(tuple(map(torch.empty_like, theta.weights)), tuple(map(torch.empty_like, theta.biases)))


def mixed(*flippers: int) -> System:
    """A hundred samples a run, of which so many flip for ever; the others never reach the second layer."""
    one = torch.ones(len(flippers), 1, 1, dtype=torch.float64)
    W = Parameters(
        (one, one, torch.tensor([[1.0], [-1.0]], dtype=torch.float64).expand(len(flippers), 2, 1).clone()),
        (torch.zeros_like(one[0]), torch.full_like(one[0], -0.999), torch.zeros(1, 2).double()),
    )
    W = Parameters(W.weights, tuple(b.expand(len(flippers), -1).clone() for b in W.biases))
    x = torch.full((len(flippers), 100, 1), 0.5, dtype=torch.float64)
    for run, n in enumerate(flippers):
        x[run, :n] = 1.0
    y = torch.tensor([0.0, 1.0], dtype=torch.float64).expand(len(flippers), 100, 2)
    return build(Dynamics(feedback="jacobian"), W, x, y, Controller.from_gain(1.0), lam=0.5)


@pytest.mark.parametrize("cls", [FixedPoint, Anderson])
def test_the_search_of_a_run_ends_when_enough_of_its_batch_have_settled(cls: type[FixedPoint]) -> None:
    """One of a hundred flips in the first run, two in the second: with 99 % enough, only the second goes on."""
    every, enough = cls().solve(mixed(1, 2)), cls(enough=0.99).solve(mixed(1, 2))
    assert every.result[0, 0] == Result.CYCLING
    assert enough.result[0, 0] == Result.MAX_STEPS  # nobody waited to see that it goes round
    assert enough.iterations[0].max() < every.iterations[0].max()
    assert (enough.result[1, :2] == Result.CYCLING).all()
    for one, other in ((every, enough), (enough, cls(enough=0.99).solve(mixed(1)))):
        torch.testing.assert_close(one.u[0, 1:], other.u[0, 1:])
        assert (one.settled[0, 1:] == other.settled[0, 1:]).all()
    assert enough.settled[0, 1:].all()


def test_an_absolute_tolerance_is_the_change_of_the_controllers_output() -> None:
    system = Problem((4, 6, 5, 3), kappa=0.5, lam=0.01).system()
    loose, tight = (FixedPoint(tol=1e-4, measure=measure).solve(system) for measure in ("absolute", "relative"))
    change = (system.kappa * loose.activity.error - loose.u).abs().amax(-1)
    assert loose.settled.all()
    assert (change <= 1e-4).all()
    torch.testing.assert_close(change, loose.residual)
    assert loose.iterations.sum() < tight.iterations.sum()  # u is far below one here


@pytest.mark.parametrize(
    ("options", "says"),
    [({"enough": 0.0}, "solver.enough: must be above 0"), ({"measure": "abs"}, "solver.measure: unknown value 'abs'")],
)
def test_mistakes_in_what_ends_a_search(options: dict[str, Any], says: str) -> None:
    with pytest.raises(EFCError, match=says):
        FixedPoint(**options)
