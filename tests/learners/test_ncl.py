"""Natural continual learning: its step against dense matrices."""

from __future__ import annotations

import torch

from efc.core.kronecker import joined
from efc.learners import NCL, SGD, NCLOptions
from support.learner_helpers import PLAIN, fit, make, train_on, with_options
from support.tasks import toy_stream

DOUBLE = torch.float64
STREAM = toy_stream(dtype=DOUBLE)


def in_its_second_task(**options: object) -> NCL:
    learner = make("ncl", options=NCLOptions(**(PLAIN | {"lr": 1e-2, "prior": 0.5, "labels": "given"} | options)))
    assert isinstance(learner, NCL)
    train_on(learner, STREAM.data(0, 6), steps=6)
    learner.end_task(STREAM.data(0, 6))
    train_on(learner, STREAM.data(1, 6), steps=2)
    return learner


def test_the_direction_is_the_dense_natural_gradient_and_an_unscaled_pull() -> None:
    learner = in_its_second_task()
    task = STREAM.data(1, 6)
    x, y = (
        learner.standardised(task.x[:8]).expand(2, -1, -1),
        learner.one_hot(task.y[:8], learner.active).expand(2, -1, -1),
    )
    SGD.descent(learner, x, y)
    plain = learner.layout.views(learner.gradient.clone())
    learner.descent(x, y)
    found, precision = learner.layout.views(learner.gradient), learner.posterior.precision()
    drift = learner.layout.views(learner.theta - learner.posterior.anchor)
    for i, (A, G) in enumerate(zip(precision.A, precision.G, strict=True)):
        matrix = torch.kron(G[0].contiguous(), A[0].contiguous())
        expected = torch.linalg.solve(matrix, joined(plain, i)[0].reshape(-1)) + joined(drift, i)[0].reshape(-1)
        rows = slice(None) if i < 2 else learner.active
        torch.testing.assert_close(joined(found, i)[0][rows], expected.reshape(joined(found, i)[0].shape)[rows])


def test_the_precision_is_the_prior_s_where_a_task_says_nothing() -> None:
    learner = in_its_second_task(prior=0.25)
    G = learner.posterior.precision().G[-1]
    unseen = slice(4, 6)
    assert not G[:, unseen, :4].any()
    assert torch.allclose(G[:, unseen, unseen], G[:, 4:5, 4:5] * torch.eye(2, dtype=DOUBLE))
    assert (G[:, 4, 4] > 0).all()


def test_new_rows_of_the_head_are_pulled_to_zero() -> None:
    learner = in_its_second_task()
    head = learner.layout.views(learner.posterior.anchor)
    assert not head.weights[-1][:, 2:4].any()
    assert head.weights[-1][:, :2].any()


def test_the_first_task_is_learned_as_by_sgd_and_the_second_is_not() -> None:
    ncl = make("ncl", options=with_options("ncl", optimiser="adam"))
    sgd = make("sgd")
    for learner in (ncl, sgd):
        train_on(learner, STREAM.data(0, 6), steps=6)
    assert torch.equal(ncl.theta, sgd.theta)
    for learner in (ncl, sgd):
        learner.end_task(STREAM.data(0, 6))
        train_on(learner, STREAM.data(1, 6), steps=6)
    assert not torch.allclose(ncl.theta, sgd.theta, rtol=1e-3)


def test_the_prior_matters() -> None:
    assert not torch.allclose(
        fit(make("ncl")).theta, fit(make("ncl", options=with_options("ncl", prior=3.0))).theta, rtol=1e-3
    )
