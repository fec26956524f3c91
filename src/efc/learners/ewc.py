"""Elastic Weight Consolidation (Kirkpatrick et al., 2017), one Fisher and one anchor per task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from efc.core.control import PerRun
from efc.core.fisher import diagonal_fisher
from efc.learners.base import TaskData
from efc.learners.options import Options, number
from efc.learners.sgd import SGD


@dataclass(frozen=True)
class EWCOptions(Options):
    """``strength`` is the factor s of the penalty."""

    lr: PerRun = number(4e-4, doc="learning rate at the start of each task; it falls to zero along a cosine")
    strength: PerRun = number(1e4, inclusive=True, doc="factor s of the penalty")


class EWC(SGD):
    """Back-propagation plus the gradient of ``s * sum_t sum F_t (theta - theta_t*)^2``.

    The sum over tasks is kept as one quadratic: with ``F = sum_t F_t`` and ``m = sum_t F_t theta_t* / F`` its gradient
    is ``2 s F (theta - m)``, exactly, in memory that does not grow with the number of tasks.
    """

    name = "ewc"
    options_type = EWCOptions
    shipped_head = "least_squares"
    options: EWCOptions

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.strength = self._per_run("strength", self.options.strength).reshape(-1, 1)
        self.fisher = torch.zeros_like(self.theta)
        self.anchor = torch.zeros_like(self.theta)

    def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        statistics = super().descent(x, y)
        if self.tasks_seen > 0:
            pull = 2 * self.strength * self.fisher * (self.theta - self.anchor)
            mine = self.layout.views(pull).active(self.active)
            ours = self.layout.views(self.gradient).active(self.active)
            for total, part in zip((*ours.weights, *ours.biases), (*mine.weights, *mine.biases), strict=True):
                total += part
        return statistics

    def consolidate(self, task: TaskData) -> None:
        new = diagonal_fisher(self.layout, self.theta, self.sigma, self.passes(task, task.active), task.active)
        total = self.fisher + new
        share = torch.where(total > 0, new / total, torch.ones_like(total))
        self.anchor += share * (self.theta - self.anchor)
        self.fisher = total

    def state_dict(self) -> dict[str, Tensor]:
        return super().state_dict() | {"fisher": self.fisher, "anchor": self.anchor}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self.fisher = state["fisher"].to(self.theta).clone()
        self.anchor = state["anchor"].to(self.theta).clone()
