"""A training says what looks wrong in each of its runs, also after an interruption."""

from __future__ import annotations

import torch

from efc.learners import SGD, EFCOptions, Options
from efc.learners.efc import EFC
from efc.training.loop import Training, train
from support.answers import Oracle
from support.learner_helpers import PLAIN
from support.tasks import toy_stream


def kinds(found: list[list]) -> list[set[str]]:  # type: ignore[type-arg]
    return [{one.kind for one in run} for run in found]


def test_a_good_training_is_no_news() -> None:
    stream = toy_stream("class")
    assert train(Oracle(stream, lambda y: y, runs=2), stream, epochs=1).findings == [[], []]


def test_classes_that_are_left_out_are_named() -> None:
    """Every answer is the first class: each task has a class that is never answered, and so has the end."""
    stream = toy_stream("class")
    (found,) = train(Oracle(stream, lambda y: 0), stream, epochs=1).findings
    by_kind = {one.kind: one for one in found}
    assert by_kind["left_out"].text.startswith("5 of 6 classes are never answered on the test data")
    assert "'b', 'c', 'd', 'e', 'f'" in by_kind["left_out"].text
    assert {one.task for one in found if one.kind == "idle"} == {0, 1, 2}


def test_a_run_that_diverged_says_that_alone() -> None:
    stream = toy_stream("class")

    class Wild(SGD):
        def initial(self, dtype: torch.dtype) -> torch.Tensor:
            theta = super().initial(dtype)
            theta[0, 5] = float("nan")
            return theta

    result = train(Wild((6, 12, 6), [0, 1], Options(**PLAIN, lr=1e-2), head="analytic"), stream, epochs=3)
    assert kinds(result.findings)[0] == {"diverged"}
    assert "diverged" not in kinds(result.findings)[1]


def test_a_gain_that_nothing_settles_with_is_told_task_by_task() -> None:
    """Kappa of a million: chance, and not long ago without a word."""
    stream = toy_stream("class")
    options = EFCOptions(**PLAIN, kappa=1e6, target="strong", lr=1e-2)
    (found,) = train(EFC((6, 8, 6), [0], options, head="random"), stream, epochs=1, batch_size=8).findings
    told = [one for one in found if one.kind == "unsettled"]
    assert [one.task for one in told] == [0, 1, 2]
    assert "% of the samples found no equilibrium" in told[0].text


def test_inputs_in_other_units_are_told() -> None:
    stream = toy_stream("class")
    for task in stream.tasks:
        task.parts["test"].x.mul_(1000)
    (found,) = train(SGD((6, 8, 6), [0], Options()), stream, epochs=1).findings
    assert "far" in {one.kind for one in found}


def test_an_interrupted_training_has_seen_the_same() -> None:
    stream = toy_stream("class")

    def made() -> Training:
        return Training(SGD((6, 8, 6), [0, 1], Options(**PLAIN, lr=1e-9), head="random"), stream, epochs=1)

    whole, first, second = made(), made(), made()
    whole.run()
    assert not first.run(boundary=lambda word: word == "task")
    second.load_state_dict(first.state_dict())
    second.run()
    assert second.result().findings == whole.result().findings
    assert any(kinds(whole.result().findings))
