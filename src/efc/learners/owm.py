"""Orthogonal weights modification (Zeng, Chen, Cui & Yu, 2019)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from efc.core.axis import PerRun
from efc.core.moments import Moments, with_one
from efc.core.network import forward
from efc.core.task import TaskData
from efc.learners.options import Options, learning_rate, number
from efc.learners.projection import Projected


@dataclass(frozen=True)
class OWMOptions(Options):
    """``alpha`` is how much activity it takes for a direction to be avoided.

    Args:
        lr: the learning rate at a task's start.
        alpha: activity from which a direction is avoided, in units of one mean of samples.
        average: samples whose mean activity counts as one input.
    """

    lr: PerRun = learning_rate(1e-3)
    alpha: PerRun = number(1.0, low=1e-12, search=(1e-3, 1e3), doc="activity from which a direction is avoided")
    average: int = number(40, low=0, per_run=False, whole=True, doc="samples whose mean activity counts as one input")


class OWM(Projected):
    """Steps times ``P_i = alpha (alpha I + sum_b m_b m_b^T)^-1``, ``m_b`` the mean of [r 1] over a batch of old inputs.

    This is where the recursion of the paper leads, ``P <- P - P m m^T P / (alpha + m^T P m)`` from ``P = I`` (Sherman &
    Morrison), for a constant alpha. What the optimiser subtracts is projected, so that it holds for Adam, too.
    """

    name = "owm"
    recordable = True
    streams = True
    options_type = OWMOptions
    options: OWMOptions

    def take_in(self, task: TaskData) -> None:
        size = int(self.options.average)
        for x in task.x.split(size * max(1, 1024 // size)):
            rates = forward(self.layers, self.sigma, self._with_runs(x)).r
            for M, r in zip(self.directions.layers, rates, strict=True):
                means = [part.mean(1) for part in with_one(r[: len(M)]).split(size, 1)]
                m = torch.stack(means, 1)
                M.baddbmm_(m.transpose(1, 2), m)

    def projector(self, kept: Tensor) -> Tensor:
        alpha = self.per_run("alpha", self.options.alpha).double()
        alpha = alpha[:1] if bool((alpha == alpha[:1]).all()) else alpha
        moments = Moments(0, 0, kept.device)
        moments.A = kept.expand(max(len(kept), len(alpha)), -1, -1)
        return moments.natural_matrix(alpha)
