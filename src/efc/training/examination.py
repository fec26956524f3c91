"""How good a trained network's features are, how far they have drifted, and what its head makes less of them.

It looks and changes nothing: a training that is examined is the same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from efc.core.activations import Activation
from efc.core.network import Parameters, forward
from efc.learners.base import CHUNK, Learner
from efc.learners.gradient import GradientLearner
from efc.learners.inputs import Standardiser
from efc.learners.ridge import RidgeMoments
from efc.metrics import Array
from efc.streams.split import Stream
from efc.training.oracle import LinearHead, held_out, oracle

SHOWN = 10
"""Pairs of classes that are told."""
RIDGES = (1e-6, 1e-4, 1e-2, 1.0)
"""Those of the map that is fitted to a drift, in units of the mean square of a feature; the best counts."""
CLOSED = "it is a closed form: it learns no features, its head is all there is to it"
LOST = "training diverged: there are no features to look at"


@dataclass(frozen=True)
class Confused:
    """Two classes of which one is answered for the other: per cent of the samples of the one that is shown."""

    shown: str
    answered: str
    share: float
    oracle: float | None
    """How often the oracle does the same: where it does, too, the features do not tell them apart."""


@dataclass(frozen=True)
class Diagnosis:
    """Of one run, after the last task, in per cent on the data it is evaluated on; lists are by task."""

    accuracy: list[float]
    """Of its own head."""
    oracle: list[float] | None
    """Of a logistic head fitted to the final features of ALL training data at once, which no continual method has;
    None, as all that follows from features, where there are none."""
    ridge: list[float] | None
    """Of a ridge head on the same."""
    reads: str
    """What its head reads, and so the oracle: ``features``, ``features and inputs``, or ``inputs``."""
    l2: float | None
    """The oracle's penalty."""
    drift: list[float | None] | None
    """``100 |H_end - H_then| / |H_then|``: how far the features of each task's training data have moved since the task
    was learned; None where they were all silent."""
    explained: list[float | None] | None
    """How much of this drift's square a map ``h -> V h + c`` of the features then explains, seen on a fifth of the
    samples that it was not fitted to; None where nothing has moved."""
    confused: list[Confused]
    """The pairs that cost most samples."""
    newest: float | None
    """The share of older tasks' samples that are answered with a class of the last one; None where these do not
    compete."""
    newest_oracle: float | None
    """The same of the oracle's answers."""
    note: str = ""
    """Why there are no features."""

    @property
    def lost(self) -> list[float] | None:
        """What the head loses, in points."""
        return None if self.oracle is None else [a - b for a, b in zip(self.oracle, self.accuracy, strict=True)]


@dataclass(frozen=True)
class Features:
    """One run's features: the rates of its last hidden layer."""

    layers: Parameters
    sigma: Activation
    inputs: Standardiser | None
    with_inputs: bool = False
    """Whether the inputs stand before them."""

    def __call__(self, x: Tensor) -> Tensor:
        """Features (N, d) of inputs (N, d_0)."""
        return torch.cat([self._of(chunk) for chunk in x.split(CHUNK)])

    def _of(self, x: Tensor) -> Tensor:
        dtype = self.layers.weights[0].dtype
        given = x.to(dtype) if self.inputs is None else self.inputs(x, dtype)
        h = forward(self.layers, self.sigma, given.unsqueeze(0)).r[-1][0]
        return torch.cat([given, h], -1) if self.with_inputs else h


