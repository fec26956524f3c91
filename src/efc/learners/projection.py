"""Steps that keep away from what old tasks' inputs excite: what OWM and GPM have in common.

Every layer's step ``[dW db]`` is multiplied by a matrix on the presynaptic side that is small, or zero, in the
directions of old activity ``[r 1]``: old inputs then lead to the same pre-activations as before.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from efc.core.moments import Dense, Operator, apply
from efc.core.task import TaskData
from efc.learners.inputs import Change
from efc.learners.options import Options
from efc.learners.sgd import SGD
from efc.learners.state import Part


class Directions:
    """Square matrices (R or 1, d + 1, d + 1) of every layer's inputs, in float64; those of the inputs are the same for
    all runs, and there is one copy.

    Args:
        learner: whose layers they are of.
    """

    def __init__(self, learner: Projected) -> None:
        self.learner = learner
        device, sizes = learner.theta.device, learner.layout.sizes[:-1]
        self.layers = [
            torch.zeros(
                learner.inputs_runs if i == 0 else learner.runs, d + 1, d + 1, dtype=torch.float64, device=device
            )
            for i, d in enumerate(sizes)
        ]
        self.outputs = torch.zeros(2, dtype=torch.long)
        """The range of outputs that finished tasks were asked about."""
        self.head_too = torch.tensor(True)
        """Whether old inputs are asked about the present outputs."""
        self.operators: list[Operator] = []

    def begin_task(self, task: TaskData) -> None:
        """Old inputs are asked about the present outputs if these contain their own (Class-IL, Domain-IL)."""
        first, last = self.outputs.tolist()
        self.head_too = torch.tensor(task.active.start <= first and last <= task.active.stop)
        self.prepare()

    def prepare(self) -> None:
        me = self.learner
        self.operators = [Dense.of(me.projector(M), me.theta) for M in self.layers]

    def __call__(self, step: Tensor) -> Tensor:
        """The step (R, P), projected; the head's as it is where old inputs are not asked about it."""
        out, layout = torch.zeros_like(step), self.learner.layout
        given, found = layout.views(step), layout.views(out)
        apply(self.operators, given, found)
        if not self.head_too:
            found.weights[-1].copy_(given.weights[-1])
            found.biases[-1].copy_(given.biases[-1])
        return out

    def consolidate(self, task: TaskData) -> None:
        first, last = self.outputs.tolist()
        seen = (task.active.start, task.active.stop) if last == 0 else (first, last)
        self.outputs = torch.tensor([min(seen[0], task.active.start), max(seen[1], task.active.stop)])

    def follow_inputs(self, change: Change) -> None:
        """Inputs are standardised in another way from now on."""
        change.moments(self.layers[0])
        self.layers[0] = self.learner.as_directions(self.layers[0])

    def state_dict(self) -> dict[str, Tensor]:
        state = {"outputs": self.outputs, "head_too": self.head_too}
        return state | {f"{i}": M for i, M in enumerate(self.layers)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.outputs, self.head_too = state["outputs"].cpu().clone(), state["head_too"].cpu().clone()
        self.layers = [state[f"{i}"].to(M.device, M.dtype, copy=True) for i, M in enumerate(self.layers)]
        self.prepare()


class Projected(SGD):
    """Back-propagation whose steps are projected: a method says what it keeps of a task, and what it makes of it."""

    name = "projected"
    inputs_shared: ClassVar[bool] = True
    """Whether what is kept of the inputs is the same for all runs."""

    @property
    def inputs_runs(self) -> int:
        return 1 if self.inputs_shared else self.runs

    def set_up(self) -> None:
        super().set_up()
        self.directions = Directions(self)

    def begin_task(self, task: TaskData) -> None:
        super().begin_task(task)
        self.directions.begin_task(task)

    def shaped(self, step: Tensor) -> Tensor:
        return self.directions(step) if self.tasks_seen > 0 else step

    def consolidate(self, task: TaskData) -> None:
        self.take_in(task)
        self.directions.consolidate(task)

    @abstractmethod
    def take_in(self, task: TaskData) -> None:
        """Add what a finished task's activity says to ``self.directions.layers``."""

    @abstractmethod
    def projector(self, kept: Tensor) -> Tensor:
        """The matrix a layer's steps are multiplied by, from what is kept of it."""

    def as_directions(self, kept: Tensor) -> Tensor:
        """What is kept of the inputs, after these have been standardised in another way."""
        return kept

    @classmethod
    def numbers_kept(cls, samples: int, sizes: Sequence[int], options: Options) -> int:
        return super().numbers_kept(samples, sizes, options) + 8 * sum((d + 1) ** 2 for d in sizes[:-1])

    def parts(self) -> dict[str, Part]:
        return super().parts() | {"directions": self.directions}
