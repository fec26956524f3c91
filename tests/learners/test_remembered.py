"""Remembered activity against what it stands for: old samples, which are kept in these tests and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from efc.core.network import forward
from efc.errors import EFCError
from efc.learners import EFC, SGD, Activity, ActivityOptions, EFCOptions, Learner, TaskData
from efc.learners.remembered import RememberedActivity
from support.learner_helpers import PLAIN, SIZES, fit, make, train_on, with_options
from support.tasks import toy_stream

DOUBLE = torch.float64


def memory_of(learner: Learner) -> RememberedActivity:
    assert learner.remembered is not None
    return learner.remembered


def after_two_tasks(learner: Learner, scenario: str = "class") -> tuple[Learner, list[TaskData], list[list[Tensor]]]:
    """The learner in its third task, drifted from its anchor, and the old tasks' activity as it was when they ended."""
    stream = toy_stream(scenario, dtype=DOUBLE)
    tasks = [stream.data(k, 6) for k in range(3)]
    activity = []
    for task in tasks[:2]:
        train_on(learner, task, steps=6)
        learner.end_task(task)
        rates = forward(learner.layers, learner.sigma, task.x.expand(learner.runs, -1, -1)).r
        activity.append([r.clone() for r in rates])
    train_on(learner, tasks[2], steps=3)
    return learner, tasks, activity


def pulled(learner: Learner) -> Tensor:
    """What the memory adds to the gradient."""
    gradient = torch.zeros_like(learner.theta)
    memory_of(learner).pull(learner.theta, gradient)
    return gradient


@pytest.mark.parametrize("head", ["zero", "least_squares"])
def test_the_pull_is_the_gradient_of_the_squared_change_on_old_activity(head: str) -> None:
    learner, tasks, activity = after_two_tasks(
        make("activity", head=head, options=ActivityOptions(**PLAIN, lr=1e-2, pull=0.7, moments="plain"))
    )
    anchor = memory_of(learner).anchor.clone()
    new = learner.layout.views(anchor)
    assert not new.weights[-1][:, tasks[2].new].any()  # new classes are to stay silent on old activity
    theta = learner.theta.clone().requires_grad_()
    drift = learner.layout.views(theta - anchor)
    total = torch.zeros((), dtype=DOUBLE)
    for rates in activity:
        for i, r in enumerate(rates):
            change = torch.einsum("rbj,rkj->rbk", r, drift.weights[i]) + drift.biases[i].unsqueeze(1)
            total = total + 0.7 * 0.5 * change.square().sum(-1).mean(1).sum()
    [expected] = torch.autograd.grad(total, theta)
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(pulled(learner), expected)


def test_the_pull_is_what_preservation_would_do_on_old_samples() -> None:
    """The mean of ``gamma r^T`` with ``gamma = -dW r``, in the equilibrium's units ``lambda kappa``."""
    options = with_options("efc", pull=0.3, lam=0.02, kappa=0.5, moments="plain")
    learner, _, activity = after_two_tasks(make("efc", head="zero", options=options))
    drift = learner.layout.views(learner.theta - memory_of(learner).anchor)
    found = learner.layout.views(pulled(learner))
    for i in range(len(drift.weights)):
        expected = torch.zeros_like(drift.weights[i])
        for rates in activity:
            gamma = -(torch.einsum("rbj,rkj->rbk", rates[i], drift.weights[i]) + drift.biases[i].unsqueeze(1))
            expected += torch.einsum("rbk,rbj->rkj", gamma, rates[i]) / rates[i].shape[1]
        torch.testing.assert_close(-found.weights[i], 0.3 * 0.02 * 0.5 * expected)


