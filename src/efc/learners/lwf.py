"""Learning without forgetting (Li & Hoiem, 2016): the network before the task is its own teacher."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from efc.core.axis import PerRun
from efc.core.network import forward, mean_loss_gradient
from efc.core.task import TaskData
from efc.learners.options import Options, learning_rate, number
from efc.learners.sgd import SGD
from efc.learners.state import Part, Stored


@dataclass(frozen=True)
class LWFOptions(Options):
    """``distil`` is the weight of the old answers on the new data.

    Args:
        lr: the learning rate at a task's start.
        distil: factor of the distillation loss.
        temperature: by which outputs are divided before they are compared.
    """

    lr: PerRun = learning_rate(1e-3)
    distil: PerRun = number(
        1.0, inclusive=True, search=(1e-2, 1e3), doc="factor of the distillation loss", changeable=True
    )
    temperature: PerRun = number(2.0, low=1e-3, doc="of the outputs that are compared", changeable=True)


class Teacher(Stored):
    """The parameters when the task began, and which outputs belong together: one row per group, ``start`` and ``stop``.

    In Task-IL every finished task has a softmax of its own, otherwise there is one over all outputs seen.
    """

    stored = ("theta", "groups")

    def __init__(self, theta: Tensor) -> None:
        self.theta = theta.clone()
        self.groups = torch.zeros(0, 2, dtype=torch.long)

    def add(self, active: slice) -> None:
        """A task over these outputs is finished: groups that it contains are part of it."""
        rows = [row for row in self.groups.tolist() if not (active.start <= row[0] and row[1] <= active.stop)]
        self.groups = torch.tensor([*rows, [active.start, active.stop]])

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self.groups = self.groups.cpu()


class LWF(SGD):
    """The loss plus ``c T^2 KL(p_old || p)`` on the new data, ``p = softmax(z / T)`` over the old outputs.

    ``p_old`` are the answers of the network as it was when the task began, its head's rows set. No data are kept, only
    a copy of the parameters.
    """

    name = "lwf"
    recordable = True
    options_type = LWFOptions
    options: LWFOptions

    def set_up(self) -> None:
        super().set_up()
        self.teacher = Teacher(self.theta)
        self.distil = self.per_run("distil", self.options.distil)
        self.heat = self.per_run("temperature", self.options.temperature)

    def begin_task(self, task: TaskData) -> None:
        super().begin_task(task)
        self.teacher.theta.copy_(self.theta)

    def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        if self.tasks_seen == 0:
            return super().descent(x, y)
        spans = self.teacher.groups.tolist()
        every = slice(0, max(self.active.stop, *(stop for _, stop in spans)))
        theta = self.layers.active(every)
        trace = forward(theta, self.sigma, x)
        old = forward(self.layout.views(self.teacher.theta).active(every), self.sigma, x).z
        error = torch.zeros_like(trace.z)
        error[..., self.active] = self.output_error(trace.z[..., self.active], y)
        for start, stop in spans:
            some = slice(start, stop)
            now, then = (torch.softmax(z[..., some] / self.heat, -1) for z in (trace.z, old))
            error[..., some] += self.distil * self.heat * (now - then)
        mean_loss_gradient(theta, self.sigma, trace, error, self.layout.views(self.gradient).active(every))
        return {}

    def consolidate(self, task: TaskData) -> None:
        self.teacher.add(task.active)

    def parts(self) -> dict[str, Part]:
        return super().parts() | {"teacher": self.teacher}
