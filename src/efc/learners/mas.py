"""Memory Aware Synapses (Aljundi et al., 2018): importance is how strongly the output reacts to a parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from efc.core.axis import PerRun
from efc.core.network import backward, forward, outer_sums
from efc.learners.memory import Memory
from efc.learners.options import number
from efc.learners.penalty import Penalised, PenaltyOptions

if TYPE_CHECKING:
    from efc.core.task import TaskData
    from efc.learners.gradient import GradientLearner


def output_sensitivity(learner: GradientLearner, task: TaskData) -> Tensor:
    """``mean_n |d |z(x_n)|^2 / dtheta|`` (R, P), z the logits of the active classes; no label is used.

    Per sample the gradient of a layer is ``delta_i r_{i-1}^T``, so its absolute value is ``|delta_i| |r_{i-1}|^T`` and
    the mean is a matrix product.
    """
    found = torch.zeros_like(learner.theta)
    theta, out = learner.layers.active(task.active), learner.layout.views(found).active(task.active)
    for x, _ in learner.passes(task, task.active):
        trace = forward(theta, learner.sigma, x)
        deltas = backward(theta, learner.sigma, trace, 2 * trace.z)
        outer_sums([d.abs() for d in deltas], [r.abs() for r in trace.r], out, scale=1.0 / len(task.y), add=True)
    return found


class MASMemory(Memory):
    """``Omega += mean_n |d |z_n|^2 / dtheta|``, theta* the newest."""

    def consolidate(self, learner: GradientLearner, task: TaskData) -> None:
        self.omega = self.omega + output_sensitivity(learner, task)
        self.anchor = learner.theta.clone()


@dataclass(frozen=True)
class MASOptions(PenaltyOptions):
    """``strength`` is the factor s of the penalty."""

    strength: PerRun = number(
        1.0,
        inclusive=True,
        search=(1e-4, 1e6),
        doc="factor s of the penalty (published: lambda); inf freezes",
        changeable=True,
    )


class MAS(Penalised):
    """Back-propagation plus the penalty ``s * sum Omega (theta - theta*)^2`` with output sensitivities."""

    name = "mas"
    recordable = True
    streams = True
    options_type = MASOptions
    memory_type = MASMemory
