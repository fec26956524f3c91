"""What the weight change must be in the limits where theory says so, and that nothing in it is idle."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from efc.core import Anderson, Newton, Parameters, activation, weight_change
from efc.core.network import forward
from efc.core.outputs import output_shift, softmax_difference
from efc.core.plasticity import postsynaptic
from support.helpers import Problem, flat


def change(problem: Problem, head_rule: str = "rates", **options: Any) -> Parameters:
    solution = Newton(tol=1e-10).solve(problem.system(**options))
    assert solution.settled.all()
    return weight_change(solution, problem.layout.views(torch.empty_like(problem.theta)), head_rule)


def cosine(a: Tensor, b: Tensor) -> float:
    return float((a / a.norm() * (b / b.norm())).sum())


def autograd_gradient_of_a(problem: Problem, sample: int) -> tuple[list[Tensor], list[Tensor], Tensor]:
    """dLoss/da_i of the hidden layers by autograd, the rates r_0..r_{L-1}, and z, for run 0."""
    theta, name = problem.layout.views(problem.theta[:1]), problem.dynamics.get("activation", "relu")
    r, a = [problem.x[0, sample]], []
    for i, (W, b) in enumerate(zip(theta.weights, theta.biases, strict=True)):
        a.append((W[0] @ r[-1] + b[0]).requires_grad_())
        if i < len(theta.weights) - 1:
            r.append(activation(name).rate(a[-1]))
    loss = -(problem.y[0, sample] * torch.log_softmax(a[-1], 0)).sum()
    grads = torch.autograd.grad(loss, a[:-1])
    return list(grads), [t.detach() for t in r], a[-1].detach()


@pytest.mark.parametrize("name", ["relu", "softplus", "sigmoid"])
@pytest.mark.parametrize("sizes", [(5, 6, 4), (5, 6, 5, 4), (5, 4, 4, 4, 3)])
def test_small_signals_follow_backprop_times_activity(name: str, sizes: tuple[int, ...]) -> None:
    """beta = 0, kappa, lambda -> 0: hidden changes along -dLoss/da * f, the head's along S (y - p) r^T, per sample."""
    for sample in range(3):
        problem = Problem(sizes, R=1, B=3, beta=0.0, kappa=1e-5, lam=1e-5, dynamics={"activation": name})
        grads, r, z = autograd_gradient_of_a(problem, sample)
        problem.x, problem.y = problem.x[:, sample : sample + 1], problem.y[:, sample : sample + 1]
        dW = change(problem)
        for i, grad in enumerate(grads):
            expected = torch.outer(-grad * r[i + 1], r[i])
            assert cosine(dW.weights[i][0], expected) > 1 - 1e-6
            assert cosine(dW.biases[i][0], -grad * r[i + 1]) > 1 - 1e-6
        p = torch.softmax(z, 0)
        S = torch.diag(p) - torch.outer(p, p)
        head = S @ (problem.y[0, 0] - p)
        assert cosine(dW.weights[-1][0], torch.outer(head, r[-1])) > 1 - 1e-6
        assert cosine(change(problem, "signal").weights[-1][0], torch.outer(problem.y[0, 0] - p, r[-1])) > 1 - 1e-6


@pytest.mark.parametrize("head_rule", ["rates", "signal"])
@pytest.mark.parametrize("name", ["relu", "softplus", "sigmoid"])
@pytest.mark.parametrize("sizes", [(5, 4), (5, 6, 4), (5, 6, 5, 4)])
def test_preservation_pulls_back(sizes: tuple[int, ...], name: str, head_rule: str) -> None:
    """kappa = 0, after a displacement: every layer's change has a positive product with F * (theta* - theta)."""
    problem = Problem(sizes, R=2, B=20, dynamics={"activation": name})
    g = torch.Generator().manual_seed(1)
    F = torch.rand(problem.theta.shape, generator=g, dtype=torch.float64).to(problem.device)
    displacement = 0.1 * torch.randn(problem.theta.shape, generator=g, dtype=torch.float64).to(problem.device)
    problem.terms = 0.1 * F * displacement
    moved = change(problem, head_rule, kappa=0.0)
    pull = problem.layout.views(-F * displacement)
    for i in range(len(sizes) - 1):
        for run in range(2):
            product = (moved.weights[i][run] * pull.weights[i][run]).sum() + (
                moved.biases[i][run] * pull.biases[i][run]
            ).sum()
            assert product > 0, (i, run)


@pytest.mark.parametrize("form", ["multiplicative", "additive", "bounded"])
@pytest.mark.parametrize("output", ["softmax", "linear", "linear_ce"])
@pytest.mark.parametrize("head_rule", ["rates", "signal"])
def test_every_layer_learns(form: str, output: str, head_rule: str) -> None:
    """The head included, weights and biases, with and without preservation."""
    for beta in (0.0, 0.05):
        problem = Problem((5, 8, 7, 4), B=8, beta=beta, kappa=0.1, dynamics={"form": form, "output": output})
        for t in (*change(problem, head_rule).weights, *change(problem, head_rule).biases):
            assert (t.flatten(1).norm(dim=1) > 1e-8).all()


