"""Head policies: what happens to the head's rows when a task begins and ends, for every learner alike.

`random` leaves them as they were drawn, `zero` begins at zero. `least_squares` sets the new classes' rows by ridge
regression of their one-hot targets on the features of the new task alone. `analytic` keeps the second moments of the
features of all tasks (no samples) and solves the ridge problem over all classes seen, when a task begins and again when
it ends. `compensated` does the same and lets the moments of old tasks follow the features when these change,
`input_compensated` follows them more closely with the help of the inputs' moments. In Class-IL this is much of what
lifts the accuracy off the floor: every result names its head policy.
"""

from __future__ import annotations

from collections.abc import KeysView, Sequence
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from efc.core.moments import with_one
from efc.core.network import forward
from efc.learners.ridge import RidgeMoments
from efc.learners.state import Stored

if TYPE_CHECKING:
    from efc.core.task import TaskData
    from efc.learners.base import Learner
    from efc.learners.inputs import Change


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

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

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

    def beside(self, x: Tensor, classes: slice) -> Tensor | None:
        """What is added to the outputs ``classes`` for inputs x (R, B, d_0) as the network gets them; None: nothing."""
        return None

    def moments(self, task: TaskData, classes: slice) -> RidgeMoments:
        """Moments of the task's features as the network makes them now, with one-hot targets over ``classes``."""
        me = self.learner
        d, C = me.layout.sizes[-2], classes.stop - classes.start
        found = RidgeMoments(me.runs, d, C, me.theta.device)
        return found.add((forward(me.layers, me.sigma, x).r[-1], y) for x, y in me.passes(task, classes))

    def ridge(self, moments: RidgeMoments) -> Tensor:
        """The ridge (R, 1, 1): the one that is given, or one that is chosen."""
        me = self.learner
        given = me.per_run("ridge", me.options.ridge).double()
        return torch.where(given > 0, given, self.chosen(moments)) if bool((given == 0).any()) else given

    def chosen(self, moments: RidgeMoments) -> Tensor:
        """The ridge where none is given."""
        return self.learner.theta.new_full((1, 1, 1), USUAL).double()

    def write(self, moments: RidgeMoments, classes: slice, targets: slice = slice(None)) -> None:
        """Put the solution for ``targets`` into the rows ``classes`` of the head."""
        me = self.learner
        W, b = moments.solve(self.ridge(moments), targets)
        me.layers.weights[-1][:, classes] = W.to(me.theta.dtype)
        me.layers.biases[-1][:, classes] = b.to(me.theta.dtype)


class RandomHead(HeadPolicy):
    """Nothing: new rows stay as they were drawn."""

    name = "random"


class ZeroHead(HeadPolicy):
    """New rows start at zero: with what keeps old activity's answers as they are, new classes stay silent on it."""

    name = "zero"

    def begin(self, task: TaskData) -> None:
        self.learner.layers.weights[-1][:, task.new] = 0.0
        self.learner.layers.biases[-1][:, task.new] = 0.0


class LeastSquaresHead(HeadPolicy):
    """New rows by ridge regression on the features of the new task alone."""

    name = "least_squares"

    def begin(self, task: TaskData) -> None:
        if task.new.stop > task.new.start:
            self.write(self.moments(task, task.new), task.new)


