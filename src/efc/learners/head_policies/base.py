"""What a head policy is, and the three that keep nothing of old tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from efc.core.network import forward
from efc.learners.ridge import RidgeMoments
from efc.learners.state import Stored

if TYPE_CHECKING:
    from efc.core.task import TaskData
    from efc.learners.base import Learner


USUAL = 1e-4
"""The ridge of a head that is fitted to a single task."""


class HeadPolicy(Stored):
    """What is done to the head's rows around a task. A policy is one class that derives from this, listed in POLICIES.

    The learner calls :meth:`trained` and then :meth:`begin` before a task's first step, and :meth:`end` after its last
    one, before anything of the task is consolidated. What has to be in a checkpoint is named in ``stored``.

    Args:
        learner: the learner whose head it is; its parameters exist already.
    """

    name: ClassVar[str]
    """What it is called in tables and settings."""
    owns_head: ClassVar[bool] = False
    """Whether rows of old classes, too, are set anew when a task begins."""
    streams: ClassVar[bool] = False
    """Whether it can do without tasks: it then needs :meth:`collect` and :meth:`answer` if it ``owns_head``."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    @property
    def checks(self) -> bool:
        """Whether it wants some samples of a task not to be stepped on, ``TaskData.held``, to check the others by."""
        return False

    @classmethod
    def numbers_kept(cls, sizes: Sequence[int]) -> int:
        """How many float32-sized numbers per run it takes in memory, with the copies its solutions need, for layers
        of these ``sizes``."""
        return 0

    def trained(self, task: TaskData) -> slice:
        """The outputs whose loss is descended while the task is learned."""
        return task.active

    def begin(self, task: TaskData) -> None:
        """A task begins: set the rows that are to be set. By default they stay as they are."""
        return None

    def end(self, task: TaskData) -> None:
        """A task has been learned, its data are still there."""
        return None

    def collect(self, some: TaskData) -> None:
        """Samples have arrived, without a task; the features no longer move."""
        return None

    def answer(self, top: int, afresh: bool) -> None:
        """Set the rows up to ``top`` from all that was collected; ``afresh``: with a ridge chosen anew."""
        return None

    def beside(self, x: Tensor, classes: slice) -> Tensor | None:
        """What is added to the outputs ``classes`` for inputs x (R, B, d_0) as the network gets them; None: nothing."""
        return None

    def sets(self, task: TaskData) -> bool:
        """Whether new rows are to be set when a task begins: the first one's may be left as they were drawn."""
        drawn = self.learner.options.first_head == "drawn" and task.new.start == 0
        return not drawn and task.new.stop > task.new.start

    def moments(self, task: TaskData, classes: slice) -> RidgeMoments:
        """Moments of the task's features as the network makes them now, with one-hot targets over ``classes``."""
        me = self.learner
        d, C = me.layout.sizes[-2], classes.stop - classes.start
        found = RidgeMoments(me.runs, d, C, me.theta.device)
        for x, y, weights in me.weighted(task, classes):
            found.add(forward(me.layers, me.sigma, x).r[-1], y, weights)
        return found

    def ridge(self, moments: RidgeMoments) -> Tensor:
        """The ridge (R, 1, 1): the one that is given, or one that is chosen."""
        me = self.learner
        given = me.per_run("ridge", me.options.ridge).double()
        return torch.where(given > 0, given, self.chosen(moments)) if bool((given == 0).any()) else given

    def chosen(self, moments: RidgeMoments) -> Tensor:
        """The ridge where none is given."""
        return self.learner.theta.new_full((1, 1, 1), USUAL).double()

    def write(self, W: Tensor, b: Tensor, rows: slice) -> None:
        """Put weights (R, C, d) and biases (R, C) into rows of the head."""
        me = self.learner
        me.layers.weights[-1][:, rows] = W.to(me.theta.dtype)
        me.layers.biases[-1][:, rows] = b.to(me.theta.dtype)


class RandomHead(HeadPolicy):
    """Nothing: new rows stay as they were drawn."""

    name = "random"
    streams = True


class ZeroHead(HeadPolicy):
    """New rows start at zero: with what keeps old activity's answers as they are, new classes stay silent on it."""

    name = "zero"
    streams = True

    def begin(self, task: TaskData) -> None:
        if self.sets(task):
            self.learner.layers.weights[-1][:, task.new] = 0.0
            self.learner.layers.biases[-1][:, task.new] = 0.0


class LeastSquaresHead(HeadPolicy):
    """New rows by ridge regression on the features of the new task alone."""

    name = "least_squares"

    def begin(self, task: TaskData) -> None:
        if self.sets(task):
            moments, scale = (
                self.moments(task, task.new),
                self.learner.per_run("head_scale", self.learner.options.head_scale),
            )
            W, b = moments.solve(self.ridge(moments))
            self.write(W * scale, b * scale.squeeze(-1), task.new)