class Examination:
    """Notes what the network is after each task, and says at the end what became of it.

    Args:
        learner: what is trained; a closed form has nothing to be noted.
        stream: on what.
        part: the part of the data that accuracies are of.
    """

    def __init__(self, learner: Learner, stream: Stream, part: str) -> None:
        self.learner, self.stream, self.part = learner, stream, part
        self.noted: dict[str, Tensor] = {}
        """By task and name, on the CPU: the parameters of all runs, and how inputs were standardised."""

    def note(self, index: int) -> None:
        """A task has been learned; of the last one nothing has to be remembered."""
        me = self.learner
        if isinstance(me, GradientLearner) and index < len(self.stream.tasks) - 1:
            kept = {"theta": me.theta} | ({} if me.inputs is None else me.inputs.state_dict())
            self.noted |= {f"{index}.{name}": value.detach().cpu().clone() for name, value in kept.items()}

    def diagnoses(self, accuracy: Array, confusion: Array) -> list[Diagnosis]:
        """One per run, from the accuracies at the end (R, T), per cent, and the answers (R, outputs, outputs)."""
        return [self._of(run, accuracy[run].tolist(), torch.as_tensor(confusion[run])) for run in range(len(accuracy))]

    def _of(self, run: int, accuracy: list[float], counts: Tensor) -> Diagnosis:
        me = self.learner
        if not isinstance(me, GradientLearner):
            return self._without(accuracy, counts, f"{me.name}: {CLOSED}")
        features = self._features(me, run)
        H = torch.cat([features(task.parts["train"].x) for task in self.stream.tasks])
        if not bool(torch.isfinite(H).all()):
            return self._without(accuracy, counts, f"{me.name}: {LOST}")
        y = torch.cat([task.parts["train"].y for task in self.stream.tasks])
        found = oracle(H, y, self.stream.n_outputs, self._asked())
        del H
        answered, best = self._answers(features, found.logistic)
        moved = [self._drift(me, run, task) for task in range(len(self.stream.tasks))]
        hidden = len(me.layout.sizes) > 2
        return Diagnosis(
            accuracy=accuracy,
            oracle=best,
            ridge=self._answers(features, found.ridge)[1],
            reads="inputs" if not hidden else "features and inputs" if features.with_inputs else "features",
            l2=found.l2,
            drift=[far for far, _ in moved],
            explained=[share for _, share in moved],
            confused=confused(counts, self.stream.output_names, answered),
            newest=self._newest(counts),
            newest_oracle=self._newest(answered),
        )

    def _without(self, accuracy: list[float], counts: Tensor, note: str) -> Diagnosis:
        pairs = confused(counts, self.stream.output_names)
        return Diagnosis(accuracy, None, None, "", None, None, None, pairs, self._newest(counts), None, note)

    def _features(self, me: GradientLearner, run: int) -> Features:
        """Those at the end, beside the inputs where the head reads these too."""
        x = me.standardised(self.stream.tasks[0].parts["train"].x[:1])
        reads_both = me.head_policy.beside(x.expand(me.runs, -1, -1), slice(0, 1)) is not None
        return Features(me.layout.views(me.theta[run : run + 1]), me.sigma, me.inputs, reads_both)

    def _noted(self, me: GradientLearner, run: int, task: int) -> Features:
        """Those after a task, without the inputs."""
        theta, inputs = self.noted[f"{task}.theta"][run : run + 1].to(me.theta.device), None
        if me.inputs is not None:
            inputs = Standardiser(me.layout.sizes[0], me.theta.device)
            inputs.load_state_dict({name: self.noted[f"{task}.{name}"] for name in inputs.stored})
        return Features(me.layout.views(theta), me.sigma, inputs)

    def _asked(self) -> Tensor | None:
        """(C, C): which outputs compete at the end; None: all of them."""
        if self.stream.scenario != "task":
            return None
        C = self.stream.n_outputs
        asked = torch.zeros(C, C, dtype=torch.bool, device=self.learner.theta.device)
        for task in self.stream.tasks:
            asked[task.outputs, task.outputs] = True
        return asked

    def _answers(self, features: Features, head: LinearHead) -> tuple[Tensor, list[float]]:
        """How a head answers at the end: counts (outputs, outputs), true ones by rows, and accuracies by task."""
        C, last = self.stream.n_outputs, len(self.stream.tasks) - 1
        counts, accuracy = torch.zeros(C, C, dtype=torch.float64), []
        for index, task in enumerate(self.stream.tasks):
            classes, data = self.stream.active(index, last), task.parts[self.part]
            predicted = classes.start + head(features(data.x))[:, classes].argmax(-1)
            accuracy.append(100 * float((predicted == data.y).double().mean()))
            counts += torch.bincount(data.y * C + predicted, minlength=C * C).reshape(C, C).cpu()
        return counts, accuracy

    def _newest(self, counts: Tensor) -> float | None:
        if self.stream.scenario != "class" or len(self.stream.tasks) < 2:
            return None
        start = self.stream.tasks[-1].outputs.start
        return float(100 * counts[:start, start:].sum() / counts[:start].sum().clamp_min(1))

    def _drift(self, me: GradientLearner, run: int, task: int) -> tuple[float | None, float | None]:
        """How far a task's features have moved since it was learned, per cent, and what share is a linear map's."""
        if task == len(self.stream.tasks) - 1:
            return 0.0, None
        part = self.stream.tasks[task].parts["train"]
        now = replace(self._features(me, run), with_inputs=False)
        return drift(self._noted(me, run, task)(part.x), now(part.x), held_out(part.y))

    def state_dict(self) -> dict[str, Tensor]:
        return dict(self.noted)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.noted = {name: value.clone() for name, value in state.items()}


def drift(then: Tensor, now: Tensor, held: Tensor) -> tuple[float | None, float | None]:
    """How far features (N, d) have moved, per cent of their size, and what share a linear map explains, per cent.

    The map ``[h 1] -> change`` is fitted by ridge regression to the samples that are not ``held``, and its share is
    ``1 - |change - map|^2 / |change|^2`` on the others. None where there is nothing to be divided by.
    """
    then, change = then.double(), now.double() - then.double()
    size, moved = float(then.norm()), float(change.norm())
    if size == 0 or not moved < float("inf"):
        return None, None
    change_held = change[held]
    total = float(change_held.square().sum())
    if moved == 0 or total == 0 or not bool((~held).any()):
        return 100 * moved / size, None
    d = then.shape[1]
    moments = RidgeMoments(1, d, d, then.device).add(then[~held].unsqueeze(0), change[~held].unsqueeze(0))
    unit = float(then.square().mean())
    left = []
    for ridge in RIDGES:
        W, b = moments.solve(ridge * unit)
        left.append(float((change_held - then[held] @ W[0].T - b[0]).square().sum()))
    return 100 * moved / size, 100 * max(0.0, 1 - min(left) / total)


def confused(counts: Tensor, names: Sequence[str], by_oracle: Tensor | None = None) -> list[Confused]:
    """The pairs of classes that cost most samples, from counts (outputs, outputs), true outputs by rows."""
    wrong = counts.clone()
    wrong.fill_diagonal_(0)
    order = wrong.flatten().argsort(descending=True, stable=True)[:SHOWN].tolist()
    pairs = [divmod(place, len(counts)) for place in order]

    def share(of: Tensor, k: int, j: int) -> float:
        return float(100 * of[k, j] / of[k].sum().clamp_min(1))

    return [
        Confused(names[k], names[j], share(counts, k, j), None if by_oracle is None else share(by_oracle, k, j))
        for k, j in pairs
        if wrong[k, j] > 0
    ]