def test_a_frozen_head_changes_by_nothing_and_the_rest_as_ever() -> None:
    problem = Problem((5, 8, 7, 4), B=8)
    frozen, signal = change(problem, "frozen"), change(problem, "signal")
    assert (frozen.weights[-1] == 0).all()
    assert (frozen.biases[-1] == 0).all()
    assert torch.equal(frozen.weights[0], signal.weights[0])


BASE: dict[str, Any] = {"kappa": 0.2, "lam": 0.1, "target": "weak"}
MATTERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "kappa": ({}, {"kappa": 0.3}),
    "lambda": ({}, {"lam": 0.2}),
    "target": ({}, {"target": "strong"}),
    "beta": ({"beta": 0.02}, {}),
    "feedback=least_control": ({"dynamics": {"feedback": "least_control"}}, {}),
    "feedback=learned": ({"dynamics": {"feedback": "learned"}}, {}),
    "output=linear": ({"dynamics": {"output": "linear"}}, {}),
    "output=linear_ce": ({"dynamics": {"output": "linear_ce"}}, {}),
    "form=additive": ({"dynamics": {"form": "additive"}}, {}),
    "form=bounded": ({"dynamics": {"form": "bounded"}}, {}),
    "activation=softplus": ({"dynamics": {"activation": "softplus"}}, {}),
}


@pytest.mark.parametrize("name", MATTERS)
def test_what_must_matter_matters(name: str) -> None:
    construct, solve = MATTERS[name]
    base = flat(change(Problem((5, 6, 5, 4), B=6), **BASE))
    other = flat(change(Problem((5, 6, 5, 4), B=6, **construct), **(BASE | solve)))
    assert float((base - other).norm() / base.norm()) > 1e-3


def test_head_rule_matters_and_k_p_does_not() -> None:
    problem = Problem((5, 6, 5, 4), B=6, kappa=0.2)
    rates, signal = change(problem, "rates"), change(problem, "signal")
    assert not torch.allclose(rates.weights[-1], signal.weights[-1], rtol=1e-2)
    torch.testing.assert_close(rates.weights[0], signal.weights[0])
    torch.testing.assert_close(flat(rates), flat(change(problem, k_p=0.1)), rtol=1e-8, atol=1e-12)


def test_change_is_the_batch_mean_of_outer_products() -> None:
    problem = Problem((5, 6, 5, 4), B=7)
    solution = Newton(tol=1e-11).solve(problem.system())
    dW = weight_change(solution, problem.layout.views(torch.empty_like(problem.theta)))
    pre = (problem.x, *solution.rates[:-1])
    theta = problem.layout.views(problem.theta)
    for i in range(3):
        a = torch.einsum("rbj,rkj->rbk", pre[i], theta.weights[i]) + theta.biases[i].unsqueeze(1)
        f = torch.relu(a) if i < 2 else torch.softmax(a, -1)
        expected = torch.einsum("rbk,rbj->rkj", solution.rates[i] - f, pre[i]) / 7
        torch.testing.assert_close(dW.weights[i], expected, rtol=1e-6, atol=1e-12)
        torch.testing.assert_close(dW.biases[i], (solution.rates[i] - f).mean(1), rtol=1e-6, atol=1e-12)


def test_float32_keeps_a_weak_signal() -> None:
    """The direction of the change in float32 is that in float64, even when rates change in the seventh digit only."""
    exact = change(Problem((5, 20, 20, 4), R=1, B=16, beta=0.0, kappa=1e-3, lam=1e-3))
    problem = Problem((5, 20, 20, 4), R=1, B=16, beta=0.0, kappa=1e-3, lam=1e-3, dtype=torch.float32)
    solution = Anderson().solve(problem.system())
    rough = weight_change(solution, problem.layout.views(torch.empty_like(problem.theta)))
    for a, b in zip(exact.weights, rough.weights, strict=True):
        assert cosine(a, b.double()) > 1 - 1e-5


def test_softmax_difference_small_and_large() -> None:
    g = torch.Generator().manual_seed(0)
    z = 5 * torch.randn(200, 6, generator=g, dtype=torch.float64)
    for size in (1e-9, 1e-4, 0.3, 3.0, 60.0):
        s = size * torch.randn(200, 6, generator=g, dtype=torch.float64)
        plain = torch.softmax(z + s, -1) - torch.softmax(z, -1)
        torch.testing.assert_close(softmax_difference(torch.softmax(z, -1), s), plain, rtol=1e-5, atol=1e-14)
        rough = softmax_difference(torch.softmax(z.float(), -1), s.float())
        assert torch.isfinite(rough).all()
        assert cosine(rough.double(), plain) > 1 - 1e-6
    torch.testing.assert_close(
        output_shift("linear", "multiplicative", z, s), z * torch.exp(s) - z, rtol=1e-9, atol=1e-9
    )


def test_free_forward_is_the_network() -> None:
    problem = Problem((5, 6, 5, 4), B=3)
    z = forward(problem.layout.views(problem.theta), activation("relu"), problem.x).z
    for run in range(2):
        for b in range(3):
            torch.testing.assert_close(z[run, b].cpu(), torch.as_tensor(problem.sample(run, b).free()[1]))


def test_postsynaptic_factor_is_zero_without_signals() -> None:
    problem = Problem((5, 6, 4), beta=0.0)
    for factor in postsynaptic(Anderson().solve(problem.system(kappa=0.0))):
        assert (factor == 0).all()
