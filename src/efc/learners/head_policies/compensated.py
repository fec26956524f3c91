"""Heads that are solved for and whose moments follow the features when these change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from efc.core.network import forward
from efc.learners.head_policies.analytic import AnalyticHead
from efc.learners.ridge import RidgeMoments

if TYPE_CHECKING:
    from efc.core.task import TaskData
    from efc.learners.base import Learner
    from efc.learners.inputs import Change


WORTH = 0.9
"""From the second task on, the share of the error that new features may leave to be worth the drift they cause."""
MOST_INPUTS = 2048
"""Inputs whose moments are kept; more would take minutes to solve for, and gigabytes."""


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

    @property
    def checks(self) -> bool:
        return self.learner.options.drift == "checked"

    def trained(self, task: TaskData) -> slice:
        own = slice(int(task.y.min()), int(task.y.max()) + 1)
        return task.active if self.learner.replays_old_classes else own

    def begin(self, task: TaskData) -> None:
        self.before = self.learner.theta.clone()
        super().begin(task)

    def end(self, task: TaskData) -> None:
        if self._moved():
            if self.checks and task.held is not None:
                self._check(self._counted(task))
            elif bool(self.total.n > 0):
                self.total.carry(*self._drift(task)[:2])
        super().end(task)

    def _moved(self) -> bool:
        """Whether the features have changed at all since the task began; a task of one class does not train them."""
        now, before = self.learner.layers, self.learner.layout.views(self.before)
        pairs = zip((*now.weights[:-1], *now.biases[:-1]), (*before.weights[:-1], *before.biases[:-1]), strict=True)
        return not all(torch.equal(a, b) for a, b in pairs)

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
        """Keep the features that the task has trained where the head errs less with them, by a tenth if there are old
        tasks: how their features have drifted is seen on other data than theirs.

        It is fitted to the samples that were stepped on and to the old tasks' moments, and its squared error is that on
        the samples that were held out and, from the moments, on the old tasks. These follow the drift of the features,
        and what the drift's fit leaves over on the task's data is counted as noise on theirs. Where there were too few
        samples to hold any out, nothing vouches for the features: they are taken back.
        """
        assert task.held is not None
        me = self.learner
        trained, total = me.theta.clone(), self.total.copy()
        better = torch.zeros(me.runs, dtype=torch.bool, device=me.theta.device)
        if bool(task.held.any()):
            carried = bool(total.n > 0)
            if carried:
                W, b, left = self._drift(task)
                total.carry(W, b)
                total.blur(left)
            with_them = self._error(task, task.held, total)
            me.theta.copy_(self.before)
            better = with_them < (WORTH if carried else 1.0) * self._error(task, task.held, self.total)
        me.theta.copy_(torch.where(better[:, None], trained, self.before))
        self.total = total.where(better[:, None, None], self.total)

    def _error(self, task: TaskData, held: Tensor, total: RidgeMoments) -> Tensor:
        """(R,): the squared error of a head with the present features, on held-out samples and old tasks."""
        old = self._read(total)
        together = self._read(self.moments(task.part(~held), self._all()).merge(total))
        W, b = together.solve(self.ridge(together))
        V = torch.cat([W, b.unsqueeze(-1)], -1).transpose(1, 2)
        new = self._read(self.moments(task.part(held), self._all()))
        share = (together.weight - old.weight + new.weight) / new.weight
        return new.error(V) * share[:, 0, 0] + old.error(V)

    def state_dict(self) -> dict[str, Tensor]:
        return super().state_dict() | {"before": self.before}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self.before = state["before"].to(self.before.device, self.before.dtype, copy=True)


class InputCompensatedHead(CompensatedHead):
    """The compensated head that sees the drift of the features from the inputs, too.

    The features' change is fitted on ``[x h_old 1]`` instead of ``[h_old 1]``: the inputs do not drift, and a layer's
    change is closer to a linear function of both than of its own rates. That takes the moments of ``[x h]``, a square
    matrix of inputs plus features, instead of those of h. With more than 2048 inputs it is the compensated head.
    """

    name = "input_compensated"

    @classmethod
    def n_features(cls, sizes: Sequence[int]) -> int:
        return sizes[-2] + (sizes[0] if sizes[0] <= MOST_INPUTS else 0)

    def follow_inputs(self, change: Change) -> None:
        """Inputs are standardised in another way from now on."""
        if self.sees_inputs:
            self.total.rescale_inputs(change)

    def __init__(self, learner: Learner) -> None:
        super().__init__(learner)
        self.sees_inputs = learner.layout.sizes[0] <= MOST_INPUTS
        self.skips = self.sees_inputs and learner.options.skip == "on"
        d, C = learner.layout.sizes[0], learner.layout.sizes[-1]
        self.direct = learner.theta.new_zeros(learner.runs, C if self.skips else 0, d)
        """The head's weights of the inputs."""

    def begin(self, task: TaskData) -> None:
        self.direct.zero_()  # the features are trained as if they were all there is
        super().begin(task)

    def beside(self, x: Tensor, classes: slice) -> Tensor | None:
        return torch.matmul(x, self.direct[:, classes].transpose(1, 2).to(x.dtype)) if self.skips else None

    def write(self, W: Tensor, b: Tensor, rows: slice) -> None:
        d = self.learner.layout.sizes[-2]
        super().write(W[..., -d:], b, rows)
        if W.shape[-1] > d:
            self.direct[:, rows] = W[..., :-d].to(self.direct.dtype)

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
        found = self._of_classes(classes.stop - classes.start)
        for x, y, weights in me.weighted(task, classes):
            self._take_in(found, x, forward(me.layers, me.sigma, x).r[-1], y, weights)
        return found

    def _take_in(self, found: RidgeMoments, x: Tensor, h: Tensor, Y: Tensor, weights: Tensor | None = None) -> None:
        if self.sees_inputs:
            found.add_with_inputs(x[0], h, Y, weights)  # a task's data are the same for all runs
        else:
            super()._take_in(found, x, h, Y, weights)
