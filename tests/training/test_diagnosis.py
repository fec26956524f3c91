"""What looks wrong has its sentence, and what looks right has none."""

from __future__ import annotations

import pytest
import torch

from efc.training.diagnosis import (
    DIVERGED,
    Answers,
    Finding,
    TaskFacts,
    answers,
    at_chance,
    facts,
    far,
    findings,
    left_out,
    subset,
    summary,
)

GOOD = TaskFacts({0: 50, 1: 50}, {0: 0, 1: 0}, 0.01, 0.98, 0.98, [])


def test_a_good_task_is_no_news() -> None:
    assert findings(GOOD, ["a", "b"], 0) == []
    assert left_out([3, 1], ["a", "b"], "test") == []
    assert far(torch.zeros(9)) == far(torch.zeros(0)) == []
    assert summary([[], []]) == []


@pytest.mark.parametrize(
    ("given", "kind", "says"),
    [
        (
            TaskFacts({0: 50, 1: 50}, {0: 0, 1: 0}, 0.2, 0.98, 0.98, []),
            "unsettled",
            "20 % of the samples found no equilibrium; try a smaller gain (kappa 0.03), or, for strong feedback, "
            "solver newton with activation smooth_relu",
        ),
        (TaskFacts({0: 50, 1: 3}, {0: 0, 1: 0}, None, 0.98, 0.98, []), "few", "fewer than 5 samples of class 'b'"),
        (TaskFacts({0: 5, 1: 5}, {0: 90, 1: 90}, None, 0.98, 0.98, []), "piece", "a call is a task, not a mini-batch"),
        (TaskFacts({0: 50, 1: 50}, {0: 0, 1: 0}, None, 0.9, 0.5, []), "idle", "nothing was learned of this task"),
        (TaskFacts({0: 50, 1: 50}, {0: 0, 1: 0}, None, 0.9, 0.8, [1]), "never", "class 'b' is never answered"),
    ],
)
def test_each_thing_that_looks_wrong_has_its_sentence(given: TaskFacts, kind: str, says: str) -> None:
    (found,) = findings(given, ["a", "b"], 7)
    assert (found.kind, found.task) == (kind, 7)
    assert says in found.text


def test_answers_are_counted_among_the_tasks_own_outputs() -> None:
    """Two runs: output 0, of another task, is always the largest; in the second run output 2 wins once."""
    z = torch.tensor([[[9.0, 1.0, 0.0], [9.0, 0.0, 1.0], [9.0, 0.0, 1.0]]]).repeat(2, 1, 1)
    z[1, 2, 2] = 10.0
    z[1, 0] = torch.tensor([9.0, 0.0, 1.0])
    first, second = answers(z, torch.tensor([1, 2, 2]))
    assert (first.accuracy, first.left_out.tolist()) == (1.0, [False, True, True])
    assert second.accuracy == pytest.approx(2 / 3)
    assert (first.recall, second.recall) == (1.0, 0.5)
    assert second.left_out.tolist() == [False, True, False]
    found = facts(torch.tensor([0, 1, 2]), torch.tensor([7, 0, 5]), None, first)
    assert (found.samples, found.before, found.never) == ({1: 1, 2: 2}, {1: 0, 2: 5}, [1, 2])


def test_answers_where_the_outputs_begin_later() -> None:
    """Task-IL: the head is asked about outputs 4 and 5 alone."""
    (found,) = answers(torch.tensor([[[1.0, 0.0], [1.0, 0.0]]]), torch.tensor([4, 5]), first=4)
    assert found.accuracy == 0.5
    assert found.left_out.tolist() == [False] * 5 + [True]


def test_the_end_is_looked_at_too() -> None:
    (missing,) = left_out([0.0, 5.0, 0.0], ["a", "b", "c"], "test")
    assert missing.text.startswith("2 of 3 classes are never answered on the test data after the last task: 'a', 'c'")
    (distant,) = far(torch.tensor([0.0, 11.0]))
    assert "50 % of the samples" in distant.text
    assert far(torch.tensor([11.0] + 99 * [1.0])) == []  # one outlier is no news


def test_seeds_and_tasks_are_put_together_by_kind() -> None:
    one = [Finding("few", "few of 'b'", 1), Finding("few", "few of 'd'", 3)]
    assert summary([one, [], [DIVERGED]]) == [
        "task 2: few of 'b' (also in 1 other task) [1 of 3 seeds]",
        f"{DIVERGED.text} [1 of 3 seeds]",
    ]
    assert summary([one[:1]]) == ["task 2: few of 'b'"]


def test_many_samples_are_asked_about_in_part() -> None:
    assert subset(7).tolist() == list(range(7))
    some = subset(100_001)
    assert (len(some), int(some[0]), int(some[-1])) == (2000, 0, 100_000)
    assert len(some.unique()) == 2000


def test_a_task_that_is_answered_has_nothing_left_out() -> None:
    assert facts(torch.tensor([1]), torch.tensor([0]), 0.5, Answers(1.0, 1.0, torch.tensor([False]))).never == []


def test_answers_no_better_than_a_guess_are_told() -> None:
    """Of two classes nine in ten samples are of the first: always answering it is right in 90 % and knows nothing."""
    (found,) = at_chance([[90, 0], [10, 0]], 0.5, "test")
    assert found.kind == "chance"
    assert "50 % right on the test data after the last task, as a mean over the classes, where chance has 50 %" in (
        found.text
    )
    assert at_chance([[80, 10], [3, 7]], 0.5, "test") == []
    assert at_chance([[5, 0], [0, 0]], 0.5, "test") == []  # only one class is there
