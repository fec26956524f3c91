"""Where things come to rest: descents with a known course, a rest point known in advance, samples known to cycle."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import root

from efc.core.activations import activation
from efc.core.control import Controller, Dynamics
from efc.core.network import Layout, Parameters
from efc.core.solution import Result
from efc.core.solvers import make_solver
from efc.core.system import System, build
from efc.theory.effort import Problem
from efc.theory.experiments import equilibrium as experiment
from efc.theory.experiments.equilibrium import (
    choose_three,
    descent_numbers,
    judge,
    outcome,
    several,
    slope,
    solve_both,
    trajectory_numbers,
)
from efc.theory.finding import Verdict
from efc.theory.flows import LOOKS, balance, descend_effort, follow_local_rule, record
from efc.theory.situation import HEAD_BETA, KAPPA, LAMBDA, Situation, one_hot
from support.helpers import Problem as Random

H, P, F = Verdict.HOLDS, Verdict.IN_PART, Verdict.FAILS


def one_layer() -> Problem:
    g = torch.Generator().manual_seed(0)
    layout = Layout((4, 3))
    theta = torch.randn(layout.n_parameters, generator=g, dtype=torch.float64)
    x, target = torch.rand(1, 4, generator=g).double(), torch.softmax(torch.randn(1, 3, generator=g).double(), -1)
    return Problem(layout, theta, activation("relu"), x, target)


def test_planted_on_one_layer_V_decays_at_a_known_rate() -> None:
    """psi' = -(|x|^2 + 1) psi: Euler's method multiplies V by (1 - step (|x|^2 + 1))^2 each time."""
    p = one_layer()
    course = descend_effort(p, 0.05, 40)
    factor = (1 - 0.05 * (float(p.x.square().sum()) + 1)) ** 2
    np.testing.assert_allclose(course.V, course.V[0] * factor ** np.arange(41), rtol=1e-9)
    found = descent_numbers(p, 1e-4, 5)
    assert found["rises"] == 0
    assert found["foreseen"] == pytest.approx(1, abs=1e-3)


def test_planted_a_step_that_is_too_long_rises() -> None:
    """The estimator sees what it should: above 2 / (|x|^2 + 1) Euler's method climbs."""
    p = one_layer()
    found = descent_numbers(p, 3 / (float(p.x.square().sum()) + 1), 5)
    assert found["rises"] == 5
    assert found["foreseen"] < 0


def test_descent_with_preservation_reaches_psi_zero() -> None:
    """V's only rest point on one layer is psi = 0, gamma or not; the free net alone then misses the target."""
    p = one_layer()
    g = torch.Generator().manual_seed(1)
    held = replace(p, pull=0.3 * torch.rand(len(p.theta), generator=g, dtype=torch.float64), anchor=p.theta.clone())
    course = descend_effort(held, 0.02, 400, adam=True)
    assert course.V[-1] < 1e-4 * course.V[0]
    end = course.end.problem.theta
    z = end[:12].view(3, 4) @ p.x[0] + end[12:]
    terms = held.pull * (end - p.theta)  # type: ignore[operator]
    gamma = -(terms[:12].view(3, 4) @ p.x[0] + terms[12:])
    torch.testing.assert_close(torch.softmax(z + gamma, 0), p.target[0], rtol=0.02, atol=1e-3)
    assert float((torch.softmax(z, 0) - p.target[0]).abs().max()) > 0.02


