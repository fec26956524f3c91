"""The protocol of a learner: what a method has that descends no gradient, and who is called when."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from efc.classifiers.growing import Growing
from efc.classifiers.setup import Setup
from efc.core import Parameters
from efc.errors import EFCError
from efc.learners import LEARNERS, Analytic, GradientLearner, Learner, Options, TaskData
from efc.learners.analytic import AnalyticOptions
from efc.training.loop import train
from support.tasks import toy_stream


class Means(Learner):
    """The nearest class mean, as a linear read-out: a closed form in a few lines."""

    def set_up(self) -> None:
        super().set_up()
        self.theta.zero_()

    def initial(self, dtype: torch.dtype) -> Tensor:
        return super().initial(torch.float64)

    def consolidate(self, task: TaskData) -> None:
        for k in task.y.unique().tolist():
            mean = task.x[task.y == k].mean(0).to(self.theta)
            self.layers.weights[0][:, k] = mean
            self.layers.biases[0][:, k] = -0.5 * mean.square().sum()


class Counting(Means):
    """The same with a step that counts."""

    def step(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        self.steps_taken += 1
        return {}


def test_a_closed_form_needs_nothing_but_consolidate() -> None:
    assert not Means.takes_steps
    assert not isinstance(Means((6, 6), [0]), GradientLearner)
    learner = Means((6, 6), [0, 1], Options(inputs="raw"))
    result = train(learner, toy_stream("class"), epochs=2, batch_size=8)
    assert (result.accuracy_matrix[:, -1] > 95).all()
    assert learner.tasks_seen == 3
    assert set(learner.state_dict()) == {"theta", "position"}
    other = Means((6, 6), [0, 1], Options(inputs="raw"))
    other.load_state_dict(learner.state_dict())
    assert torch.equal(other.theta, learner.theta)
    assert other.tasks_seen == 3
    assert learner.measures(torch.zeros(2, 6)) == {}
    assert Means.numbers_kept(100, (6, 6), Options()) == 0


def test_whoever_has_a_step_is_given_batches() -> None:
    assert Counting.takes_steps
    assert GradientLearner.takes_steps
    assert {name for name, cls in LEARNERS.items() if not cls.takes_steps} == {"analytic", "slda"}

    class Told(Counting):
        takes_steps = False

    for cls, steps in ((Counting, 2 * 5), (Told, 0)):
        learner = cls((6, 6), [0])
        train(learner, toy_stream("class"), epochs=2, batch_size=8)
        n = len(toy_stream("class").data(2, 0).y)
        assert -(-n // 8) == 5
        assert learner.steps_taken == steps


def test_what_has_nothing_to_remember_while_it_learns_takes_no_natural_steps() -> None:
    for build in (
        lambda: Means((6, 6), [0], Options(step="natural")),
        lambda: Analytic((6, 6), [0], AnalyticOptions(step="natural")),
        lambda: LEARNERS["joint"]((6, 6), [0], Options(step="natural")),
    ):
        with pytest.raises(EFCError, match=r"step: .* nothing to remember"):
            build()


def test_the_closed_form_is_no_gradient_learner_and_its_state_is_as_it_was() -> None:
    learner = Analytic((6, 9, 6), [0, 1], AnalyticOptions(inputs="raw"), dtype=torch.float32)
    assert not isinstance(learner, GradientLearner)
    assert not hasattr(learner, "descent")
    assert not {"step", "logits", "begin_task", "end_task"} & vars(Analytic).keys()
    assert learner.theta.dtype == torch.float64
    assert learner.layout.sizes == (6, 6)
    assert set(learner.state_dict()) == {"theta", "position", "moments.A", "moments.T", "moments.n"}
    with pytest.raises(EFCError, match="head"):
        Analytic((6, 6), [0], head="random")


@pytest.mark.parametrize("name", LEARNERS)
def test_the_arguments_of_every_method_can_be_read(name: str) -> None:
    """A signature with ``*args`` tells nobody anything; and what it has, the documentation explains."""
    cls = LEARNERS[name]
    parameters = inspect.signature(cls).parameters
    assert list(parameters)[:7] == ["sizes", "seeds", "options", "head", "activation", "device", "dtype"]
    told = next(inspect.getdoc(c) or "" for c in cls.__mro__ if "Args:" in (vars(c).get("__doc__") or ""))
    assert all(f"    {argument}: " in told for argument in parameters)


class Watched(GradientLearner):
    """Writes down who is called."""

    name = "watched"
    heads: Sequence[str] = ("watched",)
    shipped_head = "watched"

    def set_up(self) -> None:
        super().set_up()
        self.calls: list[str] = []

    def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        self.calls.append("descent")
        self.gradient.fill_(1.0)
        return {}

    def moved(self, step: Tensor) -> None:
        self.calls.append("moved")

    def consolidate(self, task: TaskData) -> None:
        assert self.tasks_seen == len([call for call in self.calls if call == "consolidate"])
        self.calls.append("consolidate")


def test_who_is_called_when(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the docstrings of Learner and GradientLearner say."""
    from efc.learners import POLICIES, HeadPolicy

    class Head(HeadPolicy):
        name = "watched"

        def trained(self, task: TaskData) -> slice:
            calls(self.learner).append("trained")
            return super().trained(task)

        def begin(self, task: TaskData) -> None:
            calls(self.learner).append("begin")

        def end(self, task: TaskData) -> None:
            calls(self.learner).append("end")

    def calls(learner: Learner) -> list[str]:
        assert isinstance(learner, Watched)
        return learner.calls

    monkeypatch.setitem(POLICIES, "watched", Head)
    learner = Watched((6, 4, 6), [0])
    stream = toy_stream("class")
    train(learner, stream, epochs=1, batch_size=100)
    one = ["trained", "begin", "descent", "moved", "end", "consolidate"]
    assert learner.calls == 3 * one


def test_a_growing_head_takes_a_closed_form_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEARNERS, "means", Means)
    growing = Growing(Setup(6, (), "means", "analytic"))
    stream = toy_stream("class", dtype=torch.float64)
    for task in stream.tasks:
        growing.learn(task.parts["train"].x, task.parts["train"].y)
    x, y = (torch.cat([getattr(task.parts["test"], name) for task in stream.tasks]) for name in "xy")
    assert (growing.exact_logits(x).argmax(1) == y).double().mean() > 0.9


def test_parameters_are_views_of_one_tensor() -> None:
    learner = Means((6, 6), [0])
    assert isinstance(learner.layers, Parameters)
    learner.theta.fill_(2.0)
    assert (learner.layers.biases[0] == 2).all()