@pytest.mark.parametrize(("target", "unit"), [("weak", 0.02 * 0.5), ("strong", 0.5)])
def test_the_unit_of_pull_and_beta_is_the_learning_signal(target: str, unit: float) -> None:
    options = EFCOptions(**PLAIN, pull=[0.1, 0.4], lam=0.02, kappa=0.5, target=target, beta=2.0, head_beta=3.0)
    learner = EFC(SIZES, [0, 1], options, dtype=DOUBLE)
    torch.testing.assert_close(learner.pull_strength().flatten(), unit * torch.tensor([0.1, 0.4], dtype=DOUBLE))
    fit(learner)
    assert learner.memory is not None
    omega = learner.memory.omega
    met = omega > 0
    mean = omega.sum(1, keepdim=True) / met.sum(1, keepdim=True)
    hidden = learner.layout.views(learner.strengths).weights[0]
    expected = learner.layout.views(2.0 * unit * omega / mean).weights[0]
    torch.testing.assert_close(hidden, expected)
    head = learner.layout.views(learner.strengths).weights[-1]
    torch.testing.assert_close(head, learner.layout.views(6.0 * unit * omega / mean).weights[-1])


def test_a_common_factor_of_all_importances_changes_nothing() -> None:
    learner = fit(make("efc", options=EFCOptions(**PLAIN, lr=1e-2)))
    assert isinstance(learner, EFC)
    assert learner.memory is not None
    before = learner.strengths.clone()
    learner.memory.omega = 1000 * learner.memory.omega
    learner._set_strengths()
    torch.testing.assert_close(learner.strengths, before)


def linear_task(seed: int, n: int, first: bool) -> TaskData:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 3, generator=g, dtype=DOUBLE) + torch.tensor([1.0, 0.0, -1.0]) * seed
    y = torch.randint(2, (n,), generator=g)
    return TaskData(x, y, slice(0, 2), slice(0, 2) if first else slice(0, 0), steps=3000)


def least_squares(tasks: list[TaskData]) -> Tensor:
    """[W b] of the joint least-squares solution, (2, 4)."""
    x = torch.cat([torch.cat([t.x, torch.ones(len(t.x), 1, dtype=DOUBLE)], 1) for t in tasks])
    y = torch.cat([torch.nn.functional.one_hot(t.y, 2).double() for t in tasks])
    return torch.linalg.lstsq(x, y).solution.T


def test_on_a_linear_layer_the_penalty_stands_for_the_old_samples() -> None:
    """From the exact minimiser of the first task, trained to the end: the solution of all data together, each time."""
    tasks = [linear_task(1, 30, True), linear_task(2, 20, False), linear_task(3, 50, False)]

    def solution(learner: Learner) -> Tensor:
        return torch.cat([learner.layers.weights[0][0], learner.layers.biases[0][0].unsqueeze(1)], 1)

    def learn(learner: Learner, task: TaskData) -> None:
        learner.begin_task(task)
        for _ in range(task.steps):
            learner.step(task.x.expand(1, -1, -1), task.y.expand(1, -1))

    learner = Activity(
        (3, 2),
        [0],
        ActivityOptions(**PLAIN, lr=2e-2, optimiser="sgd", moments="plain", pull=30 / 20),
        "zero",
        dtype=DOUBLE,
    )
    learner.output = "linear"
    learn(learner, tasks[0])
    torch.testing.assert_close(solution(learner), least_squares(tasks[:1]), rtol=0, atol=1e-6)
    learner.end_task(tasks[0])
    learn(learner, tasks[1])
    torch.testing.assert_close(solution(learner), least_squares(tasks[:2]), rtol=0, atol=1e-6)
    # Tasks of one size add up: twice 30 samples, then 50.
    tasks[1] = linear_task(2, 30, False)
    learner = Activity(
        (3, 2), [0], ActivityOptions(**PLAIN, lr=2e-2, optimiser="sgd", moments="plain", pull=1.0), "zero", dtype=DOUBLE
    )
    learner.output = "linear"
    learn(learner, tasks[0])
    learner.end_task(tasks[0])
    learn(learner, tasks[1])
    learner.end_task(tasks[1])
    learner.options = ActivityOptions(**PLAIN, lr=2e-2, optimiser="sgd", moments="plain", pull=30 / 50)
    learn(learner, tasks[2])
    torch.testing.assert_close(solution(learner), least_squares(tasks), rtol=0, atol=1e-6)