def flat_situation(tiny: Situation, importance: float) -> Situation:
    """The toy tasks without hidden layers, every weight equally important."""
    layout = Layout((6, 4))
    theta = 0.1 * torch.randn(2, layout.n_parameters, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    s = replace(tiny, layout=layout, theta_A=theta, _cache={})
    s._cache["diagonal"] = torch.full_like(theta, importance)
    return s


def test_planted_the_local_rule_rests_where_psi_is_minus_gamma(tiny: Situation) -> None:
    """One layer, one sample: kappa lambda (y - softmax(z + d)) = beta F d, d the change of the logits (root finder)."""
    beta, F_ = 3.0, 1e-3
    s = flat_situation(tiny, F_)
    start = s.theta_A[0]
    x, y = s.B.x[:1], one_hot(s.B.y[:1], s.classes, start)
    W, b = start[:24].view(4, 6), start[24:]
    z_0 = (W @ x[0] + b).numpy()
    strength = beta * HEAD_BETA * F_

    def equations(d: np.ndarray) -> np.ndarray:
        # At rest nothing modulates the output: u = kappa (r* - p), and gamma = -strength d.
        p = np.exp(z_0 + d) / np.exp(z_0 + d).sum()
        return KAPPA * LAMBDA * (y[0].numpy() - p) - strength * d

    d = root(equations, np.zeros(4), tol=1e-14).x
    rest = follow_local_rule(s, start, s.pull(0, [beta], start), x.unsqueeze(0), y.unsqueeze(0), 800)
    moved = rest.solution.system.free.z[0, 0].numpy() - z_0
    np.testing.assert_allclose(moved, d, rtol=1e-3, atol=1e-3 * np.abs(d).max())
    found = balance(rest.solution)
    assert float(found["sum"]) < 1e-2 * float(found["gamma"])
    assert float(found["psi"]) == pytest.approx(float(found["gamma"]), rel=0.02)
    assert float(found["psi"]) > 1e-5


def test_planted_without_importance_it_learns_on(tiny: Situation) -> None:
    """Strength where nothing is important is no strength: the same as none, and the loss keeps falling."""
    s = flat_situation(tiny, 0.0)
    x, y = s.B.x[:1], one_hot(s.B.y[:1], s.classes, s.theta_A[0])
    both = [t.unsqueeze(0).expand(2, -1, -1).contiguous() for t in (x, y)]
    rest = follow_local_rule(s, s.theta_A[0], s.pull(0, [0.0, 100.0], s.theta_A), *both, 200)  # type: ignore[arg-type]
    torch.testing.assert_close(rest.theta[0], rest.theta[1])
    losses = rest.loss[:, 1].tolist()
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.7 * losses[0]
    held = follow_local_rule(s, s.theta_A[0], s.pull(0, [0.0, 100.0], s.theta_A, floor=1.0), *both, 200)  # type: ignore[arg-type]
    torch.testing.assert_close(held.theta, rest.theta)  # a floor of a share of nothing


def test_pull_and_its_floor(tiny: Situation) -> None:
    s = tiny
    D = s.diagonal()[1]
    plain, floored = (s.pull(1, [2.0, 5.0], s.theta_A.double(), floor=floor) for floor in (0.0, 1.0))
    head = sum(t.numel() for t in s.layout.views(s.theta_A[:1]).weights[-1:]) + s.layout.sizes[-1]
    torch.testing.assert_close(plain[1][:-head], 5 * D[:-head])
    torch.testing.assert_close(plain[0][-head:], 2 * HEAD_BETA * D[-head:])
    assert float(plain.min()) == 0  # the new classes' rows
    torch.testing.assert_close((floored - plain)[0][:-head], (2 * D.mean()).expand(len(D) - head))
    assert float(floored.min()) > 0


# -- the activity ------------------------------------------------------------------------------------------------------


def test_the_recorder_is_the_relaxation() -> None:
    """It ends where the integrator of the oracle ends, and passes where the solver stops."""
    problem = Random(sizes=(5, 6, 5, 4), kappa=0.5)
    system = problem.system()
    courses = record(system, [(0, 1), (1, 2)], duration=60.0, dt=0.1)
    for course, (run, n) in zip(courses, [(0, 1), (1, 2)], strict=True):
        end = torch.cat([course.r[-1], course.u[-1]]).numpy()
        np.testing.assert_allclose(end, problem.sample(run, n).relaxed(60.0), atol=1e-7)
        free = torch.cat([t[run, n] for t in system.free.r[1:]])
        torch.testing.assert_close(course.r[0], free)
        assert float((course.r[-1] - course.r[0]).norm()) > 1e-4
    stopped = make_solver("relaxation", dt=0.1, tol=1e-3, max_steps=200).solve(system)
    steps = int(stopped.iterations[0, 1])
    torch.testing.assert_close(courses[0].u[steps - 1], stopped.u[0, 1])


def one_unit(kappa: float, gain: float) -> System:
    """One hidden unit that drives one of two classes: a loop of two lags and an integrator, of gain ~ gain^2."""
    theta = Parameters(
        (torch.ones(1, 1, 1).double(), torch.tensor([[[gain], [-gain]]]).double()),
        (torch.zeros(1, 1).double(), torch.tensor([[-gain, gain]]).double()),
    )
    x, y = torch.ones(1, 1, 1).double(), torch.tensor([[[1.0, 0.0]]]).double()
    return build(Dynamics(feedback="jacobian"), theta, x, y, Controller.from_gain(kappa), lam=0.01)


def test_planted_a_loop_that_settles_and_one_that_goes_round() -> None:
    relaxed, exact = solve_both(one_unit(0.1, 1.0))
    assert outcome(relaxed, exact) == {"settled": [1], "cycling": [0], "slow": [0], "rest_exists": [1]}
    relaxed, exact = solve_both(one_unit(1000.0, 4.0))
    assert outcome(relaxed, exact) == {"settled": [0], "cycling": [1], "slow": [0], "rest_exists": [1]}
    course = record(one_unit(1000.0, 4.0), [(0, 0)], 100.0, 0.1)[0]
    late = course.u[500:, 0]
    assert float(late.max() - late.min()) > 0.1 * float(exact.u.abs().max())  # it does not die out


def test_planted_two_rest_points_and_one() -> None:
    """A unit that keeps itself on once it is on, or cannot (tests/core/test_solution.py works it out by hand)."""
    for bias, share in ((1.01, 1.0), (3.0, 0.0)):
        one = torch.ones(1, 1, 1, dtype=torch.float64)
        theta = Parameters(
            (one, one, torch.tensor([[[1.0], [-1.0]]]).double()),
            (torch.zeros(1, 1).double(), torch.full((1, 1), -bias).double(), torch.zeros(1, 2).double()),
        )
        y = torch.tensor([[[1.0, 0.0]]]).double()
        system = build(Dynamics(feedback="jacobian"), theta, one, y, Controller.from_gain(1.0), target="strong")
        assert several(make_solver("newton", tol=1e-8, max_steps=200).solve(system)) == [share]


def test_the_three_that_are_drawn(tiny32: Situation) -> None:
    from efc.theory.closed_form import sweep_system

    gains = torch.tensor([0.1, 1.0, 30.0, 300.0], dtype=torch.float64)
    one = torch.ones_like(gains)
    relaxed, exact = solve_both(sweep_system(tiny32, 0, tiny32.theta_A[0], 0.01 * one, 0 * one, gains))
    found = choose_three(relaxed, exact)
    assert found["settled"][0] == 0
    assert bool(relaxed.settled[found["settled"]])
    assert int(relaxed.iterations[found["slow"]]) == int(relaxed.iterations[relaxed.settled].max())
    assert int(relaxed.result[found["cycling"]]) == Result.CYCLING
    assert not bool(
        (relaxed.result[: found["cycling"][0]] == Result.CYCLING)[exact.settled[: found["cycling"][0]]].any()
    )


def test_thinned_trajectories() -> None:
    course = record(one_unit(0.1, 1.0), [(0, 0)], 60.0, 0.1)[0]
    found = trajectory_numbers(course, points=100)
    assert len(found["t"]) == len(found["u"][0]) == len(found["r"][0]) == 101
    assert found["r"][0][0] == 0
    assert found["r"][0][-1] == pytest.approx(float(course.r[-1, 0] - course.r[0, 0]), rel=1e-4)


# -- what is said ------------------------------------------------------------------------------------------------------


def numbers() -> dict[str, Any]:
    steps = [10 * k for k in range(LOOKS + 1)]
    falling = [[1e-4, 1e-2 / max(k, 1) ** 2, 2e-2 / max(k, 1) ** 2] for k in range(LOOKS + 1)]
    stuck = [[1e-4, 0.5, 0.9] for _ in steps]
    rest = {"psi": [1e-6, 1e-3, 1e-3], "gamma": [0.0, 1e-3, 1e-3], "sum": [1e-6, 1e-9, 1e-9]}
    descent = {"V": [5.0, 1.0, 0.1], "rises": 0, "foreseen": 0.97, "psi": 0.1, "gamma": 0.0, "log_f": 0.9}
    course = {"t": [0.0, 1.0], "u": [[0.0, 1.0]], "r": [[0.0, 1.0]], "gain": 0.1}
    part = {"steps": steps, "one": rest}
    both = {
        "A": part | {"loss_one": falling, "loss_batch": falling},
        "all": part | {"loss_one": stuck, "loss_batch": stuck},
    }
    return {
        "descent": [copy.deepcopy({"0": descent, "10": descent | {"gamma": gamma}}) for gamma in (0.4, 0.5)],
        "rest": [copy.deepcopy(both) for _ in range(2)],
        "betas": [0.0, 1.0, 10.0],
        "gains": [0.1, 10.0, 1000.0],
        "shares": {
            "settled": [[1.0, 0.4, 0.0]], "cycling": [[0.0, 0.6, 1.0]], "slow": [[0.0, 0.0, 0.0]],
            "rest_exists": [[1.0, 1.0, 0.9]], "several": [[0.0, 0.04, 0.02]],
        },
        "trajectories": {"settled": course, "slow": course},
    }  # fmt: skip


def test_verdicts() -> None:
    assert [c.verdict for c in judge(numbers())] == [H, P, P, P, P, P]
    as_claimed = copy.deepcopy(numbers())
    for descent, rest in zip(as_claimed["descent"], as_claimed["rest"], strict=True):
        descent["0"]["log_f"] = 0.0
        rest["all"]["one"] = {"psi": [0, 1e-6, 1e-6], "gamma": [0.0, 1e-3, 1e-3], "sum": [0, 1e-3, 1e-3]}
        rest["A"] = rest["all"]
    as_claimed["shares"] |= {"settled": [[1.0, 1.0, 1.0]] * 2, "several": [[0.0, 0.0, 0.0]] * 2}
    assert [c.verdict for c in judge(as_claimed)] == [H, H, H, H, H, H]
    refuted = copy.deepcopy(numbers())
    for descent, rest in zip(refuted["descent"], refuted["rest"], strict=True):
        descent["0"] |= {"V": [5.0, 6.0, 7.0], "rises": 2, "foreseen": -0.5}
        descent["10"]["V"] = [5.0, 5.0, 5.0]
        rest["all"] = rest["A"]
    refuted["shares"] |= {"settled": [[0.5, 0.0, 0.0]] * 2, "several": [[0.1, 0.2, 0.1]] * 2}
    assert [c.verdict for c in judge(refuted)] == [F, F, F, F, F, F]
    rest = numbers()["rest"][0]["A"]
    assert slope(rest["steps"], rest["loss_one"], 1) == pytest.approx(-2)
    figure = experiment.draw(numbers())
    assert [axis.get_title() for axis in figure.axes].count("cycling: none was found") == 1


def test_seeds_that_disagree_decide_nothing() -> None:
    apart = numbers()
    apart["descent"][1]["0"] |= {"V": [5.0, 4.0, 4.5], "foreseen": 0.2, "log_f": 0.0}
    apart["shares"] |= {"settled": [[1.0, 1.0, 1.0], [0.9, 0.9, 0.9]], "several": [[0.0] * 3, [0.1] * 3]}
    found = [claim.verdict for claim in judge(apart)]
    assert [found[k] for k in (1, 4, 5)] == [Verdict.OPEN] * 3
    apart["descent"][1]["0"]["rises"] = 1  # a theorem fails with one seed
    assert judge(apart)[0].verdict == Verdict.OPEN  # its other half is open still


def test_the_experiment_from_end_to_end(tiny32: Situation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiment, "LONGEST", 400)
    monkeypatch.setattr(experiment, "WAY", 20)
    monkeypatch.setattr(experiment, "TO_REST", (100, 100))
    found = experiment.measure(tiny32, lambda _: None)
    claims = judge(found)
    assert claims[0].verdict == H
    assert set(found["trajectories"]) >= {"settled", "slow"}
    assert math.isclose(sum(found["shares"][k][0][0] for k in ("settled", "cycling", "slow")), 1)
    assert len(found["descent"]) == len(found["rest"]) == len(found["shares"]["settled"]) == tiny32.runs
    assert found["descent"][0]["0"]["V"] != found["descent"][1]["0"]["V"]  # each seed has its own network
    for rest in found["rest"]:
        one = rest["all"]["one"]
        assert one["gamma"][0] == 0
        assert all(gamma > 0 for gamma in one["gamma"][1:])
        assert rest["A"]["loss_one"][-1][0] < rest["A"]["loss_one"][0][0]
