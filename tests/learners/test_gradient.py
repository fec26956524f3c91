"""What descends a gradient: what it keeps beside its parameters, and what it reports of itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from efc.learners import (
    EFC,
    LEARNERS,
    SGD,
    Activity,
    ActivityOptions,
    EFCOptions,
    FullFisher,
    FullFisherOptions,
    GradientLearner,
    Options,
)
from support.learner_helpers import OPTIONS, fit, make, train_on, with_options
from support.tasks import toy_stream

SIZES = (20, 8, 30, 5)
PARAMETERS = 20 * 8 + 8 * 30 + 30 * 5


def test_a_descent_is_all_a_method_must_have() -> None:
    class Signs(GradientLearner):
        def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
            self.gradient.copy_(self.theta.sign())
            return {}

    with pytest.raises(TypeError, match="abstract"):
        GradientLearner(SIZES, [0])  # type: ignore[abstract]
    learner = Signs((6, 4, 6), [0], head="random")
    before = learner.theta.abs().sum()
    train_on(learner, toy_stream("class").data(0, 10), 10)
    assert learner.theta.abs().sum() < before
    assert (Signs.name, Signs.shipped_head, Signs.takes_steps) == ("signs", "input_compensated", True)


def test_remembered_activity_is_counted_and_nothing_else_is() -> None:
    assert SGD.numbers_kept(1000, SIZES, Options()) == 0
    assert Activity.numbers_kept(1000, SIZES, ActivityOptions(pull=0.0)) == 0
    pulled = Activity.numbers_kept(1000, SIZES, ActivityOptions())
    assert pulled == PARAMETERS + 8 * 9**2 + 8 * 31**2
    assert EFC.numbers_kept(1000, SIZES, EFCOptions()) == pulled
    assert EFC.numbers_kept(1000, SIZES, EFCOptions(pull=0.0)) == 0
    natural = Activity.numbers_kept(1000, SIZES, ActivityOptions(step="natural"))
    assert natural == pulled + 8 * 21**2  # the inputs' too
    assert SGD.numbers_kept(1000, SIZES, Options(step="natural")) == natural
    few = Activity.numbers_kept(1000, SIZES, ActivityOptions(rank=10))
    assert few == PARAMETERS + 8 * 9**2 + 8 * 31 * 10  # a narrow layer is kept whole
    assert Activity.numbers_kept(7, SIZES, ActivityOptions(pull=[0.0, 1.0])) == pulled  # in any run


def test_the_full_fisher_keeps_every_sample() -> None:
    options = FullFisherOptions()
    one, two = (FullFisher.numbers_kept(samples, SIZES, options) for samples in (1, 2))
    assert (one, two) == (sum(SIZES), 2 * sum(SIZES))
    inside = EFC.numbers_kept(50, SIZES, EFCOptions(preservation="full_fisher", pull=0.0))
    assert inside == 50 * sum(SIZES)  # the same memory, made into a signal
    natural = FullFisher.numbers_kept(1, SIZES, FullFisherOptions(step="natural"))
    assert natural == one + SGD.numbers_kept(1, SIZES, Options(step="natural"))


@pytest.mark.parametrize("name", ["activity", "ewc"])
def test_what_is_counted_is_no_less_than_what_a_checkpoint_holds(name: str) -> None:
    """Of what grows with the square of a hidden layer's width, in numbers of four bytes."""
    learner = fit(make(name, seeds=(0,), dtype=torch.float32), epochs=1)
    own = ("remembered.1", "remembered.2")
    held = sum(t.numel() * t.element_size() // 4 for key, t in learner.state_dict().items() if key.startswith(own))
    assert (held > 0) == (name == "activity")
    assert held <= type(learner).numbers_kept(96, learner.layout.sizes, OPTIONS[name])


@pytest.mark.parametrize("name", LEARNERS)
def test_learned_feedback_alone_has_something_to_report(name: str) -> None:
    assert make(name).measures(toy_stream("class").data(0, 1).x) == {}


def test_learned_feedback_reports_its_alignment() -> None:
    x = toy_stream("class", dtype=torch.float64).data(0, 1).x
    options = EFCOptions(lr=1e-3, feedback="learned", feedback_warm_up=3)
    learner = EFC((6, 20, 20, 6), [0, 1], options, dtype=torch.float64)
    train_on(learner, toy_stream("class", dtype=torch.float64).data(0, 10), 2)
    found = learner.measures(x)
    assert found.keys() == {"feedback_alignment"}
    assert found["feedback_alignment"].shape == (2, 2)
    assert torch.equal(found["feedback_alignment"], learner.feedback_alignment(x))


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_the_rate_over_a_task(schedule: str) -> None:
    """Plain descent with a direction of ones: the parameters show the sum of all rates, one task after the other."""

    class Ones(GradientLearner):
        def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
            self.gradient.fill_(1.0)
            return {}

    options = Options(lr=[0.1, 0.3], inputs="raw", optimiser="sgd", momentum=0.0, schedule=schedule)
    learner = Ones((6, 4, 6), [0, 1], options, head="random", dtype=torch.float64)
    rates = 1.0 if schedule == "constant" else 0.5 * (1 + np.cos(np.pi * np.arange(10) / 10))
    before = learner.theta.clone()
    for task in range(2):
        train_on(learner, toy_stream("class", dtype=torch.float64).data(task, 10), 10)
    moved = torch.tensor([[0.1], [0.3]], dtype=torch.float64) * 2 * float(np.sum(rates * np.ones(10)))
    torch.testing.assert_close(before - learner.theta, moved.expand_as(before))


@pytest.mark.parametrize("inputs", ["standardised", "scaled", "raw"])
def test_a_step_by_numbers_is_a_step_on_these_samples(inputs: str) -> None:
    """Also in the second task, when inputs are standardised in another way."""
    stream = toy_stream("class")
    one, other, fresh = (make("efc", options=with_options("efc", inputs=inputs)) for _ in range(3))
    for k in range(2):
        task = stream.data(k, 6)
        for learner in (one, other):
            learner.begin_task(task)
        for index in torch.randint(len(task.y), (6, one.runs, 5), generator=torch.Generator().manual_seed(k)):
            one.step(task.x[index], task.y[index])
            other.step_on(task, index)
        for learner in (one, other):
            learner.end_task(task)
    assert torch.equal(one.theta, other.theta)
    assert not torch.equal(one.theta, fresh.theta)


def test_a_step_of_someones_own_is_taken_by_numbers_too() -> None:
    class Doubled(SGD):
        def step(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
            return super().step(2 * x, y)

    task = toy_stream("class").data(0, 1)
    index = torch.arange(6).reshape(2, 3)
    found = []
    for cls, x in ((Doubled, task.x), (SGD, 2 * task.x)):
        learner = cls((6, 8, 6), [0, 1], Options(inputs="raw"), head="zero")
        learner.begin_task(task)
        found.append(learner.step_on(replace(task, x=x), index) or learner.theta)
    assert torch.equal(found[0], found[1])
