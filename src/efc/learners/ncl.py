"""Natural continual learning (Kao, Jensen, van de Ven, Bernacchia & Hennequin, 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from efc.core.axis import PerRun
from efc.core.kronecker import Factors, joined, merged, write
from efc.core.task import TaskData
from efc.learners.inputs import Change
from efc.learners.kfac import labels_option, task_factors
from efc.learners.options import Options, choice, number
from efc.learners.ridge import Inverse
from efc.learners.sgd import SGD
from efc.learners.state import Generators, Part


@dataclass(frozen=True)
class NCLOptions(Options):
    """The rate is a share of the whole way: steps are measured by the curvature of old tasks.

    Args:
        lr: the learning rate at a task's start.
        optimiser: ``sgd`` with momentum, as published, or ``adam``.
        prior: precision of the weights before the first task, per sample.
        labels: as in ``kfac``.
    """

    lr: PerRun = number(3e-2, search=(1e-4, 1e0), doc="learning rate at a task's start", changeable=True)
    optimiser: str = choice("sgd", ("sgd", "adam"), doc="sgd with momentum 0.9, or adam")
    prior: PerRun = number(1.0, search=(1e-6, 1e1), doc="precision of the weights before the first task, per sample")
    labels: str = labels_option()


class Posterior:
    """A Gaussian over the weights: ``anchor``, and the precision ``A_i (x) G_i`` of every layer."""

    def __init__(self, learner: NCL) -> None:
        self.learner = learner
        self.anchor = torch.zeros_like(learner.theta)
        self.kept = Factors.zeros(learner.layout, learner.runs, learner.theta.device)
        self.generators = Generators(learner.seeds, purpose=5)
        self.inverses: list[tuple[Tensor, Tensor]] = []

    def follow_inputs(self, change: Change) -> None:
        change.weights(self.learner.layout, self.anchor)
        change.moments(self.kept.A[0])

    def begin_task(self, task: TaskData) -> None:
        """New rows of the head have the prior's mean, zero. Where the head has just been solved for anew, that is the
        head to preserve."""
        me = self.learner
        head = me.layout.views(self.anchor)
        for anchor, now in ((head.weights[-1], me.layers.weights[-1]), (head.biases[-1], me.layers.biases[-1])):
            if me.head_policy.owns_head:
                anchor.copy_(now)
            else:
                anchor[:, task.new] = 0.0
        self.prepare()

    def prepare(self) -> None:
        """What the steps of a task need, worked out once."""
        found, like = self.precision(), self.learner.theta
        self.inverses = [(_inverse(A, like), _inverse(G, like)) for A, G in zip(found.A, found.G, strict=True)]

    def precision(self) -> Factors:
        """What tasks have added, and the prior: ``(A + pi root I) (x) (G + root / pi I)``, ``root^2`` the prior.

        ``pi^2`` is the mean of A's diagonal over that of G (Martens & Grosse, 2015), outputs that no task was about
        left out: how many of them there are must not matter.
        """
        me = self.learner
        root = me.per_run("prior", me.options.prior).double().sqrt()
        A, G = [], []
        for a, g in zip(self.kept.A, self.kept.G, strict=True):
            rows = g.diagonal(dim1=1, dim2=2)
            size = a.diagonal(dim1=1, dim2=2).mean(1), rows.sum(1) / (rows > 0).sum(1).clamp_min(1)
            known = (size[0] > 0) & (size[1] > 0)
            pi = torch.where(known, (size[0] / size[1].clamp_min(1e-300)).sqrt(), 1.0)[:, None, None]
            A.append(a + pi * root * torch.eye(a.shape[-1], dtype=a.dtype, device=a.device))
            G.append(g + root / pi * torch.eye(g.shape[-1], dtype=g.dtype, device=g.device))
        return Factors(A, G)

    def natural(self, gradient: Tensor) -> Tensor:
        """``G_i^-1 g_i A_i^-1`` of every layer of a gradient (R, P)."""
        me = self.learner
        out = torch.zeros_like(gradient)
        given, taken = me.layout.views(gradient), me.layout.views(out)
        for i, (A, G) in enumerate(self.inverses):
            write(torch.bmm(G, torch.bmm(joined(given, i), A)), taken, i)
        return out

    def consolidate(self, task: TaskData) -> None:
        me = self.learner
        new = task_factors(me, task, me.options.labels, self.generators)
        self.kept = merged(self.kept, new) if me.tasks_seen else new
        self.anchor = me.theta.clone()

    def state_dict(self) -> dict[str, Tensor]:
        state = {"anchor": self.anchor} | self.generators.state_dict()
        state |= {f"A.{i}": A for i, A in enumerate(self.kept.A)}
        return state | {f"G.{i}": G for i, G in enumerate(self.kept.G)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        def mine(name: str, like: Tensor) -> Tensor:
            return state[name].to(like.device, like.dtype, copy=True)

        self.generators.load_state_dict(state)
        self.anchor, old = mine("anchor", self.anchor), self.kept
        A = [mine(f"A.{i}", t) for i, t in enumerate(old.A)]
        self.kept = Factors(A, [mine(f"G.{i}", t) for i, t in enumerate(old.G)])
        self.prepare()


class NCL(SGD):
    """Natural steps towards the new task's loss and back to old weights: ``Lambda^-1 g + (theta - theta*)``.

    ``Lambda`` is the precision of the weights after the tasks before, prior included: where old tasks are sensitive the
    loss moves the weights little, and the pull back needs no factor of its own. The first task is learned by plain
    steps.
    """

    name = "ncl"
    recordable = True
    streams = True
    options_type = NCLOptions
    options: NCLOptions

    def set_up(self) -> None:
        super().set_up()
        self.posterior = Posterior(self)

    def begin_task(self, task: TaskData) -> None:
        super().begin_task(task)
        self.posterior.begin_task(task)

    def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        statistics = super().descent(x, y)
        if self.tasks_seen > 0:
            back = self.theta - self.posterior.anchor
            natural = self.posterior.natural(self.gradient).add_(back)
            ours = self.layout.views(self.gradient).active(self.active)
            mine = self.layout.views(natural).active(self.active)
            for a, b in zip((*ours.weights, *ours.biases), (*mine.weights, *mine.biases), strict=True):
                a.copy_(b)
        return statistics

    def consolidate(self, task: TaskData) -> None:
        self.posterior.consolidate(task)

    @classmethod
    def numbers_kept(cls, samples: int, sizes: Sequence[int], options: Options) -> int:
        kept = super().numbers_kept(samples, sizes, options)
        return kept + 10 * sum((a + 1) ** 2 + b * b for a, b in pairwise(sizes))

    def parts(self) -> dict[str, Part]:
        return super().parts() | {"posterior": self.posterior}


def _inverse(M: Tensor, like: Tensor) -> Tensor:
    eye = torch.eye(M.shape[-1], dtype=M.dtype, device=M.device).expand_as(M)
    return Inverse(M)(eye).to(like.dtype)
