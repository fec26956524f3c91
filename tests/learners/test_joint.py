"""The two bounds that see everything: joint training, and ridge regression from moments."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge

from efc.learners import Analytic, Joint, Options, TaskData
from efc.training.loop import train
from support.learner_helpers import PLAIN, make, train_on
from support.tasks import toy_stream


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (3, 0, 4, 2, 1)])
def test_analytic_equals_ridge_regression_on_everything_at_once(order: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((400, 30)) * 10.0 ** rng.uniform(-2, 2, 30), rng.integers(0, 10, 400)
    learner = Analytic((30, 50, 10), [0, 1], Analytic.options_type(inputs="raw", ridge=[1e-4, 1e-1]))
    for k in order:
        mine = np.isin(y, [2 * k, 2 * k + 1])
        classes = slice(2 * k, 2 * k + 2)
        task = TaskData(torch.as_tensor(x[mine]), torch.as_tensor(y[mine]), slice(0, 10), classes, 0)
        learner.begin_task(task)
        learner.end_task(task)
    features = np.concatenate([x, np.ones((400, 1))], 1)
    for run, ridge in enumerate((1e-4, 1e-1)):
        reference = Ridge(alpha=ridge * 400, fit_intercept=False, solver="svd").fit(features, np.eye(10)[y])
        z = learner.logits(torch.as_tensor(x), slice(0, 10))[run].numpy()
        np.testing.assert_allclose(z, features @ reference.coef_.T, rtol=0, atol=1e-8)


def test_analytic_learns_the_stream_without_forgetting() -> None:
    result = train(make("analytic"), toy_stream("class"), epochs=3, batch_size=8)
    assert result.accuracy_matrix[:, -1].mean() > 95


def test_joint_data_are_all_tasks_so_far_on_the_right_outputs() -> None:
    for scenario, groups in (
        ("class", (slice(0, 4),)),
        ("task", (slice(0, 2), slice(2, 4))),
        ("domain", (slice(0, 2),)),
    ):
        stream = toy_stream(scenario)
        data = stream.data(1, 7, joint=True)
        alone = [stream.data(i, 7) for i in range(2)]
        assert torch.equal(data.x, torch.cat([task.x for task in alone]))
        assert torch.equal(data.y, torch.cat([task.y for task in alone]))
        assert (data.groups, data.steps) == (groups, 7)
        assert data.active == data.new == slice(0, 2 if scenario == "domain" else 4)


@pytest.mark.parametrize("scenario", ["class", "task"])
def test_joint_gradient_equals_autograd_over_each_samples_own_outputs(scenario: str) -> None:
    stream = toy_stream(scenario, dtype=torch.float64)
    learner = Joint((6, 8, 6), [0], Options(**PLAIN, lr=1e-2), head="random", dtype=torch.float64)
    task = stream.data(2, 1, joint=True)
    learner.begin_task(task)
    index = torch.randperm(len(task.y), generator=torch.Generator().manual_seed(0))[:20]
    x, y = task.x[index].unsqueeze(0), task.y[index].unsqueeze(0)
    learner.descent(x, learner.one_hot(y, learner.active))
    theta = learner.theta.clone().requires_grad_()
    layers = learner.layout.views(theta)
    z = torch.relu(x[0] @ layers.weights[0][0].T + layers.biases[0][0]) @ layers.weights[1][0].T + layers.biases[1][0]
    loss = torch.zeros((), dtype=torch.float64)
    for zn, label in zip(z, y[0].tolist(), strict=True):
        low, high = (label // 2 * 2, label // 2 * 2 + 2) if scenario == "task" else (0, 6)
        loss = loss - torch.log_softmax(zn[low:high], 0)[label - low] / 20
    (expected,) = torch.autograd.grad(loss, theta)
    torch.testing.assert_close(learner.gradient, expected)


def test_joint_starts_afresh_with_every_task() -> None:
    stream = toy_stream("class", dtype=torch.float64)
    whole, only = make("joint", head="analytic"), make("joint", head="analytic")
    for i in range(3):
        task = stream.data(i, 5, joint=True)
        train_on(whole, task, 5)
        whole.end_task(task)
    train_on(only, stream.data(2, 5, joint=True), 5)
    only.end_task(stream.data(2, 5, joint=True))
    assert torch.equal(whole.theta, only.theta)


@pytest.mark.parametrize("scenario", ["class", "task", "domain"])
def test_joint_forgets_nothing(scenario: str) -> None:
    stream = toy_stream(scenario)
    learner = Joint((6, 20, stream.n_outputs), [0, 1], Options(**PLAIN, lr=1e-2))
    assert train(learner, stream, epochs=10, batch_size=8).accuracy_matrix[:, -1].min() > 90


def test_plain_training_does_forget() -> None:
    learner = make("sgd", head="random")
    assert train(learner, toy_stream("class"), epochs=10, batch_size=8).accuracy_matrix[:, -1].mean() < 60
