"""Accuracies and confusions of a learner whose answers are known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from efc.errors import EFCError
from efc.learners import SGD
from efc.streams import split
from efc.training.evaluation import accuracy, confusion
from efc.training.loop import train
from support.answers import Oracle
from support.tasks import toy_dataset, toy_stream


def test_confusion_has_true_outputs_by_rows() -> None:
    stream = toy_stream("class")
    confusion = train(Oracle(stream, lambda y: 0 if y == 3 else y), stream, epochs=1).confusion[0]
    sizes = np.bincount(np.concatenate([task.parts["test"].y for task in stream.tasks]))
    expected = np.diag(sizes).astype(float)
    expected[3, 3], expected[3, 0] = 0, sizes[3]
    np.testing.assert_array_equal(confusion, expected)


def test_only_active_outputs_compete() -> None:
    """A learner that always names the last class: in Class-IL it cannot while that class is unseen."""
    stream = toy_stream("class")

    class Eager(Oracle):
        def logits(self, x: torch.Tensor, classes: slice) -> torch.Tensor:
            return super().logits(x, classes) + 5.0 * (torch.arange(10)[classes] == 5)

    A = train(Eager(stream, lambda y: y), stream, epochs=1).accuracy_matrix[0]
    assert A[0, 0] == 100
    assert A[1, 1] == 100
    assert A[2, 0] == 0


def test_the_matrix_is_measured_on_the_part_asked_for() -> None:
    stream = toy_stream("class")
    held = {x.numpy().tobytes() for task in stream.tasks for x in task.parts["validation"].x}

    class OnlyHeldOut(Oracle):
        def logits(self, x: torch.Tensor, classes: slice) -> torch.Tensor:
            right = torch.tensor([row.numpy().tobytes() in held for row in x])[None, :, None]
            return torch.where(right, super().logits(x, classes), -super().logits(x, classes))

    learner = OnlyHeldOut(stream, lambda y: y)
    assert train(learner, stream, epochs=1, evaluate="validation").accuracy_matrix[0, -1].mean() == 100
    assert train(learner, stream, epochs=1, evaluate="test").accuracy_matrix[0, -1].mean() < 50


def test_a_part_without_samples_is_refused() -> None:
    stream = split(toy_dataset(), tasks=3, classes_per_task=2, validation=0.0)
    with pytest.raises(EFCError, match="evaluate: task 1 has no validation samples"):
        accuracy(SGD((6, 6), [0]), stream, 1, 2, "validation")


def test_in_task_il_only_the_tasks_own_outputs_compete() -> None:
    """Every answer one class too high: right for nobody, and outside of the task for its second class."""
    stream = toy_stream("task")
    found = confusion(Oracle(stream, lambda y: (y + 1) % 6), stream, "test")[0]
    assert np.trace(found[0::2, 0::2]) == 0  # a task's first class is taken for its second
    for first in (0, 2, 4):
        assert found[first : first + 2].sum() == found[first : first + 2, first : first + 2].sum() > 0