class AnalyticHead(HeadPolicy):
    """All rows seen so far by ridge regression on the moments of all tasks, each taken when its task ended."""

    name = "analytic"
    owns_head = True
    matrices: ClassVar[int] = 7
    """Square float64 matrices of the moments' size that are in memory at a time."""

    def __init__(self, learner: Learner) -> None:
        super().__init__(learner)
        self.total = self._empty(learner.layout.sizes[-1])
        self.seen = torch.tensor(0)

    @classmethod
    def numbers_kept(cls, sizes: Sequence[int]) -> int:
        return 2 * cls.matrices * (cls.n_features(sizes) + sizes[-1]) ** 2  # float64: each counts as two

    @classmethod
    def n_features(cls, sizes: Sequence[int]) -> int:
        """How many features there are moments of: those the head reads."""
        return sizes[-2]

    def begin(self, task: TaskData) -> None:
        self._solve(task, super().moments(task, self._all()).merge(self.kept()))

    def end(self, task: TaskData) -> None:
        self.total = self.moments(task, self._all()).merge(self.total)
        self._solve(task, self._read(self.total))

    def _read(self, moments: RidgeMoments) -> RidgeMoments:
        """The moments of what the head reads."""
        return moments

    def temperature(self, task: TaskData) -> Tensor:
        """(R,): by what the outputs are to be divided for their softmax to be a probability, after the task.

        It is the one of the least cross-entropy on the task's samples, each as if the head had been fitted without it:
        with ``s = f^T (A + ridge N I)^-1 f`` that head answers ``(z - s y) / (1 - s)``. No sample has to be held out.
        """
        kept, me = self._read(self.total), self.learner
        strength = self.ridge(kept) * kept.n
        L = torch.linalg.cholesky_ex(kept.A + strength * torch.eye(kept.A.shape[-1]).to(kept.A))[0]
        rows = slice(0, int(self.seen))
        found = []
        for x, Y in me.passes(task, rows):
            f = with_one(self._features(x))
            T = torch.cholesky_solve(f.transpose(1, 2), L).transpose(1, 2)
            own = (f * T).sum(-1, keepdim=True).clamp_max(0.999)
            z = torch.bmm(T, kept.T[..., rows])
            found.append(torch.stack([(z - own * Y) / (1 - own), Y.double().expand_as(z)]))
        z, Y = torch.cat(found, 2)
        tried = torch.logspace(-2.5, 0.5, 61, dtype=torch.float64, device=z.device)
        losses = torch.stack([(torch.logsumexp(z / t, -1) - (z * Y).sum(-1) / t).mean(1) for t in tried])
        return tried[losses.nan_to_num(float("inf")).argmin(0)]

    def _features(self, x: Tensor) -> Tensor:
        """What the head reads of inputs (R, B, d_0) as the network gets them."""
        return forward(self.learner.layers, self.learner.sigma, x).r[-1]

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

    def _solve(self, task: TaskData, moments: RidgeMoments) -> None:
        """Set the rows of all classes seen from the moments of all tasks."""
        self.seen = self.seen.clamp_min(task.active.stop)
        rows = slice(0, int(self.seen))
        self.write(moments, rows, targets=rows)

    def state_dict(self) -> dict[str, Tensor]:
        return self.total.state_dict() | {"seen": self.seen}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.total.load_state_dict(state)
        self.seen = state["seen"].cpu().clone()


class CompensatedHead(AnalyticHead):
    """The analytic head whose moments of old tasks follow the drift of the features.

    While a task is learned the features change, and the moments of the tasks before no longer fit them. How they change
    is seen on the task's own data: the change ``h_new - h_old`` is fitted by ridge regression on ``[h_old 1]`` (ridge
    ``drift_ridge``, per sample), and the old moments are carried along. Of what the data do not show it says "no
    change"; where the features stay as they are this is the analytic head, bit for bit. No sample is kept: at the
    task's start a copy of the parameters, for its end.

    The features are trained to tell the task's own classes apart, not these from all others: the rows of old classes
    are solved for anyway, and pushing them down on new data would only move the features. A learner that replays
    samples of old classes trains all of them.
    """

    name = "compensated"
    matrices = 12

    def __init__(self, learner: Learner) -> None:
        super().__init__(learner)
        self.before = learner.theta.clone()

    def trained(self, task: TaskData) -> slice:
        own = slice(int(task.y.min()), int(task.y.max()) + 1)
        return task.active if self.learner.replays_old_classes else own

    def begin(self, task: TaskData) -> None:
        self.before = self.learner.theta.clone()
        super().begin(task)

    def end(self, task: TaskData) -> None:
        if self.learner.options.drift == "checked":
            self._check(task)
        elif bool(self.total.n > 0):
            self.total.carry(*self._drift(task)[:2])
        super().end(task)

    def _drift(self, task: TaskData) -> tuple[Tensor, Tensor, Tensor]:
        """W (R, d, .) and b (R, d) of the change of the features since the task began, and the mean products (R, d, d)
        of what they leave of it."""
        me = self.learner
        old, found = me.layout.views(self.before), self._empty(me.layout.sizes[-2])
        squares = torch.zeros((), dtype=torch.float64, device=me.theta.device)
        for x, _ in me.passes(task, task.active):
            h = forward(old, me.sigma, x).r[-1].double()
            change = forward(me.layers, me.sigma, x).r[-1].double() - h
            self._take_in(found, x, h, change)
            squares = squares + torch.bmm(change.transpose(1, 2), change)
        W, b = found.solve(me.per_run("drift_ridge", me.options.drift_ridge).double())
        V = torch.cat([W, b.unsqueeze(-1)], -1)
        seen = torch.bmm(V, found.T)
        left = squares - seen - seen.transpose(1, 2) + torch.bmm(V, torch.bmm(found.A, V.transpose(1, 2)))
        return W, b, left / found.n

    def _check(self, task: TaskData) -> None:
        """Keep the features that the task has trained where the head errs less with them.

        It is fitted to the samples that were stepped on and to the old tasks' moments, and its squared error is that on
        the samples that were held out and, from the moments, on the old tasks. These follow the drift of the features,
        and what the drift's fit leaves over on the task's data is counted as noise on theirs. Where nothing was held
        out there is nothing to vouch for the features: they are taken back.
        """
        me = self.learner
        trained, total = me.theta.clone(), self.total.copy()
        better = torch.zeros(me.runs, dtype=torch.bool, device=me.theta.device)
        if task.held is not None and bool(task.held.any()):
            if bool(total.n > 0):
                W, b, left = self._drift(task)
                total.carry(W, b)
                last = slice(-1 - left.shape[-1], -1)
                total.A[:, last, last] += total.n * left
            with_them = self._error(task, task.held, total)
            me.theta.copy_(self.before)
            better = with_them < self._error(task, task.held, self.total)
        me.theta.copy_(torch.where(better[:, None], trained, self.before))
        keep = better[:, None, None]
        self.total.A, self.total.T = torch.where(keep, total.A, self.total.A), torch.where(keep, total.T, self.total.T)

    def _error(self, task: TaskData, held: Tensor, total: RidgeMoments) -> Tensor:
        """(R,): the squared error of a head with the present features, on held-out samples and old tasks."""
        old = self._read(total)
        together = self._read(self.moments(task.part(~held), self._all()).merge(total))
        W, b = together.solve(self.ridge(together))
        V = torch.cat([W, b.unsqueeze(-1)], -1).transpose(1, 2)
        new = self._read(self.moments(task.part(held), self._all()))
        return new.error(V) * (len(held) / float(held.sum())) + old.error(V)

    def _take_in(self, found: RidgeMoments, x: Tensor, h: Tensor, Y: Tensor) -> None:
        """Add samples with inputs x (R, B, d_0), features h and targets Y to such moments."""
        found.add([(h, Y)])

    def state_dict(self) -> dict[str, Tensor]:
        return super().state_dict() | {"before": self.before}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self.before = state["before"].to(self.before.device, self.before.dtype, copy=True)


