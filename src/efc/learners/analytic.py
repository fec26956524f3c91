"""Closed-form ridge regression on the given features, task after task: the strong baseline that replays nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from efc.core.axis import PerRun
from efc.core.task import TaskData
from efc.learners.base import Learner
from efc.learners.head_policies import RandomHead
from efc.learners.options import Options, number
from efc.learners.ridge import RidgeMoments
from efc.learners.state import Part


@dataclass(frozen=True)
class AnalyticOptions(Options):
    """The ridge is all there is; what else every learner has is not used."""

    lr: PerRun = number(1e-3, doc="not used")
    ridge: PerRun = number(1e-4, search=(1e-9, 1e1), doc="ridge, per sample")


class Analytic(Learner):
    """``V = (sum [x 1]^T [x 1] + ridge N I)^{-1} sum [x 1]^T Y`` over all tasks so far, from their moments alone.

    Nothing is lost by learning task after task: the result is that of ridge regression on everything at once, in any
    order (Zhuang et al., 2022, call this analytic class-incremental learning). Hidden layers of ``sizes`` are not used,
    nor is the seed; computed in float64.
    """

    name = "analytic"
    options_type = AnalyticOptions
    shipped_head = "analytic"
    heads = ("analytic",)
    takes_steps = False

    def __init__(self, sizes: Sequence[int], seeds: Sequence[int], *args: Any, **kwargs: Any) -> None:
        super().__init__((sizes[0], sizes[-1]), seeds, *args, **(kwargs | {"dtype": torch.float64}))
        self.theta.zero_()
        self.head_policy = RandomHead(self)  # the whole network is the head
        self.moments = RidgeMoments(1, sizes[0], sizes[-1], self.theta.device)

    def step(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {}

    def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        return {}

    def consolidate(self, task: TaskData) -> None:
        every = slice(0, self.layout.sizes[-1])
        self.moments.add((x[:1], y[:1]) for x, y in self.passes(task, every))
        W, b = self.moments.solve(self.per_run("ridge", self.options.ridge))
        self.layers.weights[0].copy_(W)
        self.layers.biases[0].copy_(b)

    def parts(self) -> dict[str, Part]:
        return {"moments": self.moments}
