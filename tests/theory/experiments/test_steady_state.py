"""The steady-state theorem: its readings against derivatives taken by brute force, its order, what is said of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.func import jacrev

from efc.core.linear import control_jacobian, steady_state_u
from efc.core.system import free_activity
from efc.theory.closed_form import (
    READINGS,
    bare_response,
    closed_form,
    closed_form_rates,
    compare,
    output_factor,
    sweep_system,
)
from efc.theory.experiments import steady_state
from efc.theory.experiments.steady_state import FACTORS, flips, judge, order, summary
from efc.theory.finding import Verdict
from efc.theory.situation import Situation
from support.helpers import Problem

H, P, F = Verdict.HOLDS, Verdict.IN_PART, Verdict.FAILS


@pytest.mark.parametrize("feedback", ["jacobian", "least_control"])
def test_readings_against_brute_force(feedback: str) -> None:
    """J_0 and gamma_0 by automatic differentiation of the free net's logits, sample by sample."""
    problem = Problem(dynamics={"feedback": feedback})
    system = problem.system()
    J_0, gamma_0 = bare_response(system)
    W, b = system.theta.weights, system.theta.biases
    for run in range(problem.R):
        for n in range(problem.B):
            a_1 = W[0][run] @ system.free.r[0][run, n] + b[0][run]
            f = a_1.clamp_min(0)
            Z = jacrev(lambda r, run=run: W[1][run] @ r + b[1][run])(f)
            own = f if feedback == "least_control" else (a_1 > 0).to(f)
            G, Gb = (
                t[run]
                for t in (problem.layout.views(problem.terms).weights[0], problem.layout.views(problem.terms).biases[0])
            )
            H_, Hb = (
                t[run]
                for t in (problem.layout.views(problem.terms).weights[1], problem.layout.views(problem.terms).biases[1])
            )
            gamma_1 = -(G @ system.free.r[0][run, n] + Gb)
            expected = torch.eye(4, dtype=f.dtype) + Z @ torch.diag(f * own) @ Z.T
            torch.testing.assert_close(J_0[run, n], expected)
            torch.testing.assert_close(gamma_0[run, n], -(H_ @ f + Hb) + Z @ (f * gamma_1))
            p = torch.softmax(system.free.z[run, n], -1)
            S = torch.diag(p) - torch.outer(p, p)
            for reading, M in (("softmax", S), ("elementwise", torch.diag(p)), ("printed", torch.eye(4).double())):
                torch.testing.assert_close(output_factor(system, reading)[run, n], M)
                wanted = system.free_error[run, n] - M @ gamma_0[run, n]
                u = torch.linalg.solve(M @ expected + torch.eye(4).double() / problem.kappa, wanted)
                torch.testing.assert_close(closed_form(system, reading)[run, n], u)


def test_with_the_softmax_it_is_the_cores_theorem() -> None:
    """Without preservation; with it the package's J_eff knows that gamma answers to the rates."""
    system = Problem(sizes=(5, 7, 6, 4), beta=0).system()
    torch.testing.assert_close(closed_form(system), steady_state_u(system))
    held = Problem(sizes=(5, 7, 6, 4), beta=0.05).system()
    torch.testing.assert_close(closed_form(held, "package"), steady_state_u(held))
    assert float((closed_form(held) - steady_state_u(held)).norm() / steady_state_u(held).norm()) > 1e-4
    J_0, _ = bare_response(system)
    torch.testing.assert_close(output_factor(system, "softmax") @ J_0, control_jacobian(system, free_activity(system)))


