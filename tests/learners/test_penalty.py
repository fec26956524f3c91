"""Importances against their definitions, penalties against autograd, and what theory says they must achieve."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from efc.learners import EWC, LEARNERS, SGD, EWCOptions, TaskData
from efc.learners.penalty import Penalised
from efc.learners.si import SIMemory
from support.gradients import sample_gradients
from support.learner_helpers import PLAIN, fit, make, train_on, with_options
from support.tasks import toy_stream

DIAGONAL = ["ewc", "online_ewc", "si", "mas"]
PENALISED = [*DIAGONAL, "full_fisher"]


def learned(name: str, tasks: int, scenario: str = "class", **changes: Any) -> tuple[Penalised, list[Tensor], Any]:
    """A penalised learner after some tasks, with the weights each of them ended with."""
    stream = toy_stream(scenario, dtype=torch.float64)
    learner = make(name, options=with_options(name, **changes))
    assert isinstance(learner, Penalised)
    anchors = []
    for i in range(tasks):
        train_on(learner, stream.data(i, 6), 6)
        learner.end_task(stream.data(i, 6))
        anchors.append(learner.theta.clone())
    return learner, anchors, stream


def definitions(name: str, tasks: int) -> tuple[Penalised, list[Tensor], list[Tensor], Any]:
    """The same training, with each task's importance (R, P) worked out sample by sample at its end."""
    stream = toy_stream("class", dtype=torch.float64)
    learner = make(name)
    assert isinstance(learner, Penalised)
    importances, anchors = [], []
    for i in range(tasks):
        task = stream.data(i, 6)
        train_on(learner, task, 6)
        kind = "output" if name == "mas" else "loss"
        each = [sample_gradients(learner, run, task, kind) for run in range(2)]
        per_run = [g.abs().mean(0) if name == "mas" else g.square().mean(0) for g in each]
        importances.append(torch.stack(per_run))
        learner.end_task(task)
        anchors.append(learner.theta.clone())
    return learner, importances, anchors, stream


@pytest.mark.parametrize("name", ["ewc", "online_ewc", "mas"])
def test_importance_equals_its_definition_sample_by_sample(name: str) -> None:
    learner, found, anchors, _ = definitions(name, tasks=2)
    if name == "online_ewc":
        found = [F / F.norm(dim=1, keepdim=True) for F in found]
    torch.testing.assert_close(learner.memory.omega, found[0] + found[1])
    if name != "ewc":
        assert torch.equal(learner.memory.anchor, anchors[1])


def test_online_ewc_decays_and_normalises_per_run() -> None:
    learner, _, stream = learned("online_ewc", 1, decay=0.25)
    first = learner.memory.omega.clone()
    torch.testing.assert_close(first.norm(dim=1), torch.ones(2, dtype=torch.float64))
    train_on(learner, stream.data(1, 6), 6)
    learner.end_task(stream.data(1, 6))
    added = learner.memory.omega - 0.25 * first
    torch.testing.assert_close(added.norm(dim=1), torch.ones(2, dtype=torch.float64))


def penalty_gradient(learner: Penalised, stream: Any) -> Tensor:
    """What the penalty adds to the direction of descent, somewhere on the way through the third task."""
    task = stream.data(2, 1)
    train_on(learner, task, 3)
    x, y = task.x[:8].expand(2, -1, -1), learner.one_hot(task.y[:8].expand(2, -1), learner.active)
    SGD.descent(learner, x, y)
    plain = learner.gradient.clone()
    learner.descent(x, y)
    return learner.gradient - plain


@pytest.mark.parametrize("name", ["ewc", "online_ewc", "mas"])
def test_penalty_gradient_equals_autograd_of_the_penalty_written_out(name: str) -> None:
    learner, found, anchors, stream = definitions(name, tasks=2)
    strength = float(learner.options.strength)  # type: ignore[arg-type]
    added = penalty_gradient(learner, stream)
    theta = learner.theta.clone().requires_grad_()
    if name == "ewc":
        penalty = sum(strength * (F * (theta - a) ** 2).sum() for F, a in zip(found, anchors, strict=True))
    else:
        weights = [F / F.norm(dim=1, keepdim=True) for F in found] if name == "online_ewc" else found
        penalty = strength * ((weights[0] + weights[1]) * (theta - anchors[1]) ** 2).sum()
    (expected,) = torch.autograd.grad(torch.as_tensor(penalty), theta)
    assert float(expected.norm()) > 1e-6
    torch.testing.assert_close(added, expected, rtol=1e-8, atol=1e-12)