def test_a_natural_step_leaves_unused_directions_and_damps_used_ones() -> None:
    mu = 0.5
    task = TaskData(
        torch.tensor([[2.0, 0.0, 0.0]] * 4, dtype=DOUBLE), torch.tensor([0, 1] * 2), slice(0, 2), slice(0, 2), 1
    )
    learner = SGD((3, 2), [0], with_options("sgd", step="natural", mu=mu), head="zero", dtype=DOUBLE)
    learner.begin_task(task)
    learner.end_task(task)
    learner.begin_task(TaskData(task.x, task.y, slice(0, 2), slice(0, 0), 1))
    step = torch.zeros_like(learner.theta)
    layers = learner.layout.views(step)
    layers.weights[0][0] = torch.tensor([[0.0, 1.0, 3.0], [2.0, 0.0, 0.0]])
    layers.biases[0][0, 1] = 1.0
    found = learner.layout.views(memory_of(learner).project(step))
    torch.testing.assert_close(found.weights[0][0, 0], torch.tensor([0.0, 1.0, 3.0], dtype=DOUBLE))
    # [2 0 0 1] was the only activity: A = a a^T with |a|^2 = 5.
    torch.testing.assert_close(found.weights[0][0, 1], mu / (mu + 5) * torch.tensor([2.0, 0.0, 0.0], dtype=DOUBLE))
    torch.testing.assert_close(found.biases[0][0, 1], torch.tensor(mu / (mu + 5), dtype=DOUBLE))


@pytest.mark.parametrize("name", ["efc", "sgd", "ewc", "derpp", "frozen"])
def test_natural_steps_are_the_optimisers_times_the_matrix(name: str) -> None:
    learner, tasks, activity = after_two_tasks(
        make(name, head="zero", options=with_options(name, step="natural", mu=2.0))
    )
    steps: list[Tensor] = []
    before, given = learner.theta.clone(), learner.optimiser.step
    learner.optimiser.step = lambda *a: steps.append(given(*a).clone()) or steps[-1]  # type: ignore[method-assign, func-returns-value]
    train_on(learner, tasks[2], steps=4, first=3, begin=False)
    taken, asked = learner.layout.views(before - learner.theta), learner.layout.views(steps[0])
    for i in range(len(taken.weights)):
        A = torch.zeros(())
        for rates in activity:
            r1 = torch.cat([rates[i], torch.ones(*rates[i].shape[:2], 1, dtype=DOUBLE)], 2)
            A = A + torch.einsum("rbj,rbk->rjk", r1, r1) / r1.shape[1]
        P = 2.0 * torch.linalg.inv(2.0 * torch.eye(A.shape[-1], dtype=DOUBLE) + A)
        both = torch.cat([asked.weights[i], asked.biases[i].unsqueeze(2)], 2) @ P
        torch.testing.assert_close(torch.cat([taken.weights[i], taken.biases[i].unsqueeze(2)], 2), both)


@pytest.mark.parametrize("name", ["activity", "efc"])
@pytest.mark.parametrize("step", ["plain", "natural"])
def test_a_sketch_of_enough_directions_is_the_whole(name: str, step: str) -> None:
    """Three samples a task: six directions after two tasks, in layers of seven and more with their bias."""
    stream = toy_stream("class", dtype=DOUBLE)
    thetas = []
    for rank in (0, 6):
        options = with_options(name, rank=rank, step=step, pull=1.0)
        learner = type(make(name))((12, 9, 8, 6), [0, 1], options, head="zero", dtype=DOUBLE)
        for k in range(3):
            whole = stream.data(k, 5)
            x = torch.cat([whole.x[:3], whole.x[:3].square()], 1)
            task = TaskData(x, whole.y[:3], whole.active, whole.new, 5)
            learner.begin_task(task)
            for _ in range(5):
                learner.step(task.x.expand(2, -1, -1), task.y.expand(2, -1))
            learner.end_task(task)
        thetas.append(learner.theta)
        kept = sum(t.numel() for t in memory_of(learner).state_dict().values()) - learner.theta.numel()
    torch.testing.assert_close(thetas[0], thetas[1], rtol=1e-7, atol=1e-9)
    assert kept < 2 * 7 * (13 + 10 + 9)


@pytest.mark.parametrize("name", ["activity", "activity_ewc", "efc"])
def test_without_pull_nothing_is_remembered(name: str) -> None:
    learner = make(name, options=with_options(name, pull=0.0))
    assert learner.remembered is None
    if name == "activity":
        same = make("sgd", head="least_squares", options=with_options("sgd", lr=learner.options.lr))
        assert torch.equal(fit(learner).theta, fit(same).theta)


