"""Remembered activity: second moments of every layer's inputs over old tasks, and the weights that met them.

``R = 1/2 sum_i tr(dW_i A_i dW_i^T)`` with ``dW = [W b] - [W* b*]`` is half the squared change of every pre-activation
on the activity of old tasks; its gradient is ``dR/dW_i = dW_i A_i``. It acts on the weight change of any learner, as a
pull (``p dR/dW`` beside the gradient) or as a natural step (what the optimiser subtracts, times ``mu (mu I + A)^-1``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from efc.core.axis import per_run
from efc.core.moments import Moments, Operator, Sketch, apply
from efc.core.network import forward

if TYPE_CHECKING:
    from efc.core.task import TaskData
    from efc.learners.gradient import GradientLearner
    from efc.learners.inputs import Change
    from efc.learners.options import Options


HUNDRED = 100.0
"""The most that the rates of a layer's inputs may sum to before its pull is weakened."""


class RememberedActivity:
    """The moments of a learner's layers and their anchor ``W*``, the newest weights.

    Every finished task adds the mean over its samples: for tasks of one size the sum over tasks stands for old samples
    as the loss does for new ones, however many tasks there are. The inputs are the same for all runs, and so are their
    moments: there is one copy.

    One step of Adam moves all weights of a neuron by the learning rate, and so its pre-activation by up to the rate
    times the sum of its inputs' rates: in wide or busy layers a pull of the same weight is too stiff for such steps.
    ``moments="relative"`` therefore counts a layer's moments per hundred of that sum where it is larger; ``"plain"`` as
    they are.

    Args:
        learner: the learner whose layers they are of.
    """

    def __init__(self, learner: GradientLearner) -> None:
        self.learner = learner
        device, rank = learner.theta.device, int(learner.options.rank)
        self.layers: list[Moments | Sketch] = []
        for i, d in enumerate(learner.layout.sizes[:-1]):
            runs = 1 if i == 0 else learner.runs
            self.layers.append(Sketch(runs, d, rank, device) if 0 < rank < d else Moments(runs, d, device))
        self.anchor = torch.zeros_like(learner.theta)
        self.outputs = torch.zeros(2, dtype=torch.long)
        """The range of outputs that finished tasks were asked about."""
        self.head_too = torch.tensor(True)
        """Whether old inputs are asked about the present outputs."""
        self.drift = torch.zeros_like(learner.theta)
        self.factor = torch.zeros_like(learner.theta)
        self.operators: list[Operator] = []
        self.natural: list[Operator] = []

    @staticmethod
    def numbers_kept(sizes: Sequence[int], options: Options) -> int:
        """How many float32-sized numbers per run it takes: the anchor, and each hidden layer's moments.

        The inputs' moments are the same for all runs; it is only natural steps that make something of them per run.
        """
        if not options.remembers:
            return 0
        widths = sizes[:-1] if options.step == "natural" else sizes[1:-1]
        return sum(a * b for a, b in pairwise(sizes)) + sum(_moments(width, int(options.rank)) for width in widths)

    def follow_inputs(self, change: Change) -> None:
        """Inputs are standardised in another way from now on."""
        change.weights(self.learner.layout, self.anchor)
        first = self.layers[0]
        if isinstance(first, Moments):
            change.moments(first.A)
        else:
            change.moments(first.B.transpose(1, 2), symmetric=False)
            first.rest[:, :-1] *= change.a.square()

    def begin_task(self, task: TaskData) -> None:
        """A task begins, its head rows have been set.

        New rows are to stay silent on old activity: their anchor is zero. Where the head has just been solved for anew,
        it is the head to preserve. Old inputs are asked about the present outputs if these contain their own (Class-IL,
        Domain-IL); otherwise (Task-IL) there is nothing to preserve of the present rows.
        """
        me = self.learner
        kept = me.layout.views(self.anchor)
        for anchor, now in ((kept.weights[-1], me.layers.weights[-1]), (kept.biases[-1], me.layers.biases[-1])):
            if me.head_policy.owns_head:
                anchor.copy_(now)
            else:
                anchor[:, task.new] = 0.0
        first, last = self.outputs.tolist()
        self.head_too = torch.tensor(task.active.start <= first and last <= task.active.stop)
        self._prepare()

    def _prepare(self) -> None:
        """What the steps of a task need, worked out once: the factor of every weight's pull, and the matrices."""
        me = self.learner
        self.operators = [layer.operator(me.theta) for layer in self.layers] if me.options.pulls else []
        self.factor = me.pull_strength().reshape(-1, 1).repeat(1, me.layout.n_parameters)
        rows = me.layout.views(self.factor)
        if me.options.moments == "relative":
            for layer, W, b in zip(self.layers, rows.weights, rows.biases, strict=True):
                share = (HUNDRED / layer.rates().sum(1).clamp_min(HUNDRED)).to(W.dtype)
                W.mul_(share[:, None, None])
                b.mul_(share[:, None])
        head = me.per_run("head_pull", getattr(me.options, "head_pull", 1.0))
        for t in (rows.weights[-1], rows.biases[-1]):
            t.mul_(head if t.dim() == 3 else head[..., 0])
            t[:, : me.active.start] = 0.0
            t[:, me.active.stop :] = 0.0
            if not self.head_too:
                t.zero_()
        if me.options.step == "natural":
            mu = per_run("mu", me.options.mu, me.runs, me.theta.new_zeros((), dtype=torch.float64))
            mu = mu[:1] if bool((mu == mu[:1]).all()) else mu
            self.natural = [layer.natural(mu, me.theta) for layer in self.layers]

    def pull(self, theta: Tensor, gradient: Tensor) -> None:
        """Add ``p dW A`` to the gradient (R, P), in place."""
        torch.sub(theta, self.anchor, out=self.drift).mul_(self.factor)
        layout = self.learner.layout
        apply(self.operators, layout.views(self.drift), layout.views(gradient))

    def project(self, step: Tensor) -> Tensor:
        """The natural step: ``step mu (mu I + A)^-1``; the head's as it is where old inputs are not asked about it."""
        out = torch.zeros_like(step)
        given, found = self.learner.layout.views(step), self.learner.layout.views(out)
        apply(self.natural, given, found)
        if not self.head_too:
            found.weights[-1].copy_(given.weights[-1])
            found.biases[-1].copy_(given.biases[-1])
        return out

    def consolidate(self, task: TaskData) -> None:
        """A task has been learned: add the moments of its free activity."""
        me = self.learner
        for x, _ in me.passes(task, task.active):
            rates = forward(me.layers, me.sigma, x).r
            for i, (layer, r) in enumerate(zip(self.layers, rates, strict=True)):
                layer.add(r[:1] if i == 0 else r, 1.0 / len(task.y))
        self.anchor = me.theta.clone()
        first, last = self.outputs.tolist()
        seen = (task.active.start, task.active.stop) if last == 0 else (first, last)
        self.outputs = torch.tensor([min(seen[0], task.active.start), max(seen[1], task.active.stop)])

    def state_dict(self) -> dict[str, Tensor]:
        state = {"anchor": self.anchor, "outputs": self.outputs, "head_too": self.head_too}
        for i, layer in enumerate(self.layers):
            state |= {f"{i}.{name}": value for name, value in layer.state().items()}
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.anchor = state["anchor"].to(self.anchor, copy=True)
        self.outputs = state["outputs"].cpu().clone()
        self.head_too = state["head_too"].cpu().clone()
        for i, layer in enumerate(self.layers):
            prefix = f"{i}."
            layer.load({k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)})
        self._prepare()


def _moments(width: int, rank: int) -> int:
    """The moments of a layer's inputs in float64, their copy for the steps, and what working them out needs."""
    return 8 * (width + 1) * (rank if 0 < rank < width else width + 1)
