"""Plain L2: stay near the newest weights, every parameter alike. A preservation signal for EFC without importances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from efc.learners.memory import Memory

if TYPE_CHECKING:
    from efc.core.task import TaskData
    from efc.learners.gradient import GradientLearner


class L2Memory(Memory):
    """``R = 1/2 |theta - theta*|^2`` over the parameters trained so far; rows of classes not met yet are free."""

    @property
    def importance(self) -> Tensor | None:
        return None

    def consolidate(self, learner: GradientLearner, task: TaskData) -> None:
        seen = torch.zeros_like(self.omega)
        layers = learner.layout.views(seen).active(task.active)
        for t in (*layers.weights, *layers.biases):
            t.fill_(1.0)
        self.omega = torch.maximum(self.omega, seen)
        self.anchor = learner.theta.clone()
