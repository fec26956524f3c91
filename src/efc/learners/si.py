"""Synaptic Intelligence (Zenke et al., 2017): importance is what a parameter contributed to the fall of the loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from efc.core.axis import PerRun
from efc.learners.memory import Memory
from efc.learners.options import number
from efc.learners.penalty import Penalised, PenaltyOptions

if TYPE_CHECKING:
    from efc.core.task import TaskData
    from efc.learners.gradient import GradientLearner


class SIMemory(Memory):
    """``omega_t = - sum_steps dL/dtheta * delta theta``; ``Omega += max(omega_t, 0) / (Delta_t^2 + damping)``.

    The gradient is the loss's alone, without penalty; the step is the one really taken; ``Delta_t`` is their sum over
    the task. A parameter that made the loss rise is unimportant, not of negative importance: hence the maximum, without
    which the penalty would have no lower bound.
    """

    stored = ("omega", "anchor", "path", "travelled")
    follows_path = True

    def __init__(self, learner: GradientLearner) -> None:
        super().__init__(learner)
        self.path = torch.zeros_like(learner.theta)
        self.travelled = torch.zeros_like(learner.theta)

    def begin_task(self, learner: GradientLearner) -> None:
        super().begin_task(learner)
        self.path.zero_()
        self.travelled.zero_()

    def follow(self, gradient: Tensor, step: Tensor) -> None:
        self.path.addcmul_(gradient, step)
        self.travelled.sub_(step)

    def consolidate(self, learner: GradientLearner, task: TaskData) -> None:
        damping = learner.per_run("damping", getattr(learner.options, "damping", 1e-3)).reshape(-1, 1)
        self.omega = self.omega + self.path.clamp_min(0) / (self.travelled.square() + damping)
        self.anchor = learner.theta.clone()


@dataclass(frozen=True)
class SIOptions(PenaltyOptions):
    """``damping`` is the published xi."""

    strength: PerRun = number(
        1.0,
        inclusive=True,
        search=(1e-4, 1e6),
        doc="factor s of the penalty (published: c); inf freezes",
        changeable=True,
    )
    damping: PerRun = number(1e-3, doc="xi, keeps the importance of hardly moving parameters bounded")


class SI(Penalised):
    """Back-propagation plus the penalty ``s * sum Omega (theta - theta*)^2`` with the path integral's importances."""

    name = "si"
    recordable = True
    options_type = SIOptions
    memory_type = SIMemory
