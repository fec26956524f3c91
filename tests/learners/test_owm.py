"""Orthogonal weights modification against the recursion of the paper, sample mean by sample mean."""

from __future__ import annotations

import torch

from efc.core.network import forward
from efc.learners import OWM, OWMOptions
from support.learner_helpers import PLAIN, make, train_on
from support.tasks import toy_stream

DOUBLE = torch.float64
STREAM = toy_stream(dtype=DOUBLE)


def after_a_task(alpha: float, average: int = 4, steps: int = 6) -> OWM:
    learner = make("owm", options=OWMOptions(**PLAIN, lr=1e-2, alpha=alpha, average=average))
    assert isinstance(learner, OWM)
    task = STREAM.data(0, steps)
    train_on(learner, task, steps=steps)
    learner.end_task(task)
    return learner


def test_the_projector_is_where_the_recursion_leads() -> None:
    alpha, size = 0.3, 4
    learner, task = after_a_task(alpha, size), STREAM.data(0, 6)
    learner.begin_task(STREAM.data(1, 6))
    for layer, M in enumerate(learner.directions.layers):
        found = learner.projector(M)
        for run in range(2):
            P = torch.eye(M.shape[-1], dtype=DOUBLE)
            rates = forward(learner.layers, learner.sigma, task.x.expand(2, -1, -1)).r[layer][run]
            for batch in rates.split(size):
                m = torch.cat([batch.mean(0), torch.ones(1, dtype=DOUBLE)])
                k = P @ m
                P = P - torch.outer(k, k) / (alpha + m @ k)
            torch.testing.assert_close(found[min(run, len(found) - 1)], P)


def test_with_little_alpha_old_means_lead_to_the_same_outputs_whatever_is_learned() -> None:
    learner, old, new = after_a_task(1e-9, average=18), STREAM.data(0, 6), STREAM.data(1, 6)
    learner.begin_task(new)
    means = torch.stack([part.mean(0) for part in old.x.split(18)]).expand(2, -1, -1)
    first = lambda: forward(learner.layers, learner.sigma, means).a[0].clone()  # noqa: E731
    before, theta = first(), learner.theta.clone()
    train_on(learner, new, steps=20, begin=False)
    torch.testing.assert_close(first(), before, atol=1e-6, rtol=0)
    assert not torch.allclose(learner.layers.weights[0], learner.layout.views(theta).weights[0], atol=1e-3)


def test_with_much_alpha_it_is_plain_training() -> None:
    owm, sgd = after_a_task(1e12), make("sgd")
    train_on(sgd, STREAM.data(0, 6), steps=6)
    sgd.end_task(STREAM.data(0, 6))
    for learner in (owm, sgd):
        train_on(learner, STREAM.data(1, 6), steps=6)
    torch.testing.assert_close(owm.theta, sgd.theta, rtol=0, atol=1e-9)


def test_in_task_il_the_head_of_the_task_is_free() -> None:
    stream = toy_stream("task", dtype=DOUBLE)
    learner = make("owm", options=OWMOptions(**PLAIN, lr=1e-2, alpha=1e-9, average=1))
    train_on(learner, stream.data(0, 6), steps=6)
    learner.end_task(stream.data(0, 6))
    task = stream.data(1, 6)
    learner.begin_task(task)
    before = learner.layers.weights[-1][:, task.active].clone()
    train_on(learner, task, steps=6, begin=False)
    assert (learner.layers.weights[-1][:, task.active] - before).abs().max() > 1e-3
