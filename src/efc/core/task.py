"""What a learner is told of a task."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class TaskData:
    """What a learner is told of a task: its training data and which head outputs it concerns."""

    x: Tensor
    """(N, d_0), shared by all runs."""
    y: Tensor
    """(N,) head outputs, as integers."""
    active: slice
    """Outputs the head is asked about while training on this task."""
    new: slice
    """Outputs that appear for the first time; empty when the task brings none."""
    steps: int
    """Training steps to come, for the learning-rate schedule."""
    held: Tensor | None = None
    """(N,): samples that no step is taken on, to tell whether the steps were of any use; None: all are stepped on."""
    weights: Tensor | None = None
    """(N,): how much each sample counts, in batches and in heads that are solved for; None: all the same."""
    groups: tuple[slice, ...] = ()
    """Where data of several tasks come together: the outputs each sample is asked about are its own task's."""

    def part(self, chosen: Tensor) -> TaskData:
        """The task with some of its samples, (N,) chosen."""
        weights = None if self.weights is None else self.weights[chosen]
        return replace(self, x=self.x[chosen], y=self.y[chosen], held=None, weights=weights)

    @property
    def shown(self) -> Tensor:
        """The samples that steps are taken on, by their numbers."""
        every = torch.arange(len(self.y), device=self.y.device)
        return every if self.held is None else every[~self.held]
