"""A head policy of one's own: one class, listed in POLICIES, and it can be chosen everywhere."""

from __future__ import annotations

import pytest
import torch

import efc
from efc.classifiers.growing import Growing
from efc.classifiers.setup import Setup
from efc.errors import EFCError
from efc.learners import HEADS, LEARNERS, POLICIES, SGD, HeadPolicy, Learner, TaskData
from efc.learners.head_policies import (
    AnalyticHead,
    CompensatedHead,
    InputCompensatedHead,
    LeastSquaresHead,
    RandomHead,
    ZeroHead,
)
from efc.training.loop import train
from support.learner_helpers import make
from support.tasks import toy_stream


class MeanHead(HeadPolicy):
    """New rows are what the old ones are on average; counts its tasks."""

    name = "mean"
    stored = ("tasks",)

    def __init__(self, learner: Learner) -> None:
        super().__init__(learner)
        self.tasks = torch.tensor(0)

    def begin(self, task: TaskData) -> None:
        if task.new.start > 0:
            W = self.learner.layers.weights[-1]
            W[:, task.new] = W[:, : task.new.start].mean(1, keepdim=True)

    def end(self, task: TaskData) -> None:
        self.tasks = self.tasks + 1


@pytest.fixture
def mean_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(POLICIES, MeanHead.name, MeanHead)


@pytest.mark.usefixtures("mean_head")
def test_it_is_trained_with_kept_and_measured() -> None:
    assert "mean" in HEADS
    stream = toy_stream("class", dtype=torch.float64)
    learner = make("ewc", head="mean")
    first = stream.data(0, 5)
    learner.begin_task(first)
    learner.end_task(first)
    learner.begin_task(stream.data(1, 5))
    W = learner.layers.weights[-1]
    torch.testing.assert_close(W[:, 2:4], W[:, :2].mean(1, keepdim=True).expand(-1, 2, -1))
    state = learner.state_dict()
    assert int(state["head.tasks"]) == 1
    other = make("ewc", head="mean")
    other.load_state_dict(state)
    assert int(other.state_dict()["head.tasks"]) == 1
    assert train(make("efc", head="mean"), stream, epochs=1, batch_size=8).diverged == []


@pytest.mark.usefixtures("mean_head")
def test_it_can_be_named_in_settings_and_estimators() -> None:
    [row] = efc.run(methods="sgd", head="mean", seeds=2, epochs=1, hidden=[8])["rows"]
    assert row["head"] == "mean"
    growing = Growing(Setup(6, (8,), "efc", "mean", epochs=1))
    for task in toy_stream("class").tasks[:2]:
        growing.learn(task.parts["train"].x, task.parts["train"].y)
    assert int(growing.state_dict()["learner.head.tasks"]) == 2


def test_without_being_listed_it_is_refused() -> None:
    assert "mean" not in HEADS
    with pytest.raises(EFCError, match="head: unknown value 'mean'"):
        SGD((6, 6), [0], head="mean")


def test_what_is_listed_derives_from_one_neutral_class() -> None:
    assert [cls.name for cls in POLICIES.values()] == list(POLICIES) == list(HEADS)
    for cls in (ZeroHead, LeastSquaresHead, AnalyticHead):
        assert issubclass(cls, HeadPolicy)
        assert not issubclass(cls, RandomHead)
    assert all(set(cls.heads) <= set(HEADS) for cls in LEARNERS.values())


SIZES = (50, 30, 20, 10)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (RandomHead, 0),
        (ZeroHead, 0),
        (LeastSquaresHead, 0),
        (AnalyticHead, 2 * 8 * (20 + 10) ** 2),
        (CompensatedHead, 2 * 12 * (20 + 10) ** 2),
        (InputCompensatedHead, 2 * 12 * (50 + 20 + 10) ** 2),
    ],
)
def test_what_a_policy_takes_in_memory(policy: type[HeadPolicy], expected: int) -> None:
    assert policy.numbers_kept(SIZES) == expected
    learner = SGD(SIZES, [0], head=policy.name)
    held = {key: t for key, t in learner.state_dict().items() if key.startswith("head.") and key != "head.before"}
    assert sum(t.numel() * t.element_size() // 4 for t in held.values()) <= expected
    assert (expected > 0) == bool(held)


def test_without_hidden_layers_the_features_are_the_inputs() -> None:
    assert AnalyticHead.numbers_kept((50, 10)) == 2 * 8 * (50 + 10) ** 2
