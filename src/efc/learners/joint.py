"""Joint training on all tasks met so far: the upper bound for the same network and features."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from efc.core.network import backward, forward, outer_sums
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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
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

    def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        theta = self.layers.active(self.active)
        trace = forward(theta, self.sigma, x)
        asked = (y @ self.together[self.active, self.active].to(y.dtype)) > 0
        p = torch.softmax(trace.z.masked_fill(~asked, float("-inf")), -1)
        deltas = backward(theta, self.sigma, trace, p - y)
        outer_sums(deltas, trace.r, self.layout.views(self.gradient).active(self.active), scale=1.0 / x.shape[1])
        return {}

    def state_dict(self) -> dict[str, Tensor]:
        return super().state_dict() | {"together": self.together}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self.together.copy_(state["together"])
