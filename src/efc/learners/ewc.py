"""Elastic Weight Consolidation (Kirkpatrick et al., 2017), one Fisher and one anchor per task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from efc.core.axis import PerRun
from efc.core.fisher import diagonal_fisher
from efc.learners.memory import Memory
from efc.learners.options import learning_rate
from efc.learners.penalty import Penalised, PenaltyOptions

if TYPE_CHECKING:
    from efc.core.task import TaskData
    from efc.learners.gradient import GradientLearner


def task_fisher(learner: GradientLearner, task: TaskData) -> Tensor:
    """The diagonal empirical Fisher (R, P) of a task at the present parameters, over its active classes."""
    batches = learner.passes(task, task.active)
    return diagonal_fisher(learner.layout, learner.theta, learner.sigma, batches, task.active, learner.output)


class EWCMemory(Memory):
    """``R = 1/2 sum_t sum F_t (theta - theta_t*)^2``.

    The sum over tasks is kept as one quadratic: with ``F = sum_t F_t`` and ``m = sum_t F_t theta_t* / F`` its gradient
    is ``F (theta - m)``, exactly, in memory that does not grow with the number of tasks.
    """

    def consolidate(self, learner: GradientLearner, task: TaskData) -> None:
        new = task_fisher(learner, task)
        total = self.omega + new
        share = torch.where(total > 0, new / total, torch.ones_like(total))
        self.anchor = self.anchor + share * (learner.theta - self.anchor)
        self.omega = total


@dataclass(frozen=True)
class EWCOptions(PenaltyOptions):
    """``strength`` is the factor s of the penalty."""

    lr: PerRun = learning_rate(4e-4)


class EWC(Penalised):
    """Back-propagation plus the penalty ``s * sum_t sum F_t (theta - theta_t*)^2``."""

    name = "ewc"
    recordable = True
    options_type = EWCOptions
    memory_type = EWCMemory
