"""What a regulariser keeps of finished tasks: one importance and one anchor per parameter.

A :class:`Memory` belongs to a learner and serves two masters: back-propagation with a penalty
(:class:`~efc.learners.penalty.Penalised`) and EFC, where its gradient becomes the preservation signal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from efc.learners.inputs import Change
from efc.learners.state import Stored

if TYPE_CHECKING:
    from efc.core.task import TaskData
    from efc.learners.gradient import GradientLearner


class Memory(Stored):
    """``R(theta) = 1/2 sum Omega (theta - theta*)^2``; a subclass says what Omega and theta* are.

    Args:
        learner: whose parameters it is about.
    """

    stored: ClassVar[tuple[str, ...]] = ("omega", "anchor")
    follows_path: ClassVar[bool] = False
    """Whether it needs the gradient of the loss and the step taken, at every step."""

    def __init__(self, learner: GradientLearner) -> None:
        self.layout = learner.layout
        self.omega = torch.zeros_like(learner.theta)
        self.anchor = torch.zeros_like(learner.theta)

    @classmethod
    def numbers_kept(cls, samples: int, sizes: Sequence[int]) -> int:
        """How many float32-sized numbers per run it keeps that are not one or two per parameter, after ``samples`` of
        training data in all."""
        return 0

    @property
    def importance(self) -> Tensor | None:
        """Omega (R, P), or None where the regulariser has no such thing."""
        return self.omega

    @property
    def quadratic(self) -> bool:
        """Whether R is the diagonal form above; a subclass with a :meth:`gradient` of its own is not."""
        return type(self).gradient is Memory.gradient

    def gradient(self, theta: Tensor) -> Tensor:
        """``dR/dtheta = Omega (theta - theta*)``."""
        return self.omega * (theta - self.anchor)

    def follow_inputs(self, change: Change) -> None:
        """Inputs are standardised in another way from now on."""
        change.weights(self.layout, self.anchor)
        change.importances(self.layout, self.omega)

    def begin_task(self, learner: GradientLearner) -> None:
        """A task begins. Where the head has just been solved for anew, that is the head to preserve."""
        if learner.head_policy.owns_head:
            head, now = learner.layout.views(self.anchor), learner.layers
            head.weights[-1].copy_(now.weights[-1])
            head.biases[-1].copy_(now.biases[-1])

    def follow(self, gradient: Tensor, step: Tensor) -> None:
        """A step was taken: the gradient of the loss alone, and what was subtracted from the parameters."""

    def consolidate(self, learner: GradientLearner, task: TaskData) -> None:
        """A task has been learned."""
        raise NotImplementedError
