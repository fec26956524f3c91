"""Quadratic penalty with the exact full empirical Fisher ("FISH"), never formed: its factors are kept instead.

The gradient of sample n is ``delta_i,n r_{i-1},n^T`` in layer i, so ``F v = 1/N sum_n g_n (g_n . v)`` takes two matrix
products per layer and no P x P matrix. The factors include the inputs, and grow with every task: this is the reference
that diagonal methods approximate, not a method that keeps no samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from efc.core.axis import PerRun
from efc.core.network import Parameters, affine, backward, forward, outer_sums
from efc.core.outputs import loss_gradient
from efc.learners.inputs import Change
from efc.learners.memory import Memory
from efc.learners.options import number
from efc.learners.penalty import Penalised, PenaltyOptions

if TYPE_CHECKING:
    from efc.core.task import TaskData
    from efc.learners.gradient import GradientLearner

ROWS = 4096
"""Samples per product: bounds the memory of a product, whatever the number of samples kept."""


class FullFisherMemory(Memory):
    """``R = 1/2 sum_t (theta - theta_t*)^T F_t (theta - theta_t*)`` with ``F_t = 1/N_t sum_n g_n g_n^T``.

    With theta* the newest anchor, ``g_n . (theta - theta_t*) = g_n . (theta - theta*) + offset_n``: one anchor and one
    number per sample stand for all the tasks' anchors.
    """

    def __init__(self, learner: GradientLearner) -> None:
        super().__init__(learner)
        R, d = learner.runs, self.layout.sizes
        self.deltas = [learner.theta.new_zeros(R, 0, n) for n in d[1:]]
        # The inputs are the same for all runs: one copy.
        self.rates = [learner.theta.new_zeros(1 if i == 0 else R, 0, n) for i, n in enumerate(d[:-1])]
        self.offset = learner.theta.new_zeros(R, 0)
        self.weight = learner.theta.new_zeros(0)

    @classmethod
    def numbers_kept(cls, samples: int, sizes: Sequence[int]) -> int:
        return samples * sum(sizes)

    @property
    def importance(self) -> Tensor | None:
        return None

    def gradient(self, theta: Tensor) -> Tensor:
        """``sum_n w_n g_n (g_n . (theta - theta*) + offset_n)`` with ``w_n = 1/N_t``."""
        out = torch.zeros_like(theta)
        v, layers = self.layout.views(theta - self.anchor), self.layout.views(out)
        for start in range(0, len(self.weight), ROWS):
            rows = slice(start, start + ROWS)
            amount = self.weight[rows] * (self.along(v, rows) + self.offset[:, rows])
            post = [amount.unsqueeze(-1) * d[:, rows] for d in self.deltas]
            outer_sums(post, self._rates(rows), layers, scale=1.0, add=True)
        return out

    def follow_inputs(self, change: Change) -> None:
        super().follow_inputs(change)
        self.rates[0] = change.inputs(self.rates[0])

    def along(self, v: Parameters, rows: slice) -> Tensor:
        """``g_n . v`` (R, n) for the samples ``rows``: ``sum_i delta_i . (V_i r_{i-1} + v_i)``."""
        parts = [
            (d[:, rows] * affine(r, V, b)).sum(-1)
            for d, r, V, b in zip(self.deltas, self._rates(rows), v.weights, v.biases, strict=True)
        ]
        return torch.stack(parts).sum(0)

    def _rates(self, rows: slice) -> list[Tensor]:
        return [r[:, rows].expand(self.offset.shape[0], -1, -1) for r in self.rates]

    def consolidate(self, learner: GradientLearner, task: TaskData) -> None:
        moved = self.layout.views(learner.theta - self.anchor)
        if learner.head_policy.owns_head:  # old tasks' anchors follow the head: nothing of them is left behind there
            moved.weights[-1].zero_()
            moved.biases[-1].zero_()
        starts = range(0, len(self.weight), ROWS)
        shifts = [self.along(moved, slice(start, start + ROWS)) for start in starts]
        if shifts:
            self.offset = self.offset + torch.cat(shifts, 1)
        n = len(task.y)
        self.offset = torch.cat([self.offset, self.offset.new_zeros(learner.runs, n)], 1)
        self.weight = torch.cat([self.weight, self.weight.new_full((n,), 1.0 / n)])
        self.anchor = learner.theta.clone()
        self._keep(learner, task)

    def _keep(self, learner: GradientLearner, task: TaskData) -> None:
        """Append the factors of a task's per-sample gradients, zero at the head's inactive rows."""
        theta, classes = learner.layers.active(task.active), task.active
        deltas, rates = [[t] for t in self.deltas], [[t] for t in self.rates]
        for x, y in learner.passes(task, classes):
            trace = forward(theta, learner.sigma, x)
            found = list(backward(theta, learner.sigma, trace, loss_gradient(learner.output, trace.z, y)))
            head = x.new_zeros(learner.runs, x.shape[1], self.layout.sizes[-1])
            head[..., classes] = found[-1]
            found[-1] = head
            for kept, new in zip((*deltas, *rates), (*found, x[:1], *trace.r[1:]), strict=True):
                kept.append(new)
        self.deltas, self.rates = [torch.cat(t, 1) for t in deltas], [torch.cat(t, 1) for t in rates]

    def state_dict(self) -> dict[str, Tensor]:
        state = {"anchor": self.anchor, "offset": self.offset, "weight": self.weight}
        state |= {f"delta.{i}": t for i, t in enumerate(self.deltas)}
        return state | {f"rate.{i}": t for i, t in enumerate(self.rates)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        def mine(name: str) -> Tensor:
            return state[name].to(self.anchor.device, self.anchor.dtype, copy=True)

        self.anchor, self.offset, self.weight = mine("anchor"), mine("offset"), mine("weight")
        self.deltas = [mine(f"delta.{i}") for i in range(len(self.deltas))]
        self.rates = [mine(f"rate.{i}") for i in range(len(self.rates))]


@dataclass(frozen=True)
class FullFisherOptions(PenaltyOptions):
    """``strength`` is the factor s of the penalty, in the units of EWC's."""

    strength: PerRun = number(100.0, inclusive=True, search=(1e-2, 1e8), doc="factor s of the penalty", changeable=True)


class FullFisher(Penalised):
    """Back-propagation plus the penalty ``s * sum_t (theta - theta_t*)^T F_t (theta - theta_t*)``."""

    name = "full_fisher"
    options_type = FullFisherOptions
    memory_type = FullFisherMemory