def test_the_head_may_be_held_more_strongly_than_the_rest() -> None:
    """``2 s Omega (theta - theta*)`` in the hidden layers, seven times as much in the second run's head."""
    learner, _, stream = learned("mas", 2, strength=3.0, head_strength=[1.0, 7.0])
    added = learner.layout.views(penalty_gradient(learner, stream))
    expected = learner.layout.views(6.0 * learner.memory.omega * (learner.theta - learner.memory.anchor))
    assert float(expected.weights[-1].norm(dim=(1, 2)).min()) > 1e-3
    expected.weights[-1][1] *= 7.0
    expected.biases[-1][1] *= 7.0
    torch.testing.assert_close(added.weights, expected.weights)
    torch.testing.assert_close(added.biases, expected.biases)


def test_si_importance_is_the_path_integral_of_the_steps_taken() -> None:
    """Followed from outside: gradients by autograd, steps as differences of the weights, over two tasks."""
    stream = toy_stream("class", dtype=torch.float64)
    learner = make("si", options=with_options("si", damping=1e-2))
    expected = torch.zeros_like(learner.theta)
    for i in range(2):
        task = stream.data(i, 5)
        learner.begin_task(task)
        start, path = learner.theta.clone(), torch.zeros_like(learner.theta)
        for k in range(5):
            batch = TaskData(task.x[6 * k : 6 * k + 6], task.y[6 * k : 6 * k + 6], task.active, task.new, 1)
            before = learner.theta.clone()
            g = torch.stack([sample_gradients(learner, run, batch, "loss").mean(0) for run in range(2)])
            learner.step(batch.x.expand(2, -1, -1), batch.y.expand(2, -1))
            path += -g * (learner.theta - before)
        expected += path.clamp_min(0) / ((learner.theta - start) ** 2 + 1e-2)
        learner.end_task(task)
    memory = learner.memory  # type: ignore[attr-defined]
    assert float(expected.norm()) > 1e-6
    torch.testing.assert_close(memory.omega, expected, rtol=1e-6, atol=1e-10)
    assert torch.equal(memory.anchor, learner.theta)
    added = penalty_gradient(learner, stream)  # type: ignore[arg-type]
    theta = learner.theta.clone().requires_grad_()
    (wanted,) = torch.autograd.grad((10.0 * expected * (theta - memory.anchor) ** 2).sum(), theta)
    torch.testing.assert_close(added, wanted, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize(("steps", "error"), [(100, 2e-2), (10000, 2e-4)])
def test_si_path_integral_is_the_drop_of_a_quadratic_loss(steps: int, error: float) -> None:
    """``L = 1/2 sum h theta^2`` by small steps: for every parameter, with an error of the order of the step."""
    learner = make("si")
    memory = SIMemory(learner)
    g = torch.Generator().manual_seed(0)
    theta = torch.randn(learner.theta.shape, generator=g, dtype=torch.float64)
    h = torch.rand(learner.theta.shape, generator=g, dtype=torch.float64)
    start = theta.clone()
    memory.begin_task(learner)
    for _ in range(steps):
        step = (2.0 / steps) * h * theta
        memory.follow(h * theta, step)
        theta = theta - step
    drop = 0.5 * h * (start**2 - theta**2)
    assert float(((memory.path - drop).abs() / drop.abs().clamp_min(1e-12)).max()) < error
    torch.testing.assert_close(memory.travelled, theta - start)


def test_a_step_uphill_makes_nothing_important() -> None:
    memory = SIMemory(make("si"))
    memory.follow(torch.full_like(memory.path, -1.0), torch.full_like(memory.path, 0.1))
    learner = make("si")
    memory.consolidate(learner, toy_stream("class", dtype=torch.float64).data(0, 1))
    assert (memory.omega == 0).all()


@pytest.mark.parametrize("name", PENALISED)
def test_zero_strength_is_sgd_bit_for_bit(name: str) -> None:
    zero = fit(make(name, options=with_options(name, strength=0.0)))
    assert torch.equal(zero.theta, fit(make("sgd")).theta)


@pytest.mark.parametrize("name", DIAGONAL)
def test_infinite_strength_freezes_what_is_important_and_nothing_else(name: str) -> None:
    learner, anchors, stream = learned(name, 1, strength=[math.inf, 1e-3])
    train_on(learner, stream.data(1, 6), 6)
    important = learner.memory.omega > 0
    moved = learner.theta != anchors[0]
    assert important[0].any()
    assert not moved[0][important[0]].any()
    assert moved[0][~important[0]].any()
    assert moved[1][important[1]].any()


@pytest.mark.parametrize("name", PENALISED)
def test_a_strong_penalty_keeps_the_weights_near(name: str) -> None:
    def distance(strength: float) -> float:
        learner, _, stream = learned(name, 1, strength=strength, optimiser="sgd", lr=1e-3)
        train_on(learner, stream.data(1, 40), 40)
        moved = learner.theta - learner.memory.anchor
        return float((moved * learner.memory.gradient(learner.theta)).sum())

    strong = {"ewc": 1e3, "online_ewc": 1e2, "si": 1e2, "mas": 1e2, "full_fisher": 30.0}[name]
    assert distance(strong) < 0.5 * distance(0.0)


def test_inactive_rows_stay_alone_when_a_task_comes_back() -> None:
    stream = toy_stream("task", dtype=torch.float64)
    learner = make("ewc")
    for i in (0, 1, 0):
        train_on(learner, stream.data(i, 5), 5)
        learner.end_task(stream.data(i, 5))
    before = learner.layers.weights[-1][:, 0:2].clone()
    train_on(learner, stream.data(1, 5), 5)
    assert torch.equal(learner.layers.weights[-1][:, 0:2], before)


def test_ewc_finds_the_exact_posterior_mode_of_a_linear_gaussian_problem() -> None:
    """One layer, squared error, inputs +-e_k, labels 1 with probability 3/4 at +e_k and 1/4 at -e_k.

    The residuals' variance is then 3/16 at every input, so the empirical Fisher is the exact posterior precision times
    (3/16)^2, diagonal; and the posterior mode after both tasks is the least-squares fit to the data of both.
    """

    class LinearEWC(EWC):
        output = "linear"

    d = 3
    inputs = torch.cat([torch.eye(d), -torch.eye(d)]).double().repeat_interleave(4, 0)
    y_a = torch.tensor([1, 1, 1, 0] * d + [1, 0, 0, 0] * d)
    x_b = torch.randn(30, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y_b = (x_b[:, 0] - x_b[:, 1] > 0.3).long()
    both = slice(0, 2)
    first, second = TaskData(inputs, y_a, both, both, 1), TaskData(x_b, y_b, both, slice(0, 0), 1)
    strength = 0.5 * (16 / 3) * len(y_a) / len(y_b)
    learner = LinearEWC((d, 2), [0], EWCOptions(**PLAIN, strength=strength), head="least_squares", dtype=torch.float64)
    learner.begin_task(first)
    learner.theta.copy_(fitted([first]))
    learner.end_task(first)
    learner.begin_task(second)
    for _ in range(20_000):
        learner.descent(x_b.unsqueeze(0), learner.one_hot(y_b, both).unsqueeze(0))
        learner.theta.sub_(0.05 * learner.gradient)
        if float(learner.gradient.abs().max()) < 1e-12:
            break
    assert not torch.allclose(learner.theta, fitted([second]), atol=1e-2)
    torch.testing.assert_close(learner.theta, fitted([first, second]), rtol=0, atol=1e-9)


def fitted(tasks: list[TaskData]) -> Tensor:
    """Flat parameters (1, P) of the least-squares fit of one-hot labels, bias included."""
    x = torch.cat([task.x for task in tasks]).numpy()
    Y = np.eye(2)[torch.cat([task.y for task in tasks]).numpy()]
    V = np.linalg.lstsq(np.concatenate([x, np.ones((len(x), 1))], 1), Y, rcond=None)[0]
    return torch.as_tensor(np.concatenate([V[:-1].T.ravel(), V[-1]])).unsqueeze(0)


@pytest.mark.parametrize("scenario", ["class", "task", "domain"])
@pytest.mark.parametrize("name", PENALISED)
def test_every_scenario_trains(name: str, scenario: str) -> None:
    stream = toy_stream(scenario)
    learner = LEARNERS[name]((6, 8, stream.n_outputs), [0], with_options(name))
    before = learner.theta.clone()
    after = fit(learner, scenario).theta
    assert torch.isfinite(after).all()
    assert not torch.equal(after, before)
    assert learner.tasks_seen == 3