@pytest.mark.parametrize("name", ["activity", "activity_ewc", "efc"])
def test_in_task_il_present_rows_are_not_pulled_and_hidden_layers_are(name: str) -> None:
    learner, _, _ = after_two_tasks(make(name, head="zero"), "task")
    found = learner.layout.views(pulled(learner))
    assert not found.weights[-1].any()
    assert not found.biases[-1].any()
    assert found.weights[0].abs().max() > 0
    natural, _, _ = after_two_tasks(make(name, head="zero", options=with_options(name, step="natural")), "task")
    step = torch.rand_like(natural.theta)
    taken, asked = (natural.layout.views(t) for t in (memory_of(natural).project(step), step))
    assert torch.equal(taken.weights[-1], asked.weights[-1])
    assert not torch.allclose(taken.weights[0], asked.weights[0])


@pytest.mark.parametrize(("scenario", "rows"), [("class", slice(0, 6)), ("domain", slice(0, 2))])
def test_elsewhere_all_active_rows_are_pulled(scenario: str, rows: slice) -> None:
    sizes = (*SIZES[:-1], rows.stop)
    learner = Activity(
        sizes,
        [0, 1],
        ActivityOptions(**PLAIN, lr=1e-2, head_pull=[1.0, 5.0], pull=2.0, moments="plain"),
        "zero",
        dtype=DOUBLE,
    )
    learner, _, _ = after_two_tasks(learner, scenario)
    factor = learner.layout.views(memory_of(learner).factor)
    assert (factor.weights[-1][:, rows].flatten(1) == torch.tensor([[2.0], [10.0]])).all()
    assert (factor.weights[0] == 2.0).all()


def test_relative_moments_count_per_hundred_of_the_inputs_rates_where_they_sum_to_more() -> None:
    options = ActivityOptions(**PLAIN, lr=1e-4, pull=2.0)
    assert options.moments == "relative"
    learner = make("activity", head="zero", options=options)
    learner.layers.weights[0].mul_(100.0)
    learner, _, activity = after_two_tasks(learner)
    factor, shares = learner.layout.views(memory_of(learner).factor), []
    for i, W in enumerate(factor.weights):
        mean_square = torch.stack([rates[i].square().mean(1) for rates in activity]).mean(0)
        shares.append(100 / mean_square.sqrt().sum(1))
        torch.testing.assert_close(W[:, 0, 0], 2.0 * shares[-1].clamp_max(1.0))
    assert (shares[0] > 1).all()
    assert (shares[1] < 1).all()


@pytest.mark.parametrize("moments", ["plain", "relative"])
def test_inputs_that_were_silent_are_not_pulled_and_their_bias_is(moments: str) -> None:
    learner = make("activity", head="zero", options=with_options("activity", moments=moments))
    learner.layers.weights[0].fill_(-1.0)  # inputs are positive: no unit of the first layer ever speaks
    learner, _, _ = after_two_tasks(learner)
    learner.theta += 0.1
    found = learner.layout.views(pulled(learner))
    assert not found.weights[1].any()
    assert (found.biases[1] > 0).all()
    assert all(torch.isfinite(t).all() for t in (*found.weights, *found.biases))


def test_where_the_head_is_solved_anew_that_head_is_kept() -> None:
    learner, _, _ = after_two_tasks(make("efc", head="analytic"))
    stream = toy_stream("class", dtype=DOUBLE)
    learner.end_task(stream.data(2, 6))
    learner.begin_task(stream.data(2, 6))
    anchor = learner.layout.views(memory_of(learner).anchor)
    assert torch.equal(anchor.weights[-1], learner.layers.weights[-1])