class InputCompensatedHead(CompensatedHead):
    """The compensated head that sees the drift of the features from the inputs, too.

    The features' change is fitted on ``[x h_old 1]`` instead of ``[h_old 1]``: the inputs do not drift, and a layer's
    change is closer to a linear function of both than of its own rates. That takes the moments of ``[x h]``, a square
    matrix of inputs plus features, instead of those of h.
    """

    name = "input_compensated"

    @classmethod
    def n_features(cls, sizes: Sequence[int]) -> int:
        return sizes[0] + sizes[-2]

    def follow_inputs(self, change: Change) -> None:
        """Inputs are standardised in another way from now on."""
        change.moments(self.total.A)
        change.moments(self.total.T, symmetric=False)

    def __init__(self, learner: Learner) -> None:
        super().__init__(learner)
        self.skips = learner.options.skip == "on"
        d, C = learner.layout.sizes[0], learner.layout.sizes[-1]
        self.direct = learner.theta.new_zeros(learner.runs, C if self.skips else 0, d)
        """The head's weights of the inputs."""

    def begin(self, task: TaskData) -> None:
        self.direct.zero_()  # the features are trained as if they were all there is
        super().begin(task)

    def beside(self, x: Tensor, classes: slice) -> Tensor | None:
        return torch.matmul(x, self.direct[:, classes].transpose(1, 2).to(x.dtype)) if self.skips else None

    def write(self, moments: RidgeMoments, classes: slice, targets: slice = slice(None)) -> None:
        me, d = self.learner, self.learner.layout.sizes[-2]
        W, b = moments.solve(self.ridge(moments), targets)
        me.layers.weights[-1][:, classes] = W[..., -d:].to(me.theta.dtype)
        me.layers.biases[-1][:, classes] = b.to(me.theta.dtype)
        if W.shape[-1] > d:
            self.direct[:, classes] = W[..., :-d].to(me.theta.dtype)

    def kept(self) -> RidgeMoments:
        return self.total.of_last(self.learner.layout.sizes[-2])

    def _read(self, moments: RidgeMoments) -> RidgeMoments:
        return moments if self.skips else moments.of_last(self.learner.layout.sizes[-2])

    def _features(self, x: Tensor) -> Tensor:
        h = super()._features(x)
        return torch.cat([x, h], -1) if self.skips else h

    def state_dict(self) -> dict[str, Tensor]:
        return super().state_dict() | ({"direct": self.direct} if self.skips else {})

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        if self.skips:
            self.direct = state["direct"].to(self.direct.device, self.direct.dtype, copy=True)

    def moments(self, task: TaskData, classes: slice) -> RidgeMoments:
        me = self.learner
        found = self._empty(classes.stop - classes.start)
        for x, y in me.passes(task, classes):
            self._take_in(found, x, forward(me.layers, me.sigma, x).r[-1], y)
        return found

    def _take_in(self, found: RidgeMoments, x: Tensor, h: Tensor, Y: Tensor) -> None:
        found.add_with_inputs(x[0], h, Y)  # a task's data are the same for all runs


POLICIES: dict[str, type[HeadPolicy]] = {
    cls.name: cls
    for cls in (RandomHead, ZeroHead, LeastSquaresHead, AnalyticHead, CompensatedHead, InputCompensatedHead)
}
"""The head policies by name. One that is added here can be chosen everywhere."""
HEADS: KeysView[str] = POLICIES.keys()
"""Their names."""
