"""Closed-form ridge regression on the given features, task after task: the strong baseline that replays nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from efc.core.activations import ACTIVATIONS, Activation
from efc.core.axis import PerRun
from efc.core.network import forward
from efc.core.task import TaskData
from efc.learners.base import Learner
from efc.learners.inputs import Change
from efc.learners.options import Options, choice, number
from efc.learners.ridge import RidgeMoments
from efc.learners.state import Generators, Part

FOURIER = Activation("fourier", torch.cos, lambda a, f: -torch.sin(a), signed=True)


@dataclass(frozen=True)
class AnalyticOptions(Options):
    """The ridge, and random features if there are any; what else every learner has is not used.

    Args:
        ridge: per sample; 0: by generalised cross-validation.
        width: random features between inputs and head; 0: none, the head reads the inputs.
        features: ``relu(w x + b)`` or, ``fourier``, ``cos(w x + b)``.
        bandwidth: factor of the random weights.
    """

    lr: PerRun = number(1e-3, doc="not used", changeable=True)
    ridge: PerRun = number(0.0, inclusive=True, search=(1e-9, 1e1), doc="ridge, per sample; 0: chosen")
    width: int = number(
        0, inclusive=True, high=1e5, per_run=False, whole=True, doc="random features before the head; 0: none"
    )
    features: str = choice("relu", ("relu", "fourier"), doc="relu(w x + b), or cos(w x + b)")
    bandwidth: PerRun = number(1.0, doc="factor of the random features' weights")


class Analytic(Learner):
    """``V = (sum [x 1]^T [x 1] + ridge N I)^{-1} sum [x 1]^T Y`` over all tasks so far, from their moments alone.

    Nothing is lost by learning task after task: the result is that of ridge regression on everything at once, in any
    order (Zhuang et al., 2022, call this analytic class-incremental learning). The whole network is the head: hidden
    layers of ``sizes`` are not used. With ``width`` the head reads that many random features of the inputs instead
    (Rahimi & Recht, 2007; McDonnell et al., 2023, for continual learning), drawn from each run's seed.

    Args:
        sizes: layer sizes; the first and the last count.
        seeds: one per run; without random features only their number counts.
        options: the ridge, and random features.
        head: ``analytic``, or none.
        activation: not used, there are no hidden units.
        device: where the moments and the weights live.
        dtype: not used: all is computed in float64.
    """

    name = "analytic"
    streams = True
    options_type = AnalyticOptions
    options: AnalyticOptions

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
        width = int(getattr(options, "width", 0))
        layers = (sizes[0], width, sizes[-1]) if width else (sizes[0], sizes[-1])
        super().__init__(layers, seeds, options, head, activation, device, torch.float64)

    def set_up(self) -> None:
        super().set_up()
        self.layers.weights[-1].zero_()
        self.layers.biases[-1].zero_()
        if self.options.width:
            self._draw()
        shared = 1 if self.options.width == 0 else self.runs  # what all runs see alike is kept once
        d, C = self.layout.sizes[-2:]
        self.moments = RidgeMoments(shared, d, C, self.theta.device)
        self.last_ridge: Tensor | None = None

    def _draw(self) -> None:
        """The random features: weights as a network's first layer has them, times ``bandwidth``."""
        W, b = self.layers.weights[0], self.layers.biases[0]
        W.mul_(self.per_run("bandwidth", self.options.bandwidth))
        self.sigma = ACTIVATIONS["relu"]
        if self.options.features == "fourier":
            self.sigma = FOURIER
            b.copy_(2 * math.pi * Generators(self.seeds, purpose=4).uniform(b.shape[1]))

    def consolidate(self, task: TaskData) -> None:
        self.collect(task)
        self.answer(0, afresh=True)

    def collect(self, some: TaskData) -> None:
        every, one = slice(0, self.layout.sizes[-1]), len(self.moments.A)
        for x, y, weights in self.weighted(some, every):
            h = forward(self.layers, self.sigma, x).r[-1]
            self.moments.add(h[:one], y[:one], weights)

    def answer(self, top: int, afresh: bool) -> None:
        if afresh:
            self.last_ridge = None
        W, b = self.solved()
        self.layers.weights[-1].copy_(W)
        self.layers.biases[-1].copy_(b)

    def solved(self) -> tuple[Tensor, Tensor]:
        """Weights (R, C, d) and biases (R, C) of the head, from the moments of all tasks."""
        if self.last_ridge is None:
            ridge = self.per_run("ridge", self.options.ridge)
            if bool((ridge == 0).any()):
                ridge = torch.where(ridge > 0, ridge, self.moments.best_ridge())
            self.last_ridge = ridge
        return self.moments.solve(self.last_ridge)

    def follow_inputs(self, change: Change) -> None:
        super().follow_inputs(change)
        if not self.options.width:  # random features stay the same functions of raw inputs
            self.moments.rescale_inputs(change)

    @classmethod
    def numbers_kept(cls, samples: int, sizes: Sequence[int], options: Options) -> int:
        width = int(getattr(options, "width", 0))
        return 10 * (width + sizes[-1]) ** 2 if width else 0

    def parts(self) -> dict[str, Part]:
        return super().parts() | {"moments": self.moments}

    def state_dict(self) -> dict[str, Tensor]:
        found = super().state_dict()
        if self.arrivals is not None:
            found["ridge"] = self.theta.new_zeros(1, 1, 1) if self.last_ridge is None else self.last_ridge
        return found

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        ridge = state.get("ridge")
        known = ridge is not None and bool((ridge > 0).all())
        self.last_ridge = ridge.to(self.theta, copy=True) if ridge is not None and known else None