@pytest.mark.parametrize("name", ["efc", "activity", "activity_ewc"])
@pytest.mark.parametrize(
    "changes", [{}, {"step": "natural", "mu": [1.0, 5.0]}, {"rank": 3}, {"pull": [0.0, 3.0]}], ids=str
)
def test_runs_together_are_runs_apart_and_a_state_goes_on_bit_for_bit(name: str, changes: dict[str, Any]) -> None:
    def of_run(run: int) -> dict[str, Any]:
        return {key: value[run] if isinstance(value, list) else value for key, value in changes.items()}

    both = make(name, head="zero", options=with_options(name, **changes))
    together, tasks, _ = after_two_tasks(both)
    for run, seed in enumerate(both.seeds):
        alone = make(name, seeds=[seed], head="zero", options=with_options(name, **of_run(run)))
        apart, _, _ = after_two_tasks(alone)
        torch.testing.assert_close(together.theta[run], apart.theta[0], rtol=0, atol=1e-10)
    again = make(name, head="zero", options=with_options(name, **changes))
    again.load_state_dict({key: value.clone() for key, value in together.state_dict().items()})
    for learner in (together, again):
        train_on(learner, tasks[2], steps=6, first=3, begin=False)
        learner.end_task(tasks[2])
    for key, value in together.state_dict().items():
        assert torch.equal(value, again.state_dict()[key]), key


@pytest.mark.parametrize("name", ["joint", "analytic"])
def test_what_does_not_go_on_learning_takes_no_natural_steps(name: str) -> None:
    with pytest.raises(EFCError, match=f"step: {name} has nothing to remember"):
        make(name, options=with_options(name, step="natural"))


@pytest.mark.parametrize("rank", [2.5, float("inf"), [1, 2]])
def test_half_a_direction_is_refused(rank: Any) -> None:
    with pytest.raises(EFCError, match="rank: must be a whole number, got"):
        ActivityOptions(rank=rank)


def test_an_endless_pull_is_refused() -> None:
    with pytest.raises(EFCError, match="pull: must be at least 0 and at most 1e"):
        ActivityOptions(pull=float("inf"))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("ewc", {"strength": float("inf"), "step": "natural", "mu": 0.1}),
        ("activity_ewc", {"strength": float("inf"), "pull": 1.0}),
        ("activity_ewc", {"strength": float("inf"), "pull": 1.0, "step": "natural", "mu": 0.1}),
    ],
)
def test_what_is_frozen_does_not_move_for_the_memory_either(name: str, changes: dict[str, Any]) -> None:
    learner, tasks, _ = after_two_tasks(make(name, head="zero", options=with_options(name, **changes)))
    held = learner.memory.omega > 0  # type: ignore[attr-defined]
    before = learner.theta.clone()
    train_on(learner, tasks[2], steps=6, first=3, begin=False)
    assert held.any()
    assert torch.equal(learner.theta[held], before[held])
    assert not torch.equal(learner.theta, before)


def test_a_frozen_head_is_not_pulled() -> None:
    learner, tasks, _ = after_two_tasks(make("efc", options=with_options("efc", head_rule="frozen", pull=1.0)))
    head, hidden = learner.layers.weights[-1].clone(), learner.layers.weights[0].clone()
    train_on(learner, tasks[2], steps=6, first=3, begin=False)
    assert torch.equal(learner.layers.weights[-1], head)
    assert not torch.equal(learner.layers.weights[0], hidden)


@pytest.mark.parametrize("rank", [0, 3])
def test_activity_beside_which_mu_is_nothing_does_no_harm(rank: int) -> None:
    """A run whose rates explode, and another that goes on as if alone; and the state can be loaded again."""

    class Loud(SGD):
        def initial(self, dtype: torch.dtype) -> Tensor:
            theta = super().initial(dtype)
            theta[0] *= 1e9 if len(theta) > 1 else 1.0
            return theta

    options = with_options("sgd", step="natural", rank=rank)
    both, alone = (Loud(SIZES, seeds, options, head="zero", dtype=DOUBLE) for seeds in ([0, 1], [1]))
    both, _, _ = after_two_tasks(both)
    alone, _, _ = after_two_tasks(alone)
    torch.testing.assert_close(both.theta[1], alone.theta[0], rtol=0, atol=1e-10)
    again = Loud(SIZES, [0, 1], options, head="zero", dtype=DOUBLE)
    again.load_state_dict(both.state_dict())


def test_a_state_of_another_rank_is_refused() -> None:
    state = fit(make("activity", options=with_options("activity", rank=2))).state_dict()
    other = make("activity", options=with_options("activity", rank=4))
    with pytest.raises(EFCError, match="was rank changed"):
        other.load_state_dict(state)
