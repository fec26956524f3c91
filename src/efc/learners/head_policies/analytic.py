"""The head that is solved for: moments of all tasks' features, no samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from efc.core.network import forward
from efc.learners.head_policies.base import HeadPolicy
from efc.learners.readout import READOUTS, Readout, misfit
from efc.learners.ridge import RidgeMoments

if TYPE_CHECKING:
    from efc.core.task import TaskData
    from efc.learners.base import Learner

FAR = 20.0
"""How many times further out than the head takes them to samples cannot lie, unless it is all but singular."""


class AnalyticHead(HeadPolicy):
    """All rows seen so far from the moments of all tasks' features, each taken when its task ended.

    When a task begins they are set by ridge regression, which is what training starts from; when it ends as the option
    ``readout`` says.
    """

    name = "analytic"
    owns_head = True
    streams = True
    matrices: ClassVar[int] = 8
    """Square float64 matrices of the moments' size that are in memory at a time."""

    def __init__(self, learner: Learner) -> None:
        super().__init__(learner)
        self.total = self._of_classes(learner.layout.sizes[-1])
        self.mass = torch.zeros(learner.layout.sizes[-1], dtype=torch.float64, device=learner.theta.device)
        """(C,): what the samples of each output count together; kept where the moments do not say."""
        self.seen = torch.tensor(0)
        self.last_ridge: Tensor | None = None
        """The one that was chosen when the last task ended; the next beginning forgets it."""
        self.readout = READOUTS[learner.options.readout]

    @classmethod
    def numbers_kept(cls, sizes: Sequence[int]) -> int:
        return 2 * cls.matrices * (cls.n_features(sizes) + sizes[-1]) ** 2  # float64: each counts as two

    @classmethod
    def n_features(cls, sizes: Sequence[int]) -> int:
        """How many features there are moments of: those the head reads."""
        return sizes[-2]

    def begin(self, task: TaskData) -> None:
        self.last_ridge = None
        moments, rows = super().moments(self._counted(task), self._all()).merge(self.kept()), self._rows(task)
        self.write(*moments.solve(self.ridge(moments), rows), rows)

    def end(self, task: TaskData) -> None:
        weights = torch.ones_like(task.y, dtype=torch.float64) if task.weights is None else task.weights
        self.mass = self.mass.index_add(0, task.y, weights)
        self.total = self.moments(self._counted(task), self._all()).merge(self.total)
        rows, self.last_ridge = self._rows(task), None
        solved = self.solved(rows)
        self.write(solved.W, solved.b, rows)

    def collect(self, some: TaskData) -> None:
        me = self.learner
        for x, Y in me.passes(some, self._all()):
            self._take_in(self.total, x, forward(me.layers, me.sigma, x).r[-1], Y)
        self.mass = self.mass.index_add(0, some.y, torch.ones_like(some.y, dtype=torch.float64))

    def answer(self, top: int, afresh: bool) -> None:
        self.seen = torch.tensor(top)
        if afresh or self.last_ridge is None:
            self.last_ridge = self.ridge(self._read(self.total))
        rows = slice(0, top)
        solved = self.solved(rows)
        self.write(solved.W, solved.b, rows)

    def solved(self, rows: slice) -> Readout:
        """The head of these outputs, from the moments of the tasks so far."""
        kept = self._read(self.total)
        if self.last_ridge is None:
            self.last_ridge = self.ridge(kept)
        return self.readout(kept.of_targets(rows), self.last_ridge, self.mass[rows])

    def _counted(self, task: TaskData) -> TaskData:
        """The task with the weights that its moments are to have."""
        return task if self.readout.counts_weights else replace(task, weights=None)

    def _read(self, moments: RidgeMoments) -> RidgeMoments:
        """The moments of what the head reads."""
        return moments

    def misfit(self, task: TaskData) -> tuple[Tensor, Tensor]:
        """(R, TRIED): for each temperature t that the outputs z may be divided by, the summed cross-entropy of the
        task's samples, after the task. (R,): the unit of these temperatures, which goes with the head as it is now.

        Every sample is answered as if the head had been fitted without it: none has to be held out. Where there are
        fewer samples than features, they may lie ``FAR`` times further out than the head takes them to, or more; the
        outputs' size then depends on the ridge, which jumps from task to task. In units of how far out they lie
        temperatures of several tasks can be compared.
        """
        rows = slice(0, int(self.seen))
        solved, found, further = self.solved(rows), [], []
        for x, Y, weights in self.learner.weighted(self._counted(task), rows):
            f = self._features(x)
            z = solved.left_out(f, Y, weights)
            found.append(torch.stack([z, Y.double().expand_as(z)]))
            further.append(solved.excess(f, Y))
        unit = torch.cat(further, 1).nanmedian(1).values.clamp_max(1e12)
        unit = torch.where(unit > FAR, unit, 1.0)  # also if it is NaN: there are single samples alone
        z, Y = torch.cat(found, 2)
        return misfit(z / unit[:, None, None], Y, self.readout.temperatures), unit

    def _features(self, x: Tensor) -> Tensor:
        """What the head reads of inputs (R, B, d_0) as the network gets them."""
        return forward(self.learner.layers, self.learner.sigma, x).r[-1]

    def _take_in(self, found: RidgeMoments, x: Tensor, h: Tensor, Y: Tensor, weights: Tensor | None = None) -> None:
        """Add samples with inputs x (R, B, d_0), features h and targets Y to such moments."""
        found.add(h, Y, weights)

    def chosen(self, moments: RidgeMoments) -> Tensor:
        return moments.best_ridge()

    def kept(self) -> RidgeMoments:
        """The moments of the tasks so far, of what the head reads."""
        return self.total

    def _all(self) -> slice:
        return slice(0, self.learner.layout.sizes[-1])

    def _empty(self, targets: int) -> RidgeMoments:
        """Moments, before any sample, of these features."""
        me = self.learner
        return RidgeMoments(me.runs, self.n_features(me.layout.sizes), targets, me.theta.device)

    def _of_classes(self, classes: int) -> RidgeMoments:
        """The same, whose targets are classes."""
        return self._empty(classes)

    def _rows(self, task: TaskData) -> slice:
        """The outputs seen so far, those of the task among them."""
        self.seen = self.seen.clamp_min(task.active.stop)
        return slice(0, int(self.seen))

    def state_dict(self) -> dict[str, Tensor]:
        found = self.total.state_dict() | {"seen": self.seen}
        if not self.readout.counts_weights:
            found["mass"] = self.mass
        if self.learner.arrivals is not None:
            given = self.last_ridge
            found["ridge"] = self.mass.new_zeros(self.learner.runs) if given is None else given.reshape(-1)
        return found

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.total.load_state_dict(state)
        ridge = state.get("ridge", self.mass.new_zeros(1)).to(self.mass, copy=True)
        self.last_ridge = ridge.reshape(-1, 1, 1) if bool((ridge > 0).all()) else None
        if "mass" in state:
            self.mass = state["mass"].to(self.mass.device, copy=True)
        self.seen = state["seen"].cpu().clone()
