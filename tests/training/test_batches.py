"""Which samples are stepped on: orders, samples held out, weights of classes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from efc.core.task import TaskData
from efc.errors import EFCError
from efc.learners import SGD, Options
from efc.learners.state import Generators
from efc.training.batches import HELD, class_weights, epoch_of, held_out, prepared


def task_of(y: Tensor) -> TaskData:
    return TaskData(torch.zeros(len(y), 1), y, slice(0, 9), slice(0, 9), steps=0)


def drawn(task: TaskData, size: int, seeds: tuple[int, ...] = (0, 1)) -> Tensor:
    """(R, N): one epoch's samples by run."""
    found = epoch_of(task, size, Generators(seeds, purpose=1).each)
    assert all(part.shape[1] == size for part in found[:-1])
    return torch.cat(found, 1)


@given(st.lists(st.integers(0, 60), min_size=1, max_size=4), st.integers(1, 40))
@settings(max_examples=40, deadline=None)
def test_what_is_held_out_is_a_fifth_of_every_class_and_never_stepped_on(counts: list[int], size: int) -> None:
    y = torch.cat([torch.full((n,), k) for k, n in enumerate(counts)])[torch.randperm(sum(counts))]
    if not len(y):
        return
    held = held_out(y)
    shares = [int(HELD * n) for n in counts]
    expected = shares if sum(shares) >= 10 else [0] * len(counts)
    assert [int(held[y == k].sum()) for k in range(len(counts))] == expected
    assert torch.equal(held, held_out(y))  # the same ones for every run, and again after an interruption
    task = replace(task_of(y), held=held)
    for order in drawn(task, size):
        assert sorted(order.tolist()) == (~held).nonzero().flatten().tolist()


def test_a_learner_that_checks_nothing_has_nothing_held_out() -> None:
    y = torch.arange(400) % 2
    kinds = {("compensated", "checked"): True, ("compensated", "trusted"): False, ("analytic", "checked"): False}
    for (head, drift), holds in kinds.items():
        learner = SGD((1, 3, 2), [0], Options(drift=drift), head=head)
        task = prepared(task_of(y), learner, epochs=3, batch_size=32)
        assert (task.held is not None) == holds
        assert task.steps == 3 * (10 if holds else 13)
        assert task.weights is None


def test_balanced_classes_come_equally_often() -> None:
    """A hundred of one class and five of the other: both make up half of what is drawn, in every run differently."""
    y = torch.tensor(100 * [0] + 5 * [1])
    task = replace(task_of(y), weights=class_weights(y, "balanced"))
    orders = torch.cat([drawn(task, 10, (seed, seed + 1)) for seed in range(0, 40, 2)], 1)
    assert orders.shape == (2, 20 * 105)
    for order in orders:
        assert float((y[order] == 1).double().mean()) == pytest.approx(0.5, abs=0.05)
    assert not torch.equal(orders[0], orders[1])
    held = replace(task, held=(torch.arange(105) % 2 == 0))
    assert bool((drawn(held, 10) % 2 == 1).all())


def test_weights_of_classes() -> None:
    y = torch.tensor([0, 0, 0, 2])
    assert class_weights(y, None) is None
    assert class_weights(y, "none") is None
    third = 1 / 3
    assert class_weights(y, "balanced") == pytest.approx(torch.tensor([third, third, third, 1.0]))
    assert class_weights(y, {2: 5.0, 7: 3.0}).tolist() == [1.0, 1.0, 1.0, 5.0]  # type: ignore[union-attr]
    for wrong in ("balance", {0: 0.0}, {0: -1.0}, {0: float("nan")}, {0: float("inf")}):
        with pytest.raises(EFCError, match="class_weight: "):
            class_weights(y, wrong)  # type: ignore[arg-type]
