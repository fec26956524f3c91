"""Every solver against a general root finder, the differential equations against an adaptive integrator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from efc.core import Anderson, FixedPoint, Newton, Relaxation, Result, Solver, SteadyState
from efc.core.solvers.anderson import eliminate
from support.helpers import Problem, packed

SOLVERS: list[Solver] = [
    FixedPoint(tol=1e-10, damping=0.7, max_steps=500),
    Anderson(tol=1e-10),
    Newton(tol=1e-10),
    Relaxation(tol=1e-10, dt=0.25, max_steps=5000),
]
DEPTHS = {1: (4, 3), 2: (4, 5, 3), 3: (4, 5, 4, 3), 4: (4, 5, 4, 4, 3)}
DYNAMICS: list[dict[str, str]] = [
    {"feedback": feedback, "output": output, "activation": activation}
    for feedback in ("jacobian", "least_control", "learned")
    for output in ("softmax", "linear", "linear_ce")
    for activation in ("relu", "softplus")
] + [
    {"feedback": "jacobian", "form": "additive", "activation": "tanh"},
    {"feedback": "learned", "form": "additive", "activation": "softplus"},
    {"feedback": "jacobian", "form": "bounded", "output": "linear_ce", "activation": "relu"},
    {"feedback": "least_control", "form": "bounded", "output": "linear", "activation": "softplus"},
    {"feedback": "least_control", "activation": "tanh"},
    {"feedback": "least_control", "activation": "sigmoid"},
]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("dynamics", DYNAMICS, ids=lambda d: "-".join(d.values()))
@pytest.mark.parametrize("depth", DEPTHS)
def test_solver_agrees_with_root_finder(solver: Solver, dynamics: dict[str, str], depth: int) -> None:
    # A linear output has gain of its own (z exp(u)): a smaller one keeps the equilibrium unique.
    kappa = 0.2 if dynamics.get("output", "softmax") == "softmax" else 0.05
    problem = Problem(DEPTHS[depth], seed=depth, kappa=kappa, k_p=kappa / 4, dynamics=dynamics)
    solution = solver.solve(problem.system())
    assert solution.settled.all(), solution.counts()
    assert (solution.residual <= solver.tol).all()
    for run in range(problem.R):
        for b in range(problem.B):
            sample, found = problem.sample(run, b), packed(solution, run, b)
            assert np.abs(sample.equations(found)).max() < 1e-8
            np.testing.assert_allclose(found, sample.equilibrium(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("output", ["softmax", "linear", "linear_ce"])
@pytest.mark.parametrize("feedback", ["jacobian", "least_control", "learned"])
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_relaxation_agrees_with_the_integrated_equations(feedback: str, output: str, depth: int) -> None:
    dynamics = {"feedback": feedback, "output": output, "activation": "softplus"}
    problem = Problem(DEPTHS[depth], R=1, B=2, seed=3, kappa=0.3, k_p=0.1, dynamics=dynamics)
    solution = Relaxation(tol=1e-9, dt=0.25, max_steps=5000).solve(problem.system())
    assert solution.settled.all()
    for b in range(problem.B):
        np.testing.assert_allclose(packed(solution, 0, b), problem.sample(0, b).relaxed(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("feedback", ["jacobian", "least_control"])
@pytest.mark.parametrize("solver", [Anderson(tol=1e-9, max_steps=300), Newton(tol=1e-9)], ids=["Anderson", "Newton"])
def test_strong_feedback_reaches_the_same_equilibrium(solver: Solver, feedback: str) -> None:
    dynamics = {"feedback": feedback, "activation": "softplus"}
    problem = Problem((4, 6, 5, 3), kappa=2.0, target="strong", dynamics=dynamics)
    solution = solver.solve(problem.system())
    assert solution.settled.all()
    for run in range(problem.R):
        for b in range(problem.B):
            found = packed(solution, run, b)
            assert np.abs(problem.sample(run, b).equations(found)).max() < 1e-7


def test_solution_holds_what_it_says() -> None:
    problem = Problem((4, 5, 4, 3), dynamics={"activation": "softplus"})
    solution = Newton(tol=1e-11).solve(problem.system())
    sample = problem.sample(1, 2)
    r, u = sample.unpack(packed(solution, 1, 2))
    hidden, out = sample.drive(r, u)
    for given_rate, expected in zip(solution.rates, [*hidden, out], strict=True):
        np.testing.assert_allclose(given_rate[1, 2].cpu(), expected, rtol=1e-8)
    for i, (psi, gamma) in enumerate(zip(solution.psi[:-1], solution.gamma[:-1], strict=True)):
        f = solution.activity.hidden[i].f
        torch.testing.assert_close(f * torch.exp(psi + gamma), solution.rates[i])
    pre = np.concatenate([[0.0], problem.x[1, 2].cpu().numpy()])[1:]
    np.testing.assert_allclose(solution.gamma[0][1, 2].cpu(), -(sample.G[0] @ pre + sample.Gb[0]), rtol=1e-10)
    assert sum(solution.counts().values()) == problem.R * problem.B


@pytest.mark.parametrize("output", ["softmax", "linear", "linear_ce"])
@pytest.mark.parametrize(
    ("feedback", "form"),
    [
        ("jacobian", "multiplicative"),
        ("least_control", "multiplicative"),
        ("learned", "multiplicative"),
        ("jacobian", "additive"),
        ("learned", "additive"),
        ("jacobian", "bounded"),
    ],
)
def test_steady_state_is_second_order(feedback: str, output: str, form: str) -> None:
    """Halving lambda and beta together at fixed kappa divides the error of u by about four."""
    dynamics = {"feedback": feedback, "output": output, "activation": "softplus", "form": form}
    errors = []
    for scale in (1.0, 0.5, 0.25):
        kappa = 1.0 if output != "linear" else 0.1
        problem = Problem((4, 6, 5, 3), kappa=kappa, lam=0.02 * scale, beta=0.02 * scale, dynamics=dynamics)
        exact = Newton(tol=1e-12).solve(problem.system())
        assert exact.settled.all()
        errors.append(float((SteadyState().solve(problem.system()).u - exact.u).norm()))
    # 0.1 tanh has no second-order term of its own: its error may fall faster.
    most = 8.0 if form == "bounded" else 4.5
    assert 3.5 < errors[0] / errors[1] < most, errors
    assert 3.7 < errors[1] / errors[2] < most - 0.2, errors


def test_steady_state_reports_its_residual() -> None:
    weak = SteadyState().solve(Problem(lam=1e-3, beta=1e-3).system())
    strong = SteadyState().solve(Problem(kappa=50.0, target="strong", beta=0.5).system())
    assert weak.settled.all()
    assert strong.result.eq(Result.MAX_STEPS).any()


@pytest.mark.parametrize("start", ["free", "steady_state"])
def test_starting_points_lead_to_the_same_place(start: str) -> None:
    system = Problem((4, 5, 4, 3), kappa=1.0, dynamics={"activation": "softplus"}).system()
    reference = Newton(tol=1e-11).solve(system).u
    for solver in (Anderson(tol=1e-10, start=start), Relaxation(tol=1e-10, start=start, max_steps=5000)):
        torch.testing.assert_close(solver.solve(system).u, reference, rtol=1e-6, atol=1e-9)


def test_steady_state_start_saves_sweeps() -> None:
    system = Problem((4, 5, 4, 3), B=50, kappa=0.5, lam=0.01, beta=0.01, dynamics={"activation": "softplus"}).system()
    sweeps = [FixedPoint(tol=1e-4, start=s).solve(system).iterations.double().mean() for s in ("free", "steady_state")]
    assert sweeps[1] < sweeps[0]


@pytest.mark.parametrize(
    "change",
    [{"k_p": 0.2}, {"tau": 2.0}, {"dt": 0.1}, {"k_p": 0.5}],
    ids=lambda c: "-".join(f"{k}={v}" for k, v in c.items()),
)
def test_the_path_changes_but_not_the_equilibrium(change: dict[str, Any]) -> None:
    """alpha and k_p at fixed kappa, tau and dt shape the trajectory, never its end."""
    problem = Problem((4, 5, 4, 3), kappa=0.5, dynamics={"activation": "softplus"})
    gains = {k: v for k, v in change.items() if k == "k_p"}
    times = {k: v for k, v in change.items() if k != "k_p"}
    base = Relaxation(tol=1e-11, dt=0.25, max_steps=20000).solve(problem.system())
    other = Relaxation(**({"tol": 1e-11, "dt": 0.25, "max_steps": 20000} | times)).solve(problem.system(**gains))
    assert base.settled.all()
    assert other.settled.all()
    torch.testing.assert_close(base.u, other.u, rtol=1e-7, atol=1e-10)
    short = {"tol": 1e-11, "dt": 0.25, "max_steps": 8}
    early = Relaxation(**short).solve(problem.system()).activity.rates[0]
    early_other = Relaxation(**(short | times)).solve(problem.system(**gains)).activity.rates[0]
    assert not torch.allclose(early, early_other, rtol=1e-6)


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=2, max_size=5),
    R=st.integers(1, 4),
    B=st.integers(1, 5),
    seed=st.integers(0, 10_000),
    feedback=st.sampled_from(["jacobian", "least_control"]),
)
def test_runs_together_equal_runs_apart(sizes: list[int], R: int, B: int, seed: int, feedback: str) -> None:
    together = Problem((*sizes, 3), R=R, B=B, seed=seed, dynamics={"feedback": feedback})
    system = together.system(kappa=torch.linspace(0.1, 0.4, R), lam=torch.linspace(0.01, 0.2, R))
    joint = FixedPoint(tol=1e-12, max_steps=300).solve(system)
    for run in range(R):
        alone = Problem((*sizes, 3), R=R, B=B, seed=seed, dynamics={"feedback": feedback})
        for name in ("theta", "terms", "x", "y"):
            setattr(alone, name, getattr(alone, name)[run : run + 1])
        system = alone.system(kappa=torch.linspace(0.1, 0.4, R)[run], lam=torch.linspace(0.01, 0.2, R)[run])
        single = FixedPoint(tol=1e-12, max_steps=300).solve(system)
        assert torch.equal(single.result[0], joint.result[run])
        for one, many in zip((*single.rates, single.u), (*joint.rates, joint.u), strict=True):
            torch.testing.assert_close(one[0], many[run], rtol=0, atol=1e-10)


def test_newton_with_hundreds_of_classes_on_several_threads() -> None:
    problem = Problem((4, 6, 220), R=1, B=4, kappa=0.5, beta=0.0, dynamics={"activation": "softplus"})
    torch.set_num_threads(2)
    try:
        solution = Newton(tol=1e-9).solve(problem.system())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert solution.settled.all()
    torch.testing.assert_close(solution.u, Anderson(tol=1e-9).solve(problem.system()).u, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("m", [1, 2, 5])
def test_elimination_equals_the_library(m: int) -> None:
    """What the GPU uses in place of a batched solver."""
    g = torch.Generator().manual_seed(m)
    root = torch.randn(3, 4, m, 9, generator=g, dtype=torch.float64)
    G, b = root @ root.transpose(-1, -2), torch.randn(3, 4, m, 1, generator=g, dtype=torch.float64)
    expected = torch.linalg.solve(G, b).squeeze(-1)
    torch.testing.assert_close(eliminate(torch.cat([G, b], -1)), expected)


def test_in_single_precision_all_end_at_the_same_control() -> None:
    """Weak feedback, small errors: a course that stops short of its end by rounding would be a per cent off."""
    single = Problem((4, 20, 20, 3), B=40, kappa=0.1, lam=0.01, beta=1e-4, dtype=torch.float32)
    double = Problem((4, 20, 20, 3), B=40, kappa=0.1, lam=0.01, beta=1e-4)
    exact = Newton(tol=1e-12).solve(double.system())
    for solver in (Anderson(), FixedPoint(tol=1e-4), Newton(), Relaxation()):
        found = solver.solve(single.system())
        off = (found.u.double() - exact.u).norm(dim=-1) / exact.u.norm(dim=-1)
        compared = exact.settled & found.settled & (exact.u.norm(dim=-1) > 2e-5)
        assert int(compared.sum()) > 40
        assert off[compared].max() < (3e-3 if solver.tol < 1e-3 else 2 * solver.tol), solver
