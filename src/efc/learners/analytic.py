"""Closed-form ridge regression on the given features, task after task: the strong baseline that replays nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from efc.core.axis import PerRun
from efc.core.task import TaskData
from efc.learners.base import Learner
from efc.learners.inputs import Change
from efc.learners.options import Options, number
from efc.learners.ridge import RidgeMoments
from efc.learners.state import Part


@dataclass(frozen=True)
class AnalyticOptions(Options):
    """The ridge is all there is; what else every learner has is not used."""

    lr: PerRun = number(1e-3, doc="not used", changeable=True)
    ridge: PerRun = number(0.0, inclusive=True, search=(1e-9, 1e1), doc="ridge, per sample; 0: chosen")


class Analytic(Learner):
    """``V = (sum [x 1]^T [x 1] + ridge N I)^{-1} sum [x 1]^T Y`` over all tasks so far, from their moments alone.

    Nothing is lost by learning task after task: the result is that of ridge regression on everything at once, in any
    order (Zhuang et al., 2022, call this analytic class-incremental learning). The whole network is the head: hidden
    layers of ``sizes`` are not used.

    Args:
        sizes: layer sizes; the first and the last count.
        seeds: one per run; only their number counts.
        options: the ridge.
        head: ``analytic``, or none.
        activation: not used, there are no hidden units.
        device: where the moments and the weights live.
        dtype: not used: all is computed in float64.
    """

    name = "analytic"
    options_type = AnalyticOptions

    def __init__(
        self,
        sizes: Sequence[int],
        seeds: Sequence[int],
        options: Options | None = None,
        head: str | None = None,
        activation: str = "relu",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__((sizes[0], sizes[-1]), seeds, options, head, activation, device, torch.float64)

    def set_up(self) -> None:
        super().set_up()
        self.theta.zero_()
        self.moments = RidgeMoments(1, self.layout.sizes[0], self.layout.sizes[-1], self.theta.device)

    def consolidate(self, task: TaskData) -> None:
        every = slice(0, self.layout.sizes[-1])
        self.moments.add((x[:1], y[:1]) for x, y in self.passes(task, every))
        ridge = self.per_run("ridge", self.options.ridge)
        if bool((ridge == 0).any()):
            ridge = torch.where(ridge > 0, ridge, self.moments.best_ridge())
        W, b = self.moments.solve(ridge)
        self.layers.weights[0].copy_(W)
        self.layers.biases[0].copy_(b)

    def follow_inputs(self, change: Change) -> None:
        super().follow_inputs(change)
        change.moments(self.moments.A)
        change.moments(self.moments.T, symmetric=False)

    def parts(self) -> dict[str, Part]:
        return super().parts() | {"moments": self.moments}
