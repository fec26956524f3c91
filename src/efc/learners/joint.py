"""Joint training on all tasks met so far: the upper bound for the same network and features."""

from __future__ import annotations

import torch
from torch import Tensor

from efc.core.task import TaskData
from efc.learners.head_policies import POLICIES
from efc.learners.sgd import SGD


class Joint(SGD):
    """With every task, train afresh from the seed's initial weights on the data of all tasks so far, shuffled.

    Each sample's cross-entropy is over the classes it would be asked about: all of them in Class-IL, those of its own
    task in Task-IL.
    """

    name = "joint"
    recordable = True
    joint = True

    def set_up(self) -> None:
        super().set_up()
        K = self.layout.sizes[-1]
        self.together = torch.ones(K, K, dtype=torch.bool, device=self.theta.device)

    def begin_task(self, task: TaskData) -> None:
        self.theta.copy_(self.initial(self.theta.dtype))
        self.head_policy = POLICIES[self.head](self)  # its data come again with this task
        if task.groups:
            self.together.zero_()
            for group in task.groups:
                self.together[group, group] = True
        super().begin_task(task)

    def output_error(self, z: Tensor, y: Tensor) -> Tensor:
        asked = (y @ self.together[self.active, self.active].to(y.dtype)) > 0
        return torch.softmax(z.masked_fill(~asked, float("-inf")), -1) - y

    def state_dict(self) -> dict[str, Tensor]:
        return super().state_dict() | {"together": self.together}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self.together.copy_(state["together"])
