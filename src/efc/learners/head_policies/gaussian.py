"""The head of Gaussian classes that have covariances of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from efc.core.network import Parameters, forward
from efc.learners.class_moments import ClassMoments, QuadraticDiscriminant
from efc.learners.head_policies.compensated import InputCompensatedHead
from efc.learners.readout import TRIED as TEMPERATURES
from efc.learners.readout import misfit

if TYPE_CHECKING:
    from efc.core.task import TaskData
    from efc.learners.base import Learner

MOST = 20_000_000
"""Numbers per run that the moments of all classes may take (as float64: 160 MB). With more, classes share one
covariance."""
CHOICES = ((0.5, 0.03), (0.5, 0.3), (0.2, 0.03), (0.2, 0.1), (0.1, 0.3))
"""Shares of the common covariance, and what is added to the diagonals: from near the shared one to far from it."""
TRIED = 1000
"""Samples of a task that a choice is tried on, at most."""


class GaussianHead(InputCompensatedHead):
    """Mean and covariance of every class, carried along with the drift of the features as the input-compensated head
    does; what the network answers is the class of the greatest probability.

    A covariance of one class is a poor estimate where samples are few, the shared one is wrong where classes differ.
    Which mixture to take (:class:`~efc.learners.class_moments.QuadraticDiscriminant`), or the linear discriminant, is
    chosen by the errors on a fifth of every task's samples, with the moments of the others; the errors of all tasks so
    far are added up. Where the moments of all classes would take more than ``MOST`` numbers, this is the
    input-compensated head.

    The head's rows hold the linear discriminant (or what ``readout`` says): that is what importances are measured with,
    and what a task's training begins near. ``beside`` makes the difference.
    """

    name = "gaussian"
    streams = False

    total: ClassMoments

    def __init__(self, learner: Learner) -> None:
        self.apart = _numbers(learner.layout.sizes) <= MOST
        super().__init__(learner)
        self.errors = learner.theta.new_zeros(learner.runs, 1 + len(CHOICES), dtype=torch.float64)
        """(R, choices): samples that were not recognised, so far; the first is the linear discriminant."""
        self.misfits = self.errors.new_zeros(*self.errors.shape, TEMPERATURES)
        """(R, choices, temperatures): how badly each would have suited a sample of the last task."""
        self.solved_for = torch.tensor(False)
        """Whether the classes seen so far are answered by their Gaussians: between two tasks."""
        self.quadratic: QuadraticDiscriminant | None = None

    @classmethod
    def numbers_kept(cls, sizes: Sequence[int]) -> int:
        kept = _numbers(sizes)
        return super().numbers_kept(sizes) + (8 * kept if kept <= MOST else 0)  # moments, a copy, roots; all float64

    def begin(self, task: TaskData) -> None:
        self.quadratic, self.solved_for = None, torch.tensor(False)
        super().begin(task)

    def end(self, task: TaskData) -> None:
        super().end(task)
        if self.apart:
            self._try(task)
            self.solved_for = torch.tensor(True)
            self._solve()

    def beside(self, x: Tensor, classes: slice) -> Tensor | None:
        linear = super().beside(x, classes)
        if self.quadratic is None:
            return linear
        me = self.learner
        theta = Parameters(*(tuple(t.to(x) for t in group) for group in me.layers))  # exact answers: x is in float64
        h = forward(theta, me.sigma, x).r[-1]
        rows = slice(classes.start, min(classes.stop, int(self.seen)))
        W, b = theta.weights[-1][:, rows], theta.biases[-1][:, None, rows]
        ours = self.quadratic(torch.cat([x, h], -1) if self.skips else h)[..., rows]
        found = x.new_zeros(*h.shape[:2], classes.stop - classes.start) if linear is None else linear
        width = ours.shape[-1]  # outputs of classes that have not come yet stay as they are
        instead = torch.where(
            self._linear()[:, None, None], found[..., :width], ours - torch.matmul(h, W.transpose(1, 2)) - b
        )
        return torch.cat([instead, found[..., width:]], -1)

    def misfit(self, task: TaskData) -> tuple[Tensor, Tensor]:
        found, unit = super().misfit(task)
        if self.quadratic is None:
            return found, unit
        chosen = self.misfits[torch.arange(len(found), device=found.device), self._chosen()] * len(task.y)
        linear = self._linear()
        return torch.where(linear.unsqueeze(1), found, chosen), torch.where(linear, unit, 1.0)

    def _chosen(self) -> Tensor:
        """(R,): which choice has erred least; the first of these where several have."""
        return self.errors.argmin(1)

    def _linear(self) -> Tensor:
        return self._chosen() == 0

    def _mixed(self, which: Tensor, moments: ClassMoments) -> QuadraticDiscriminant:
        """The Gaussians of the classes so far, mixed as the choices ``which`` (R,), counted from 1, say."""
        table = torch.tensor([CHOICES[0], *CHOICES], dtype=torch.float64, device=which.device)
        a, r = table[which].T
        return QuadraticDiscriminant(moments, a, r, self.mass[: int(self.seen)])

    def _solve(self) -> None:
        total = self._read(self.total)
        assert isinstance(total, ClassMoments)
        self.quadratic = None if bool(self._linear().all()) else self._mixed(self._chosen(), total)

    def _try(self, task: TaskData) -> None:
        """Count the errors of every choice on a fifth of the task's samples, with the moments of all others."""
        held = torch.arange(len(task.y), device=task.y.device) % 5 == 0 if task.held is None else task.held
        if not bool(held.any()):
            return
        part = task.part(held)
        mine, total = self._read(self.moments(self._counted(part), self._all())), self._read(self.total)
        assert isinstance(mine, ClassMoments)
        assert isinstance(total, ClassMoments)
        others, rows = total.without(mine), slice(0, int(self.seen))
        some = slice(None, None, -(-len(part.y) // TRIED))
        x, y = self.learner._with_runs(part.x[some]), part.y[some]
        f = self._features(x)
        solved = self.readout(others.of_targets(rows), self.ridge(others), self.mass[rows])
        z = torch.bmm(f, solved.W.transpose(1, 2).to(f)) + solved.b.unsqueeze(1).to(f)
        for i in range(1 + len(CHOICES)):
            if i > 0:
                z = self._mixed(torch.full((len(f),), i, device=f.device), others)(f)
            self.errors[:, i] += (z.argmax(-1) != y).sum(1)
            one_hot = torch.nn.functional.one_hot(y, z.shape[-1]).double()
            self.misfits[:, i] = misfit(z.double(), one_hot, self.readout.temperatures) / len(y)

    def _of_classes(self, classes: int) -> ClassMoments:
        me = self.learner
        return ClassMoments(me.runs, self.n_features(me.layout.sizes), classes, me.theta.device, apart=self.apart)

    def state_dict(self) -> dict[str, Tensor]:
        kept = {"mass": self.mass, "errors": self.errors, "misfits": self.misfits, "solved_for": self.solved_for}
        return super().state_dict() | kept

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self.mass = state["mass"].to(self.mass.device, copy=True)
        self.errors, self.misfits = (state[name].to(self.errors.device, copy=True) for name in ("errors", "misfits"))
        self.solved_for = state["solved_for"].cpu().clone()
        self.quadratic = None
        if not self.apart:  # of smaller heads' classes there may be some: they have become too many
            self.total.own = self.total.own[:, :0]
        elif bool(self.solved_for):
            self._solve()


def _numbers(sizes: Sequence[int]) -> int:
    """How many numbers the moments of all classes take."""
    return int(sizes[-1] * (InputCompensatedHead.n_features(sizes) + 1) ** 2)
