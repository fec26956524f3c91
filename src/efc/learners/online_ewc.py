"""Online EWC (Schwarz et al., 2018): one running Fisher that decays, and the newest weights as anchor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from efc.core.axis import PerRun
from efc.core.fisher import accumulate
from efc.learners.ewc import task_fisher
from efc.learners.memory import Memory
from efc.learners.options import number
from efc.learners.penalty import Penalised, PenaltyOptions

if TYPE_CHECKING:
    from efc.core.task import TaskData
    from efc.learners.gradient import GradientLearner


class OnlineEWCMemory(Memory):
    """``Omega <- decay Omega + F_t / |F_t|``, theta* the newest: every task weighs the same when it comes in.

    The norm is taken over all layers, per run; a Fisher of zero (a task learned without a trace of loss) adds nothing.
    """

    def consolidate(self, learner: GradientLearner, task: TaskData) -> None:
        new = task_fisher(learner, task)
        norm = new.norm(dim=1, keepdim=True)
        decay = learner.per_run("decay", getattr(learner.options, "decay", 1.0)).reshape(-1, 1)
        self.omega = decay * self.omega + torch.where(norm > 0, new / norm, new)
        self.anchor = learner.theta.clone()


class RunningEWCMemory(Memory):
    """``Omega <- Omega + F_t |Omega| / |F_t|``, theta* the newest: a new task weighs as much as all before together.

    This is EFC's own (docs/method.md); its scale is that of the first task's Fisher. Without tasks the sum would double
    with every window: there all windows weigh the same, and Omega is their mean.
    """

    def consolidate(self, learner: GradientLearner, task: TaskData) -> None:
        new, n = task_fisher(learner, task), learner.tasks_seen
        if n == 0:
            self.omega = new
        elif learner.arrivals is None:
            self.omega = accumulate(self.omega, new)
        else:
            self.omega = self.omega + (accumulate(self.omega, new) - 2 * self.omega) / (n + 1)
        self.anchor = learner.theta.clone()


@dataclass(frozen=True)
class OnlineEWCOptions(PenaltyOptions):
    """``decay`` is the published gamma: what is left of the importances when a new task's come in."""

    strength: PerRun = number(
        1e4, inclusive=True, search=(1e-2, 1e8), doc="factor s of the penalty; inf freezes", changeable=True
    )
    decay: PerRun = number(1.0, inclusive=True, high=1.0, doc="what is left of old importances after a task")


class OnlineEWC(Penalised):
    """Back-propagation plus the penalty ``s * sum Omega (theta - theta*)^2`` with a running, decaying Fisher."""

    name = "online_ewc"
    recordable = True
    streams = True
    options_type = OnlineEWCOptions
    memory_type = OnlineEWCMemory