def positive(**changes: Any) -> Problem:
    """All weights positive: every ReLU is on and stays on, the net is linear."""
    problem = Problem(sizes=(5, 6, 5, 4), R=len(FACTORS), kappa=0.5, **changes)
    problem.theta = 0.3 * problem.theta.abs()[:1].expand(len(FACTORS), -1).contiguous()
    problem.x, problem.y = (t[:1].expand(len(FACTORS), -1, -1).contiguous() for t in (problem.x, problem.y))
    factors = torch.tensor(FACTORS, dtype=torch.float64)
    problem.terms = problem.terms[:1] * factors.unsqueeze(1)
    problem.lam = factors / max(FACTORS)  # type: ignore[assignment]
    return problem


def test_planted_a_linear_net_has_the_orders() -> None:
    c = compare(positive(beta=1e-3).system())
    assert bool(c.settled.all())
    assert not bool(c.flipped.any())
    assert order(c, c.error["softmax"], FACTORS) == pytest.approx(2, abs=0.02)
    assert order(c, c.error["package"], FACTORS) == pytest.approx(2, abs=0.02)
    assert order(c, c.error["printed"], FACTORS) == pytest.approx(1, abs=0.02)
    assert order(c, c.error["elementwise"], FACTORS) == pytest.approx(1, abs=0.02)
    assert bool((c.rates[-1] < 1e-3).all())
    assert bool((c.rates[0] > 10 * c.rates[-1]).all())


def test_the_error_is_measured_against_an_independent_root_finder() -> None:
    problem = Problem(sizes=(5, 6, 5, 4), seed=0, beta=0.2, kappa=2.0, lam=0.5)
    c, system = compare(problem.system()), problem.system()
    u, shifts = closed_form(system), closed_form_rates(system, closed_form(system))
    flipped = []
    for n in range(problem.B):
        sample = problem.sample(0, n)
        rates, u_true = sample.unpack(sample.equilibrium())
        error = np.linalg.norm(u[0, n].numpy() - u_true)
        assert float(c.error["softmax"][0, n]) == pytest.approx(error / problem.kappa, rel=1e-5)
        assert float(c.relative["softmax"][0, n]) == pytest.approx(error / np.linalg.norm(u_true), rel=1e-5)
        free = np.concatenate(sample.free()[0])
        moved = np.concatenate(rates) - free
        wrong = np.linalg.norm(torch.cat([t[0, n] for t in shifts]).numpy() - moved) / np.linalg.norm(moved)
        assert float(c.rates[0, n]) == pytest.approx(wrong, rel=1e-5)
        flipped.append(bool(((np.concatenate(rates) > 1e-12) != (free > 1e-12)).any()))
    assert c.flipped[0].tolist() == flipped
    assert any(flipped)
    assert not all(flipped)


def test_planted_a_unit_at_its_kink_spoils_the_order() -> None:
    """A unit of the second layer a hair below its threshold switches on at once: first order."""
    problem = positive(beta=0.0)
    layers = problem.layout.views(problem.theta)
    system = problem.system()
    below = system.free.a[1][:, 0, 0] - layers.biases[1][:, 0]
    layers.biases[1][:, 0] = -below - 1e-9
    c = compare(problem.system())
    first = c.flipped[:, 0]  # the sample it was set up for
    assert bool(first[:-4].all())
    x = np.log(FACTORS)
    e = c.error["softmax"][:, 0].log().numpy()
    slopes = (np.diff(e) / np.diff(x))[first[1:].numpy()]
    assert slopes[-1] < 1.1  # down to where it no longer flips
    assert slopes[0] > 1.8  # for large signals there are larger errors
    found = flips([c], FACTORS)
    assert found["order"] == pytest.approx(np.median(slopes))
    assert found["seen"] >= 8
    assert order(c, c.error["softmax"], FACTORS) == pytest.approx(2, abs=0.02)  # of the other samples


