"""Learning without forgetting: the gradient of its loss by autograd, and who belongs together."""

from __future__ import annotations

import pytest
import torch

from efc.core.network import forward
from efc.learners import LWF, LWFOptions
from efc.learners.lwf import Teacher
from support.learner_helpers import PLAIN, make, train_on, with_options
from support.tasks import toy_stream

DOUBLE = torch.float64


@pytest.mark.parametrize("scenario", ["class", "task", "domain"])
def test_the_direction_is_the_gradient_of_loss_and_distillation(scenario: str) -> None:
    c, T = 1.7, 2.5
    stream = toy_stream(scenario, dtype=DOUBLE)
    sizes = (6, 8, 7, stream.n_outputs)
    learner = LWF(sizes, [0, 1], LWFOptions(**PLAIN, lr=1e-2, distil=c, temperature=T), "zero", dtype=DOUBLE)
    for k in (0, 1):
        train_on(learner, stream.data(k, 6), steps=6)
        learner.end_task(stream.data(k, 6))
    task = stream.data(2, 6)
    learner.begin_task(task)
    old = learner.theta.clone()
    train_on(learner, task, steps=3, begin=False)
    x, y = task.x[:8].expand(2, -1, -1), learner.one_hot(task.y[:8], task.active).expand(2, -1, -1)
    learner.descent(x, y)
    theta = learner.theta.clone().requires_grad_()
    z = forward(learner.layout.views(theta), learner.sigma, x).z
    z_old = forward(learner.layout.views(old), learner.sigma, x).z
    loss = -(y * torch.log_softmax(z[..., task.active], -1)).sum(-1)
    groups = {"class": [slice(0, 4)], "task": [slice(0, 2), slice(2, 4)], "domain": [slice(0, 2)]}[scenario]
    for some in groups:
        p_old = torch.softmax(z_old[..., some] / T, -1)
        loss = loss + c * T**2 * (p_old * (p_old.log() - torch.log_softmax(z[..., some] / T, -1))).sum(-1)
    expected = torch.autograd.grad(loss.mean(1).sum(), theta)[0]
    torch.testing.assert_close(learner.gradient, expected, rtol=1e-8, atol=1e-10)


def test_outputs_of_a_larger_softmax_are_part_of_it() -> None:
    teacher = Teacher(torch.zeros(1, 1))
    teacher.add(slice(0, 2))
    teacher.add(slice(0, 4))
    assert teacher.groups.tolist() == [[0, 4]]
    teacher.add(slice(4, 6))
    assert teacher.groups.tolist() == [[0, 4], [4, 6]]


def test_without_distillation_it_is_plain_training_and_with_it_is_not() -> None:
    stream = toy_stream(dtype=DOUBLE)

    def trained(learner: object) -> torch.Tensor:
        for k in (0, 1):
            train_on(learner, stream.data(k, 6), steps=6)  # type: ignore[arg-type]
            learner.end_task(stream.data(k, 6))  # type: ignore[attr-defined]
        return learner.theta  # type: ignore[attr-defined]

    plain = trained(make("sgd"))
    torch.testing.assert_close(trained(make("lwf", options=with_options("lwf", distil=0.0))), plain, rtol=0, atol=1e-12)
    assert not torch.allclose(trained(make("lwf")), plain, rtol=1e-3)


def test_old_answers_on_the_new_data_move_less() -> None:
    stream = toy_stream(dtype=DOUBLE)
    first, second = stream.data(0, 30), stream.data(1, 30)

    def moved(distil: float) -> float:
        learner = make("lwf", options=with_options("lwf", distil=distil))
        train_on(learner, first, steps=30)
        learner.end_task(first)
        learner.begin_task(second)
        before = torch.softmax(learner.logits(second.x, first.active), -1)
        train_on(learner, second, steps=30, begin=False)
        return float((torch.softmax(learner.logits(second.x, first.active), -1) - before).abs().mean())

    assert moved(10.0) < 0.5 * moved(0.0)
