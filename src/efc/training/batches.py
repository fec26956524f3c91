"""Which samples of a task are stepped on, in which order, and how much each of them counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real

import numpy as np
import torch
from torch import Tensor

from efc.core.task import TaskData
from efc.errors import EFCError
from efc.learners.base import Learner

HELD = 0.2
"""The share of a task's samples that no step is taken on where its features are checked."""
LEAST = 10
"""Held-out samples below which they say nothing."""
ClassWeight = str | Mapping[int, float] | None
"""How much a class's samples count: ``"balanced"``, a number for each output, or all the same."""


def prepared(
    task: TaskData, learner: Learner, epochs: int, batch_size: int, class_weight: ClassWeight = None
) -> TaskData:
    """The task as it is trained on: samples held out where the learner wants some, weights, and the steps to come."""
    held = held_out(task.y) if learner.holds_out else None
    found = replace(task, held=held, weights=class_weights(task.y, class_weight))
    return replace(found, steps=epochs * -(-len(found.shown) // batch_size))


def epoch_of(task: TaskData, size: int, generators: Sequence[torch.Generator]) -> tuple[Tensor, ...]:
    """One epoch over a task: index batches (R, B), every run in an order drawn from its own generator.

    Each sample comes once. Where samples have weights, as many are drawn with these probabilities, and the same one may
    come several times or not at all.
    """
    shown = task.shown
    if task.weights is None:
        return tuple(shown[some] for some in batches(len(shown), size, generators, shown.device))
    weights = task.weights[shown].cpu()
    drawn = [torch.multinomial(weights, len(shown), replacement=True, generator=own) for own in generators]
    return tuple(shown[part.to(shown.device)] for part in torch.stack(drawn).split(size, dim=1))


def batches(
    n: int, size: int, generators: Sequence[torch.Generator], device: torch.device | str = "cpu"
) -> tuple[Tensor, ...]:
    """Index batches (R, B) of ``n`` samples, every run in an order drawn from its own generator.

    The last one is smaller where ``size`` does not divide ``n``.
    """
    order = torch.stack([torch.randperm(n, generator=generator) for generator in generators]).to(device)
    return tuple(order.split(size, dim=1))


def held_out(y: Tensor) -> Tensor:
    """(N,): a fifth of every class's samples, scattered, the same ones for every run; none where these are too few."""
    labels = y.cpu().numpy()
    found = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        members = np.random.default_rng([20261118, int(label)]).permutation(np.flatnonzero(labels == label))
        found[members[: int(HELD * len(members))]] = True
    return torch.as_tensor(found if found.sum() >= LEAST else np.zeros_like(found), device=y.device)


def class_weights(y: Tensor, how: ClassWeight) -> Tensor | None:
    """(N,): how much each sample counts; None: all the same.

    ``balanced``: what a task brings of a class counts as much as what any task brings of any other class.
    """
    if how is None or how == "none":
        return None
    if isinstance(how, str):
        if how != "balanced":
            raise EFCError(f"class_weight: expected None, 'balanced' or a weight for each class, got {how!r}")
        return (1.0 / torch.bincount(y).double())[y]
    table = torch.ones(int(y.max()) + 1, dtype=torch.float64)
    for output, weight in how.items():
        if not isinstance(weight, Real) or not 0 < weight < float("inf"):
            raise EFCError(f"class_weight: a weight must be a number above 0, got {weight!r}")
        if output < len(table):
            table[output] = weight
    return table.to(y.device)[y]