def test_the_sweep_is_the_learners_system(tiny: Situation) -> None:
    """Strengths, head factor and gain as EFC has them."""
    from efc.theory.methods import Control, equilibrium
    from efc.theory.situation import one_hot

    s, theta = tiny, tiny.theta_A[0] + 0.1
    lam, beta, kappa = (torch.tensor(v, dtype=torch.float64) for v in ([0.1, 0.2], [5.0, 50.0], [0.3, 2.0]))
    system = sweep_system(s, 0, theta, lam, beta, kappa)
    from efc.core.solvers import make_solver

    found = make_solver("newton", tol=1e-10, max_steps=200).solve(system)
    for k in range(2):
        control = Control(beta=float(beta[k]), kappa=float(kappa[k]), lam=float(lam[k]), tol=1e-10)
        one = equilibrium(s, 0, theta, s.probes.x, one_hot(s.probes.y, s.classes, theta), control)
        both = (one.settled & found.settled[k : k + 1])[0]
        assert int(both.sum()) >= 4
        torch.testing.assert_close(found.u[k][both], one.u[0][both], rtol=1e-6, atol=1e-10)


def numbers(softmax: float = 2.0, printed: float = 1.0, error: float = 1e-4, unsettled: float = 0.0) -> dict[str, Any]:
    orders = {"softmax": [softmax], "package": [softmax], "printed": [printed], "elementwise": [printed]}

    def sweep(order: bool) -> dict[str, Any]:
        return {
            "error": {r: [1e-2] * 3 for r in READINGS}, "relative": {r: [error] * 3 for r in READINGS},
            "rates": [error] * 3, "error_flipped": [None, 1e-3, None], "flipped": [0.1] * 3,
            "unsettled": [unsettled] * 3,
            "order": orders if order else {},
        }  # fmt: skip

    return {
        "factors": [1.0, 0.1, 0.01],
        "gains": [1.0, 0.1, 0.01],
        "sweeps": {k: sweep(True) for k in ("together", "together_strong", "lambda", "beta")} | {"kappa": sweep(False)},
        "flips": {"order": 1.0, "pairs": 3, "ratio": 4.0, "seen": 5},
        "flips_by_seed": [{"order": 1.0, "ratio": 4.0}, {"order": 1.1, "ratio": 5.0}, {"order": None, "ratio": 4.5}],
        "shipped": {name: [error] for name in (*READINGS, "rates")},
        "any_gain": {"error": [error, 1.1 * error], "unsettled": [unsettled, unsettled]},
    }


def test_verdicts() -> None:
    assert [c.verdict for c in judge(numbers())] == [H, F, F, H, H]
    assert judge(numbers(softmax=1.2))[0].verdict == F
    assert judge(numbers(printed=2.0))[1].verdict == H
    assert judge(numbers(error=0.3))[3].verdict == F
    assert judge(numbers(unsettled=0.2))[4].verdict == P
    flip = {"order": 2.0, "pairs": 3, "ratio": 1.0, "seen": 5}
    smooth = numbers() | {"flips": flip, "flips_by_seed": [flip] * 3}
    assert judge(smooth)[2].verdict == H
    spread = numbers() | {"flips_by_seed": [{"order": 1.0, "ratio": 1.0}, {"order": 2.5, "ratio": 2.1}]}
    assert judge(spread)[2].verdict == Verdict.OPEN
    unseen = numbers() | {"flips": {"order": None, "pairs": 0, "ratio": None, "seen": 0}, "flips_by_seed": []}
    assert "no such sample" in judge(unseen)[2].measured
    assert len(steady_state.draw(numbers()).axes) == 4


def test_the_experiment_from_end_to_end(tiny32: Situation) -> None:
    found = steady_state.measure(tiny32, lambda _: None)
    claims = judge(found)
    assert claims[0].verdict == H
    assert claims[1].verdict == F
    assert found["samples"] == 7
    weak = found["sweeps"]["together"]
    known = [e for e in weak["error"]["softmax"] if e is not None]
    assert known == sorted(known, reverse=True)  # the smaller the signals the smaller the error
    assert summary([compare(sweep_system(tiny32, 0, tiny32.theta_A[0], *(torch.ones(2).double(),) * 3))])["order"] == {}
