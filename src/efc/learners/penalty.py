"""Back-propagation with a quadratic penalty: what EWC, online EWC, SI, MAS and the full Fisher have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from efc.core.axis import PerRun
from efc.core.network import Layout
from efc.core.preservation import strengths
from efc.core.task import TaskData
from efc.errors import EFCError
from efc.learners.memory import Memory
from efc.learners.options import Options, learning_rate, number
from efc.learners.sgd import SGD
from efc.learners.state import Part


@dataclass(frozen=True)
class PenaltyOptions(Options):
    """``strength`` is the factor s of the penalty ``s * sum Omega (theta - theta*)^2``; ``inf`` freezes.

    The head's part of the sum has the factor ``s * head_strength``.

    Args:
        lr: the learning rate at a task's start.
        strength: the factor s of the penalty.
        head_strength: further factor of the head's penalty.
    """

    lr: PerRun = learning_rate(1e-4)
    strength: PerRun = number(
        1e4,
        inclusive=True,
        search=(1e-1, 1e9),
        doc="factor s of the penalty; inf freezes what is important",
        changeable=True,
    )
    head_strength: PerRun = number(1.0, inclusive=True, doc="further factor of the head's penalty")


class Penalised(SGD):
    """Descend the loss plus ``2 s R(theta)``, R the :class:`~efc.learners.memory.Memory`'s quadratic.

    Strength zero is plain training, bit for bit. At infinite strength the parameters of non-zero importance do not
    move at all (a gradient step on an infinite penalty would only make them jump).
    """

    name = "penalised"
    options_type = PenaltyOptions
    options: PenaltyOptions
    memory_type: ClassVar[type[Memory]]

    def set_up(self) -> None:
        super().set_up()
        self.memory = self.memory_type(self)
        self.strength = self.per_run("strength", self.options.strength).reshape(-1, 1)
        self.infinite = torch.isinf(self.strength)
        head = self.per_run("head_strength", self.options.head_strength)
        if bool((head != 1).any()):
            self.strength = strengths(self.layout, self.strength, head, "none", None)
        self.freezes = bool(self.infinite.any())
        if self.freezes and self.memory.importance is None:
            raise EFCError(f"strength: {self.name} has no importances per parameter to freeze by; give a finite number")
        self.loss_gradient: Tensor | None = None

    def begin_task(self, task: TaskData) -> None:
        super().begin_task(task)
        self.memory.begin_task(self)

    def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        statistics = super().descent(x, y)
        if self.memory.follows_path:
            self.loss_gradient = self.gradient.clone()
        if self.tasks_seen > 0:
            pull = self.memory.gradient(self.theta)
            factor = 2 * self.strength
            if self.freezes:
                factor = factor.masked_fill(self.infinite, 0.0)
            add_active(self.layout, self.gradient, factor * pull, self.active)
            held = self.held()
            if held is not None:
                self.gradient.masked_fill_(held, 0.0)
        return statistics

    def held(self) -> Tensor | None:
        importance = self.memory.importance
        return self.infinite & (importance > 0) if self.freezes and importance is not None else None

    def moved(self, step: Tensor) -> None:
        if self.loss_gradient is not None:
            self.memory.follow(self.loss_gradient, step)

    def consolidate(self, task: TaskData) -> None:
        self.memory.consolidate(self, task)

    @classmethod
    def numbers_kept(cls, samples: int, sizes: Sequence[int], options: Options) -> int:
        return super().numbers_kept(samples, sizes, options) + cls.memory_type.numbers_kept(samples, sizes)

    def parts(self) -> dict[str, Part]:
        return super().parts() | {"memory": self.memory}


def add_active(layout: Layout, total: Tensor, part: Tensor, classes: slice) -> None:
    """Add ``part`` to ``total``, both flat (R, P), but for the head's inactive rows."""
    ours, mine = layout.views(total).active(classes), layout.views(part).active(classes)
    for a, b in zip((*ours.weights, *ours.biases), (*mine.weights, *mine.biases), strict=True):
        a += b
