"""Online Laplace approximation with Kronecker factors (Ritter, Botev & Barber, 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from efc.core.axis import PerRun
from efc.core.kronecker import Factors, joined, kronecker_factors, write
from efc.core.network import forward
from efc.learners.inputs import Change
from efc.learners.memory import Memory
from efc.learners.options import choice, learning_rate, number
from efc.learners.penalty import Penalised, PenaltyOptions
from efc.learners.state import Generators

if TYPE_CHECKING:
    from efc.core.task import TaskData
    from efc.learners.gradient import GradientLearner

LABELS = ("drawn", "given")


def labels_option() -> str:
    """The option ``labels``, the same for every method that keeps Kronecker factors."""
    return choice("drawn", LABELS, doc="drawn: Fisher of the network's own answers; given: empirical Fisher")


def task_factors(learner: GradientLearner, task: TaskData, labels: str, generators: Generators) -> Factors:
    """The Kronecker factors of a task's Fisher at the present parameters, over its active classes."""
    batches = learner.passes(task, task.active)
    if labels == "drawn":
        batches = _with_own_answers(learner, task, generators)
    return kronecker_factors(learner.layout, learner.theta, learner.sigma, batches, task.active, learner.output)


def _with_own_answers(
    learner: GradientLearner, task: TaskData, generators: Generators
) -> Iterator[tuple[Tensor, Tensor]]:
    """The task's samples, each with a label drawn from the probabilities that the network gives them."""
    layers = learner.layers.active(task.active)
    for x, y in learner.passes(task, task.active):
        steps = torch.softmax(forward(layers, learner.sigma, x).z.double(), -1).cumsum(-1)
        drawn = generators.uniform(x.shape[1]).to(steps).unsqueeze(-1)
        label = (drawn > steps).sum(-1).clamp_max(steps.shape[-1] - 1)
        yield x, torch.nn.functional.one_hot(label, steps.shape[-1]).to(y)


class KFACMemory(Memory):
    """``R = 1/2 sum_t sum_i tr(G_ti V_i A_ti V_i^T)`` with ``V_i = [W_i b_i] - [W_i* b_i*]``, W* the newest weights.

    A sum of Kronecker products is none itself: every task's factors are kept, as they are. The inputs' moments are the
    same for all runs: there is one copy.
    """

    def __init__(self, learner: GradientLearner) -> None:
        super().__init__(learner)
        sizes, R = self.layout.sizes, learner.runs
        self.A = [learner.theta.new_zeros(1 if i == 0 else R, 0, d + 1, d + 1) for i, d in enumerate(sizes[:-1])]
        self.G = [learner.theta.new_zeros(R, 0, d, d) for d in sizes[1:]]
        self.generators = Generators(learner.seeds, purpose=5)

    @classmethod
    def numbers_kept(cls, samples: int, sizes: Sequence[int]) -> int:
        """For ten tasks, and what working out the factors of one of them needs."""
        return 14 * sum((a + 1) ** 2 + b * b for a, b in pairwise(sizes))

    @property
    def importance(self) -> Tensor | None:
        return None

    def gradient(self, theta: Tensor) -> Tensor:
        """``sum_t G_ti V_i A_ti``, layer by layer."""
        out = torch.zeros_like(theta)
        drift, found = self.layout.views(theta - self.anchor), self.layout.views(out)
        for i, (A, G) in enumerate(zip(self.A, self.G, strict=True)):
            V = joined(drift, i)
            total = torch.zeros_like(V)
            for t in range(G.shape[1]):
                total.baddbmm_(G[:, t], torch.matmul(V, A[:, t]))
            write(total, found, i)
        return out

    def follow_inputs(self, change: Change) -> None:
        change.weights(self.layout, self.anchor)
        first = self.A[0].double()
        for t in range(first.shape[1]):
            one = first[:, t].clone()
            change.moments(one)
            first[:, t] = one
        self.A[0] = first.to(self.anchor.dtype)

    def consolidate(self, learner: GradientLearner, task: TaskData) -> None:
        options = learner.options
        assert isinstance(options, KFACOptions)
        new = task_factors(learner, task, options.labels, self.generators)
        dtype = self.anchor.dtype
        self.A = [
            torch.cat([kept, A[: len(kept)].to(dtype).unsqueeze(1)], 1) for kept, A in zip(self.A, new.A, strict=True)
        ]
        self.G = [torch.cat([kept, G.to(dtype).unsqueeze(1)], 1) for kept, G in zip(self.G, new.G, strict=True)]
        self.anchor = learner.theta.clone()

    def state_dict(self) -> dict[str, Tensor]:
        state = {"anchor": self.anchor} | self.generators.state_dict()
        state |= {f"A.{i}": A for i, A in enumerate(self.A)}
        return state | {f"G.{i}": G for i, G in enumerate(self.G)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        def mine(name: str) -> Tensor:
            return state[name].to(self.anchor.device, self.anchor.dtype, copy=True)

        self.generators.load_state_dict(state)
        self.anchor = mine("anchor")
        self.A, self.G = ([mine(f"{name}.{i}") for i in range(len(self.A))] for name in "AG")


@dataclass(frozen=True)
class KFACOptions(PenaltyOptions):
    """``strength`` is the factor s of the penalty ``2 s R``, in the units of EWC's.

    Args:
        lr: the learning rate at a task's start.
        strength: the factor s of the penalty.
        labels: ``drawn`` from the network's own answers (the Fisher), or ``given`` (the empirical Fisher).
    """

    lr: PerRun = learning_rate(1e-3)
    strength: PerRun = number(10.0, inclusive=True, search=(1e-1, 1e9), doc="factor s of the penalty", changeable=True)
    labels: str = labels_option()


class KFAC(Penalised):
    """Back-propagation plus ``s sum_t sum_i tr(G_ti V_i A_ti V_i^T)``: both factors of the curvature."""

    name = "kfac"
    recordable = True
    options_type = KFACOptions
    memory_type = KFACMemory
