"""A head that grows with the classes behaves as one that was large enough from the beginning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch

from efc.classifiers.growing import Growing
from efc.classifiers.setup import Setup
from efc.core import Parameters
from efc.errors import EFCError
from efc.learners import LEARNERS, SGD, EFCOptions, Options, number
from efc.training.loop import train
from support.learner_helpers import OPTIONS, SIZES, make
from support.tasks import toy_stream

LEARNED = {"feedback": "learned", "feedback_warm_up": 3}
CASES = [
    *((name, head, {}) for name in LEARNERS for head in LEARNERS[name].heads if head != "random" and "der" not in name),
    *(("efc", "least_squares", {"preservation": name}) for name in ("si", "mas", "l2", "full_fisher")),
    ("efc", "least_squares", LEARNED),
    *((name, "zero", {"step": "natural", "rank": 3}) for name in ("efc", "activity", "sgd")),
]


def setup(method: str, head: str = "least_squares", **changes: Any) -> Setup:
    given = {key: value for key, value in OPTIONS[method].to_mapping().items() if key != "variant"}
    options = given | changes.pop("options", {})
    base: dict[str, Any] = {"epochs": 2, "batch_size": 8, "seed": 1, "dtype": torch.float64}
    return Setup(SIZES[0], SIZES[1:-1], method, head, options=options, **(base | changes))


def grown(method: str, head: str = "least_squares", tasks: int = 3, **changes: Any) -> Growing:
    growing = Growing(setup(method, head, **changes))
    stream = toy_stream("class", dtype=torch.float64)
    for task in stream.tasks[:tasks]:
        growing.learn(task.parts["train"].x, task.parts["train"].y)
    return growing


@pytest.mark.parametrize(("method", "head", "options"), CASES)
def test_growing_is_training_with_a_head_that_was_large_from_the_beginning(
    method: str, head: str, options: dict[str, Any]
) -> None:
    stream = toy_stream("class", dtype=torch.float64)
    large = make(method, seeds=[1], head=head, options=setup(method, head, options=options).checked)
    train(large, stream, epochs=2, batch_size=8)
    growing = grown(method, head, options=options)
    assert growing.learner is not None
    assert growing.n_outputs == 6
    assert torch.allclose(growing.learner.theta, large.theta, rtol=1e-9, atol=1e-12)
    x, y = (torch.cat([getattr(task.parts["test"], name) for task in stream.tasks]) for name in "xy")
    assert torch.equal(growing.logits(x), growing.learner.logits(x, slice(0, 6))[0])
    known = (growing.exact_logits(x).argmax(1) == y).double().mean()
    assert head == "zero" or known > 0.5  # two epochs from nothing teach little


@pytest.mark.parametrize("method", ["der", "derpp"])
def test_a_replay_buffer_counts_outputs_of_classes_to_come_as_zero(method: str) -> None:
    small, large = grown(method, tasks=1, epochs=1), grown(method, tasks=2, epochs=1)
    assert small.learner is not None
    assert large.learner is not None
    few, many = small.learner.buffer, large.learner.buffer  # type: ignore[attr-defined]
    old = (many.last == 2)[0]
    assert 0 < int(old.sum()) < len(many)
    assert torch.count_nonzero(many.z[0, old][:, :2]) > 0
    assert torch.count_nonzero(many.z[0, old][:, 2:]) == 0
    kept = {tuple(row.tolist()) for row in few.x[0]}
    assert all(tuple(row.tolist()) in kept for row in many.x[0, old])
    assert torch.isfinite(large.learner.theta).all()


@pytest.mark.parametrize(
    ("method", "head"),
    [(name, "least_squares" if LEARNERS[name].takes_steps else "analytic") for name in LEARNERS]
    + [("efc", "compensated"), ("efc", "input_compensated"), ("efc", "gaussian")],
)
def test_state_carries_over_everything(method: str, head: str) -> None:
    stream = toy_stream("class", dtype=torch.float64)
    part = stream.tasks[2].parts["train"]
    first = grown(method, head, tasks=2)
    second = Growing(setup(method, head))
    second.load_state_dict(first.state_dict())
    for growing in (first, second):
        growing.learn(part.x, part.y)
    one, other = first.state_dict(), second.state_dict()
    assert one.keys() == other.keys()
    assert all(torch.equal(one[key], other[key]) for key in one)
    assert first.tasks == second.tasks == [[0, 1], [2, 3], [4, 5]]


def test_a_task_that_is_interrupted_leaves_everything_as_it_was() -> None:
    calls: list[int] = []

    def pull(theta: Parameters) -> Parameters:
        calls.append(len(calls))
        if len(calls) == 20:
            raise KeyboardInterrupt
        return Parameters(tuple(W / 10 for W in theta.weights), tuple(b / 10 for b in theta.biases))

    first, second, third = (task.parts["train"] for task in toy_stream("class", dtype=torch.float64).tasks)
    growing = Growing(setup("efc", "analytic", options={"preservation": pull}))
    growing.learn(first.x, first.y)
    growing.learn(second.x, second.y)
    before = growing.state_dict()
    assert 10 < len(calls) < 19
    with pytest.raises(KeyboardInterrupt):
        growing.learn(third.x, third.y)
    after = growing.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert growing.n_outputs == 4
    growing.learn(third.x, third.y)  # and it goes on from there
    assert growing.n_outputs == 6


def test_what_is_kept_must_fit_what_comes() -> None:
    growing = grown("ewc", tasks=1)
    growing.adopt(setup("ewc", epochs=5, options={"lr": 0.1, "strength": 3.0}))
    with pytest.raises(EFCError, match="head: cannot be changed between two tasks"):
        growing.adopt(setup("ewc", "analytic"))
    with pytest.raises(EFCError, match="new ones must follow"):
        growing.learn(torch.zeros(2, 6), torch.tensor([3, 0]))
    with pytest.raises(EFCError, match="not the state"):
        growing.load_state_dict({})
    with pytest.raises(EFCError, match="float16"):
        growing.to("cpu", torch.float16)


def test_pull_may_change_between_tasks_but_not_appear_or_vanish() -> None:
    task = toy_stream("class", dtype=torch.float64).tasks[1].parts["train"]

    def after_one(method: str, **options: Any) -> Growing:
        growing = Growing(Setup(SIZES[0], SIZES[1:-1], method, "zero", epochs=1, options=options, dtype=torch.float64))
        first = toy_stream("class", dtype=torch.float64).tasks[0].parts["train"]
        growing.learn(first.x, first.y)
        return growing

    for before, now in (({}, {"pull": 0.1}), ({"pull": 0.1}, {}), ({"pull": 0.1}, {"pull": 2.0}), ({"mu": 3.0}, {})):
        growing = after_one("efc", **before)
        growing.adopt(replace(growing.setup, options=now))
        growing.learn(task.x, task.y)
    for method, before, now in (
        ("efc", {}, {"pull": 0.0}),
        ("efc-paper", {}, {"pull": 0.1}),
        ("sgd", {}, {"step": "natural"}),
    ):
        growing = after_one(method, **before)
        with pytest.raises(EFCError, match="options: cannot be changed between two tasks"):
            growing.adopt(replace(growing.setup, options=now))


def test_an_option_of_ones_own_may_change_between_tasks_if_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class OwnOptions(Options):
        free: float = number(1.0, changeable=True)
        fixed: float = number(1.0)

    class Own(SGD):
        options_type = OwnOptions

    monkeypatch.setitem(LEARNERS, "own", Own)
    task = toy_stream("class", dtype=torch.float64).tasks[0].parts["train"]
    growing = Growing(Setup(SIZES[0], SIZES[1:-1], "own", "zero", epochs=1, options={"free": 2.0}))
    growing.learn(task.x, task.y)
    growing.adopt(replace(growing.setup, options={"free": 3.0}))
    with pytest.raises(EFCError, match="options: cannot be changed between two tasks"):
        growing.adopt(replace(growing.setup, options={"fixed": 3.0}))


def test_a_variant_by_its_old_key_is_the_same_variant() -> None:
    first = Setup(SIZES[0], SIZES[1:-1], "efc", "zero", options={"preset": "paper"})
    assert first.lasting() == Setup(SIZES[0], SIZES[1:-1], "efc", "zero", options={"variant": "paper"}).lasting()
    assert first.lasting() != Setup(SIZES[0], SIZES[1:-1], "efc", "zero", options={"variant": "additive"}).lasting()


def test_options_are_parsed_once_for_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[object] = []
    original = EFCOptions.from_mapping.__func__  # type: ignore[attr-defined]

    def counting(cls: type[EFCOptions], values: Any) -> EFCOptions:
        parsed.append(values)
        return original(cls, values)  # type: ignore[no-any-return]

    monkeypatch.setattr(EFCOptions, "from_mapping", classmethod(counting))
    growing = Growing(Setup(n_features=3, hidden=(4,), epochs=1))
    growing.learn(torch.randn(20, 3), torch.arange(20) % 2)
    assert len(parsed) == 1
