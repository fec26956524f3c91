"""Least control: the optimum against a general minimiser, gradients against differences, planted cases, verdicts."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from efc.core.activations import activation
from efc.core.network import Layout
from efc.core.solvers import make_solver
from efc.errors import EFCError
from efc.theory.descents import Setting, back_propagation, effort, exact_descent, layer_cosines, local_descent, train
from efc.theory.effort import (
    Problem,
    exact_gradient,
    feedforward_jacobian,
    least_control,
    optimal_feedback,
    outside,
    printed_deltas,
    rank_correlation,
    selectivity,
    theorem_deltas,
)
from efc.theory.experiments import least_control as experiment
from efc.theory.experiments.least_control import finite_differences, judge, printed_condition
from efc.theory.finding import Verdict
from efc.theory.rows import logits, outer_rows
from efc.theory.situation import Situation

H, P, F = Verdict.HOLDS, Verdict.IN_PART, Verdict.FAILS
SIZES = (5, 6, 4, 3)


def problem(
    name: str = "softplus", form: str = "multiplicative", n: int = 3, reach: float = 0.3, **more: Any
) -> Problem:
    """A random net of 79 parameters; targets between what it says and random labels."""
    g = torch.Generator().manual_seed(5)
    layout = Layout(SIZES)
    theta = 0.6 * torch.randn(layout.n_parameters, generator=g, dtype=torch.float64)
    x = torch.rand(n, SIZES[0], generator=g, dtype=torch.float64)
    p = torch.softmax(logits(layout, theta, activation(name), x, slice(0, 3)), -1)
    y = torch.nn.functional.one_hot(torch.randint(3, (n,), generator=g), 3).double()
    return Problem(layout, theta, activation(name), x, p - reach * (p - y), form, **more)


def slow_effort(p: Problem, n: int, psi: np.ndarray, theta: Tensor | None = None) -> float:
    """Half the squared effort of one sample, written out in numpy."""
    sigma = {"softplus": lambda a: np.logaddexp(0, a), "relu": lambda a: np.maximum(a, 0)}[p.sigma.name]
    layers = p.layout.views((p.theta if theta is None else theta).unsqueeze(0))
    W, b = [t[0].numpy() for t in layers.weights], [t[0].numpy() for t in layers.biases]
    r, at = p.x[n].numpy(), 0
    for i, d in enumerate(p.hidden):
        f, s = sigma(W[i] @ r + b[i]), psi[at : at + d]
        r, at = (f * np.exp(s) if p.form == "multiplicative" else f + s), at + d
    missing = np.log(p.target[n].numpy()) - (W[-1] @ r + b[-1])
    psi_L = missing - missing.mean()
    return float(0.5 * (psi**2).sum() + 0.5 * (psi_L**2).sum())


@pytest.mark.parametrize("form", ["multiplicative", "additive"])
def test_the_optimum_against_a_general_minimiser(form: str) -> None:
    p = problem(form=form)
    found = least_control(p)
    assert bool(found.settled.all())
    assert float(found.effort.min()) > 1e-3
    for n in range(len(p.x)):
        other = minimize(lambda psi, n=n: slow_effort(p, n, psi), np.zeros(sum(p.hidden)), method="BFGS", tol=1e-10)
        assert float(found.effort[n]) / 2 == pytest.approx(other.fun, rel=1e-7)
        np.testing.assert_allclose(found.psi[n].numpy(), other.x, atol=1e-5)
    # The target is reached: softmax(z + psi_L) = r*.
    r = found.presynaptic[-1]
    layers = p.layout.views(p.theta.unsqueeze(0))
    z = r @ layers.weights[-1][0].T + layers.biases[-1][0]
    torch.testing.assert_close(torch.softmax(z + found.psi_L, -1), p.target)


def test_gradients_against_differences_in_every_parameter() -> None:
    """The theorem's formula (with f / phi) and automatic differentiation agree with re-solved problems; the formula to
    the letter does not."""
    p = problem(n=2)
    found = least_control(p)
    rows = {
        name: outer_rows(p.layout, deltas(found), found.presynaptic, slice(0, 3)).mean(0)
        for name, deltas in (("theorem", theorem_deltas), ("printed", printed_deltas))
    }
    differences = torch.empty_like(p.theta)
    for k in range(len(p.theta)):
        step = torch.zeros_like(p.theta)
        step[k] = 1e-5
        up, down = (least_control(p.at(p.theta + s), found.psi).effort.mean() / 2 for s in (step, -step))
        differences[k] = (up - down) / 2e-5
    torch.testing.assert_close(rows["theorem"], differences, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(exact_gradient(found), differences, rtol=1e-5, atol=1e-7)
    assert float((rows["printed"] - differences).norm() / differences.norm()) > 1
    errors = finite_differences(found, 0)
    assert errors["theorem"] < 1e-5
    assert errors["printed"] > 1


def test_gradient_with_preservation_against_differences() -> None:
    g = torch.Generator().manual_seed(1)
    plain = problem(n=2)
    pull = 0.3 * torch.rand(len(plain.theta), generator=g, dtype=torch.float64)
    anchor = plain.theta + 0.2 * torch.randn(len(plain.theta), generator=g, dtype=torch.float64)
    p = replace(plain, pull=pull, anchor=anchor)
    found = least_control(p)
    assert float(found.hidden[0][4].norm()) > 0.01
    layers, terms = (p.layout.views(t.unsqueeze(0)) for t in (p.theta, pull * (p.theta - anchor)))
    gamma_1 = -(p.x @ terms.weights[0][0].T + terms.biases[0][0])
    torch.testing.assert_close(found.hidden[0][4], gamma_1)
    f_1 = torch.nn.functional.softplus(p.x @ layers.weights[0][0].T + layers.biases[0][0])
    torch.testing.assert_close(found.hidden[0][2], f_1 * torch.exp(found.hidden[0][3] + gamma_1))
    d = torch.randn(len(p.theta), generator=g, dtype=torch.float64)
    up, down = (least_control(p.at(p.theta + s * d), found.psi).effort.mean() / 2 for s in (1e-5, -1e-5))
    assert float(exact_gradient(found) @ d) == pytest.approx(float(up - down) / 2e-5, rel=1e-5)


def test_planted_one_layer_is_linear_and_known() -> None:
    """Without hidden layers H = 1/2 |P (log r* - W x - b)|^2, exactly."""
    g = torch.Generator().manual_seed(0)
    layout = Layout((4, 3))
    theta = torch.randn(layout.n_parameters, generator=g, dtype=torch.float64)
    x, target = torch.rand(2, 4, generator=g).double(), torch.softmax(torch.randn(2, 3, generator=g).double(), -1)
    found = least_control(Problem(layout, theta, activation("relu"), x, target))
    missing = target.log() - (x @ theta[:12].view(3, 4).T + theta[12:])
    psi = missing - missing.mean(1, keepdim=True)
    torch.testing.assert_close(found.effort, psi.square().sum(1))
    torch.testing.assert_close(exact_gradient(found)[12:], -psi.mean(0))
    torch.testing.assert_close(theorem_deltas(found)[-1], -psi)


def test_planted_where_the_rates_are_one_the_printed_formula_is_right() -> None:
    """W_1, b_1 and the target are made so that phi = 1 is optimal: psi_1 = W_2^T u, f_1 = e^-psi_1."""
    g = torch.Generator().manual_seed(2)
    layout = Layout((4, 5, 3))
    theta = 0.3 * torch.randn(layout.n_parameters, generator=g, dtype=torch.float64)
    x = torch.rand(1, 4, generator=g).double()
    layers = layout.views(theta.unsqueeze(0))
    u = torch.tensor([0.5, -0.2, -0.3], dtype=torch.float64)
    psi = layers.weights[1][0].T @ u
    layers.biases[0][0] = torch.exp(-psi) - layers.weights[0][0] @ x[0]
    z = layers.weights[1][0].sum(1) + layers.biases[1][0]
    found = least_control(Problem(layout, theta, activation("relu"), x, torch.softmax(z + u, 0).unsqueeze(0)))
    torch.testing.assert_close(found.hidden[0][2], torch.ones(1, 5).double())
    torch.testing.assert_close(printed_deltas(found)[0], theorem_deltas(found)[0], rtol=1e-6, atol=1e-9)
    assert float(theorem_deltas(found)[0].norm()) > 0.05


def test_column_space() -> None:
    """At an optimum psi* = diag(r) Z^T u exactly; diag(f) J^T gets there as the target comes near, J^T never does."""
    shares = {}
    for reach in (0.3, 0.003):
        found = least_control(problem("relu", reach=reach, n=6))
        good = found.settled
        assert int(good.sum()) >= 3
        Z = optimal_feedback(found, "exact")
        u = found.psi_L.unsqueeze(-1)
        for Q, psi in zip(Z, found.signals, strict=True):
            torch.testing.assert_close((Q @ u).squeeze(-1)[good], psi[good], rtol=1e-6, atol=1e-9)
        shares[reach] = {
            k: float(outside(found.signals, optimal_feedback(found, k))[good].median())
            for k in ("exact", "least_control", "jacobian")
        }
    assert shares[0.3]["exact"] < 1e-6
    assert shares[0.003]["least_control"] < 0.03 * shares[0.003]["jacobian"]
    assert shares[0.3]["least_control"] > 20 * shares[0.003]["least_control"]
    assert min(s["jacobian"] for s in shares.values()) > 0.03


def test_outside_is_a_projection() -> None:
    g = torch.Generator().manual_seed(0)
    Q = torch.randn(1, 7, 2, generator=g).double()
    inside = (Q @ torch.randn(2, 1).double()).squeeze(-1)
    normal = torch.linalg.svd(Q[0]).U[:, 3:4].T
    parts = lambda t: [t[:, :4], t[:, 4:]]  # noqa: E731
    assert float(outside(parts(inside), parts(Q))) < 1e-12
    assert float(outside(parts(normal), parts(Q))) == pytest.approx(1)
    mixed = inside / inside.norm() + normal
    assert float(outside(parts(mixed), parts(Q))) == pytest.approx(0.5**0.5)


def test_the_printed_condition_cannot_be_met() -> None:
    """df/dphi of a feed-forward net is nilpotent; f / phi makes it invertible, and then its rows span everything."""
    found = least_control(problem(n=1))
    J = feedforward_jacobian(found)[0]
    assert bool((torch.linalg.matrix_power(J, 3) == 0).all())
    layers = found.problem.layout.views(found.problem.theta.unsqueeze(0))
    a_2 = found.hidden[1][0][0]
    torch.testing.assert_close(J[6:10, :6], torch.sigmoid(a_2).unsqueeze(1) * layers.weights[1][0])
    torch.testing.assert_close(J[10:, 6:10], layers.weights[2][0])
    assert printed_condition(found) == {"states": 13, "columns": 3, "rank": 7, "rank_ratio": 13}


def test_additive_control_reaches_silent_units() -> None:
    silent = {}
    for form in ("multiplicative", "additive"):
        found = least_control(problem("relu", form, n=6))
        silent[form] = selectivity(found)["silent"]
    assert float(silent["multiplicative"].max()) == 0
    assert float(silent["additive"].max()) > 0.05
    assert rank_correlation(torch.tensor([1.0, 5.0, 2.0, 9.0]), torch.tensor([0.1, 0.3, 0.2, 0.4])) == pytest.approx(1)
    assert rank_correlation(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([3.0, 2.0, 1.0])) == pytest.approx(-1)


# -- descents ----------------------------------------------------------------------------------------------------------


def batch(n: int = 3) -> tuple[Tensor, Tensor, Tensor]:
    p = problem("relu", n=n)
    y = torch.nn.functional.one_hot(torch.arange(n) % 3, 3).double()
    return p.theta.expand(2, -1).clone() + torch.tensor([[0.0], [0.01]]), p.x.expand(2, -1, -1), y.expand(2, -1, -1)


@pytest.mark.parametrize("feedback", ["jacobian", "least_control"])
def test_implicit_differentiation_against_differences(feedback: str) -> None:
    """Re-solved equilibria with the target held, in a random direction; strong gain, so that the loop matters."""
    setting = Setting(Layout(SIZES), feedback, kappa=2.0, lam=0.3, tol=1e-12)
    theta, x, y = batch()
    target = setting.system(theta, x, y).target
    d = torch.randn(theta.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)

    def half(at: Tensor) -> Tensor:
        system = setting.system(at, x, y)
        system = replace(system, free_error=target - system.compared_free)
        solution = make_solver("newton", tol=1e-12, max_steps=100).solve(system)
        assert bool(solution.settled.all())
        return 0.5 * effort(solution.psi).mean(1) / (2.0 * 0.3) ** 2

    expected = (half(theta + 1e-6 * d) - half(theta - 1e-6 * d)) / 2e-6
    found = (exact_descent(setting, theta, x, y) * d).sum(1)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-8)
    assert float(expected.abs().min()) > 1e-3


def test_smooth_activations_are_refused() -> None:
    with pytest.raises(EFCError, match="relu"):
        exact_descent(Setting(Layout(SIZES), activation="softplus"), *batch())


def test_back_propagation_and_the_local_rule() -> None:
    theta, x, y = batch()
    setting = Setting(Layout(SIZES))
    moving = theta.clone().requires_grad_()
    z = torch.stack([logits(setting.layout, t, activation("relu"), x[0], slice(0, 3)) for t in moving])
    loss = -(torch.log_softmax(z, -1) * y).sum(-1).mean(1).sum()
    torch.testing.assert_close(back_propagation(setting, theta, x, y), torch.autograd.grad(loss, moving)[0])
    solution = setting.solve(theta, x, y)
    head = setting.layout.views(local_descent(setting, theta, x, y)).biases[-1]
    torch.testing.assert_close(head, -solution.u.mean(1))


def test_training_goes_down() -> None:
    theta, x, y = batch(6)
    setting = Setting(Layout(SIZES))
    lr = torch.tensor([0.0, 0.02], dtype=torch.float64)

    def loss(at: Tensor) -> Tensor:
        z = setting.system(at, x, y).free.z
        return -(torch.log_softmax(z, -1) * y).sum(-1).mean(1)

    for descent in (back_propagation, local_descent, exact_descent):
        end = train(descent, setting, theta, [(x, y)] * 60, lr)
        torch.testing.assert_close(end[0], theta[0])
        assert float(loss(end)[1]) < 0.8 * float(loss(theta)[1]), descent.__name__


def test_layer_cosines() -> None:
    layout = Layout((2, 2, 1))
    a = torch.tensor([[1.0, 0, 0, 0, 0, 0, 1, 0, 0]])
    b = torch.tensor([[1.0, 1, 0, 0, 0, 0, -1, 0, 0]])
    found = [float(v) for v in layer_cosines(layout, a, b)]
    assert found == pytest.approx([0.5**0.5, -1, 0], abs=1e-6)


# -- what is said ------------------------------------------------------------------------------------------------------


def numbers() -> dict[str, Any]:
    angle = {"sample": [0.5, 0.5, 0.6], "batch": [0.5, 0.5, 0.4]}
    cosine = {k: dict.fromkeys(("exact", "theorem", "back-propagation"), angle) for k in experiment.FEEDBACKS}
    accuracy = {"local": [80.0, 82.0, 81.0], "exact": [90.0, 91.0, 92.0]}
    methods = {
        name: {"lr": 0.01, "accuracy": accuracy.get(name.split(",")[0], [92.0, 93.0, 94.0])}
        for name in experiment.TRAINED
    }
    return {
        "lambdas": list(experiment.LAMBDAS),
        "settled": [[1.0, 0.9, 0.5]],
        "gradient": [{"theorem": 1e-9, "printed": 300.0}],
        "printed_condition": [{"states": 13, "columns": 3, "rank": 7, "rank_ratio": 13}],
        "outside": [{"jacobian": [0.4, 0.4, 0.5], "least_control": [1e-3, 1e-2, 0.1], "exact": [1e-9, 1e-9, None]}],
        "effort": [
            {"jacobian": [{"ratio": 1.3, "share": 1.0}] * 3, "least_control": [{"ratio": 1.0, "share": 1.0}] * 3}
        ],
        "selectivity": [
            {
                "multiplicative": {"correlation": 0.5, "silent": 0.0, "displacement": 1.0},
                "additive": {"correlation": 0.0, "silent": 0.3, "displacement": 1.0},
            }
        ],
        "cosine": [cosine],
        "training": {"steps": 10, "methods": methods},
    }


def test_verdicts() -> None:
    assert [c.verdict for c in judge(numbers())] == [P, P, F, H, P, F]
    changed = copy.deepcopy(numbers())
    changed["gradient"] = [{"theorem": 0.5, "printed": 0.5}]
    changed["outside"][0] |= {"exact": [0.3, 0.3, 0.3], "least_control": [0.4, 0.4, 0.4]}
    changed["effort"][0]["jacobian"] = [{"ratio": 1.001, "share": 1.0}] * 3
    changed["selectivity"][0]["multiplicative"]["correlation"] = 0.0
    changed["selectivity"][0]["additive"]["correlation"] = 0.6
    changed["cosine"][0]["jacobian"]["exact"] = {"sample": [0, 0, -0.2], "batch": [0, 0, 0.99]}
    for name in changed["training"]["methods"]:
        changed["training"]["methods"][name]["accuracy"] = [90.0, 91.0, 92.0]
    assert [c.verdict for c in judge(changed)] == [F, F, H, F, F, H]
    exact = copy.deepcopy(numbers())
    exact["gradient"] = [{"theorem": 1e-9, "printed": 1e-9}]
    exact["cosine"][0] = {
        k: {name: {"sample": [1, 1, 0.99], "batch": [1, 1, 0.99]} for name in ("exact", "theorem", "back-propagation")}
        for k in experiment.FEEDBACKS
    }
    assert [c.verdict for c in judge(exact)][:1] == [H]
    assert judge(exact)[4].verdict == H
    assert len(experiment.draw(numbers()).axes) == 6


def test_the_experiment_on_one_seed(tiny: Situation, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the training, which takes its time."""
    monkeypatch.setattr(experiment, "training", lambda quick: numbers()["training"])
    found = experiment.measure(tiny, lambda _: None)
    assert all(g["theorem"] < 1e-4 < 1 < g["printed"] for g in found["gradient"])
    for seed in found["effort"]:
        for k in range(3):
            least, jacobian = seed["least_control"][k]["ratio"], seed["jacobian"][k]["ratio"]
            assert least is None or least > 1 - 1e-6  # nothing is below the least
            assert jacobian is None or jacobian > 1 - 1e-6
    assert len(judge(found)) == 6


def test_the_training_learns_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {name: experiment.TRAINED[name] for name in ("back-propagation", "exact, jacobian")}
    monkeypatch.setattr(experiment, "TRAINED", kept)
    found = experiment.training(quick=True)
    for name in kept:
        assert min(found["methods"][name]["accuracy"]) > 70, name
        assert found["methods"][name]["lr"] in (1e-2, 3e-2)
