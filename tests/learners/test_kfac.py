"""The Kronecker-factored penalty against dense matrices, and what it does that plain training does not."""

from __future__ import annotations

import torch
from torch import Tensor

from efc.core.kronecker import joined, kronecker_factors
from efc.learners import KFAC, KFACOptions, Learner, TaskData
from support.learner_helpers import PLAIN, SIZES, fit, make, train_on, with_options
from support.tasks import toy_stream

DOUBLE = torch.float64


def tasks(scenario: str = "class") -> list[TaskData]:
    stream = toy_stream(scenario, dtype=DOUBLE)
    return [stream.data(k, 6) for k in range(3)]


def dense(learner: Learner, task: TaskData) -> list[Tensor]:
    """``G (x) A`` of every layer after a task, with true labels: the matrices themselves, run 0."""
    batches = learner.passes(task, task.active)
    found = kronecker_factors(learner.layout, learner.theta, learner.sigma, batches, task.active)
    return [torch.kron(G[0].contiguous(), A[0].contiguous()) for A, G in zip(found.A, found.G, strict=True)]


def test_the_penalty_is_the_dense_quadratic_of_all_tasks() -> None:
    learner = make("kfac", options=KFACOptions(**PLAIN, lr=1e-2, strength=3.0, labels="given"))
    total: list[Tensor] = []
    given = tasks()
    for task in given[:2]:
        train_on(learner, task, steps=6)
        learner.end_task(task)
        new = dense(learner, task)
        total = new if not total else [a + b for a, b in zip(total, new, strict=True)]
    anchor = learner.theta.clone()
    train_on(learner, given[2], steps=3)
    assert isinstance(learner, KFAC)
    found = learner.layout.views(learner.memory.gradient(learner.theta))
    drift = learner.layout.views(learner.theta - anchor)
    for i, F in enumerate(total):
        expected = (F @ joined(drift, i)[0].reshape(-1)).reshape(joined(drift, i)[0].shape)
        assert expected.abs().max() > 0
        torch.testing.assert_close(joined(found, i)[0], expected)


def test_strength_zero_is_plain_training_and_more_is_not() -> None:
    plain = fit(make("sgd")).theta
    assert torch.equal(fit(make("kfac", options=with_options("kfac", strength=0.0))).theta, plain)
    assert not torch.allclose(fit(make("kfac")).theta, plain, rtol=1e-3)


def test_old_answers_move_less_than_in_plain_training() -> None:
    first, second = tasks()[:2]

    def moved(learner: Learner) -> float:
        train_on(learner, first, steps=30)
        learner.end_task(first)
        before = learner.logits(first.x, first.active)
        train_on(learner, second, steps=30)
        return float((learner.logits(first.x, first.active) - before).square().mean())

    plain, held = moved(make("sgd")), moved(make("kfac", options=with_options("kfac", strength=1000.0)))
    assert held < 0.2 * plain


def test_drawn_labels_estimate_the_fisher_of_the_networks_own_answers() -> None:
    """Many draws, against the expectation over all labels worked out class by class."""
    task = tasks()[0]
    many = TaskData(task.x.repeat(1000, 1), task.y.repeat(1000), task.active, task.new, steps=0)
    learner = KFAC(SIZES, [0], KFACOptions(**PLAIN), head="least_squares", dtype=DOUBLE)
    learner.begin_task(task)
    learner.consolidate(many)
    p = torch.softmax(learner.logits(task.x, task.active), -1)[0]
    expected = (torch.diag_embed(p) - p.unsqueeze(-1) * p.unsqueeze(-2)).mean(0)
    found = learner.memory.G[-1][0, 0][task.active, task.active]
    torch.testing.assert_close(found, expected, rtol=0, atol=0.03 * float(expected.max()))


def test_what_is_kept_grows_by_one_pair_of_factors_a_task() -> None:
    learner = fit(make("kfac"))
    assert isinstance(learner, KFAC)
    assert [A.shape[1] for A in learner.memory.A] == [3, 3, 3]
    assert learner.memory.A[0].shape[0] == 1  # the inputs are the same for all runs
