"""Training on a stream: batches with a run axis, evaluation after every task; to be stopped and gone on with."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from efc.core.task import TaskData
from efc.errors import EFCError, choose
from efc.learners.base import Learner
from efc.learners.state import Generators
from efc.metrics import Array
from efc.streams.split import Stream
from efc.training.batches import epoch_of, prepared
from efc.training.diagnosis import Finding
from efc.training.evaluation import EVALUATED, accuracy, confusion
from efc.training.examination import Diagnosis, Examination
from efc.training.watch import Watch

SMALL = 10_000_000
"""Multiplications in a step's largest matrix product below which a second thread gains little on an idle CPU (a fifth,
for the digits) and costs much on a busy one."""


HIDDEN, EPOCHS, BATCH_SIZE = (500,), 20, 32
"""The network and the training of whoever names none: `efc run` on data without a preset, the classifiers."""
CLASS_WEIGHTS = ("none", "balanced")
SUMMED = ("unsettled", "effort", "lost")
"""Statistics of a step that are added up over an epoch."""


@dataclass
class Effort:
    """What control did in each of the E epochs, all tasks one after the other: means over the samples trained on."""

    task: NDArray[np.int64]
    """(E,), counted from 1, as is ``epoch``, which begins anew with every task."""
    epoch: NDArray[np.int64]
    psi: Array
    """(R, E, L): the norm of each layer's learning signal. NaN where no sample of an epoch was finite."""
    gamma: Array
    """(R, E, L): the norm of each layer's preservation signal."""
    unsettled: Array
    """(R, E): share of the samples whose equilibrium was not found."""


@dataclass
class TrainingResult:
    """What R runs of one learner achieved on a stream."""

    accuracy_matrix: Array
    """(R, T, T), per cent, NaN above the diagonal."""
    before: Array
    """(R, T), per cent: accuracy on each task just before it was learned."""
    untrained: Array
    """(R, T), per cent: accuracy of the initial network on each task."""
    confusion: Array
    """(R, outputs, outputs): counts after the last task, true outputs by rows."""
    unsettled: Array | None
    """(R,): share of the samples trained on whose equilibrium was not found; None without equilibrium."""
    seconds: float
    diverged: list[int] = field(default_factory=list)
    """Runs whose weights or answers are no longer finite."""
    effort: Effort | None = None
    """How control went on the way; None without equilibrium."""
    findings: list[list[Finding]] = field(default_factory=list)
    """For each run, what looks wrong."""
    diagnoses: list[Diagnosis] | None = None
    """For each run, how good its features are and what its head makes less of them; None unless asked for."""


Progress = Callable[[int, int, int], None]
"""Called after every epoch with (task, epoch, epochs), counted from 1."""
Boundary = Callable[[str], bool]
"""Called after every ``batch``, ``epoch`` and ``task`` with this word; true means: stop here, for now."""


def train(
    learner: Learner,
    stream: Stream,
    epochs: int = EPOCHS,
    batch_size: int = BATCH_SIZE,
    evaluate: str = "test",
    progress: Progress | None = None,
) -> TrainingResult:
    """Train on task after task; measure on the ``test`` (or ``validation``) part of all tasks met so far after each."""
    training = Training(learner, stream, epochs, batch_size, evaluate)
    training.run(progress)
    return training.result()


class Training:
    """One training on its way. ``state_dict`` between two batches holds all that is needed to go on bit for bit."""

    def __init__(
        self,
        learner: Learner,
        stream: Stream,
        epochs: int = EPOCHS,
        batch_size: int = BATCH_SIZE,
        evaluate: str = "test",
        class_weight: str = "none",
        diagnose: bool = False,
    ) -> None:
        if epochs < 1 or batch_size < 1:
            raise EFCError(f"epochs, batch_size: must be at least 1, got {epochs} and {batch_size}")
        self.learner, self.stream, self.epochs, self.batch_size = learner, stream, epochs, batch_size
        self.class_weight = choose("class_weight", class_weight, CLASS_WEIGHTS)
        self.part = choose("evaluate", evaluate, EVALUATED)
        R, T = learner.runs, len(stream.tasks)
        self.generators = Generators(learner.seeds, purpose=1)
        self.order: tuple[Tensor, ...] | None = None
        """The batches of the epoch under way."""
        self.order_from = self.generators.state_dict()["generators"]
        self.task = self.epoch = self.batch = 0
        self.begun = False
        self.A = np.full((R, T, T), np.nan)
        self.untrained = np.zeros((R, T))
        self.before = np.zeros((R, T))
        self.watch = Watch(learner, stream, self.part)
        self.examination = Examination(learner, stream, self.part) if diagnose else None
        self.sums: dict[str, Tensor] = {}
        """(E, R, .) each, in float64: what the statistics of an epoch's steps add up to, on the learner's device."""
        self.here: dict[str, Tensor] = {}
        """The rows of ``sums`` that belong to the epoch under way."""
        self.seconds = 0.0

    @property
    def finished(self) -> bool:
        return self.task == len(self.stream.tasks)

    def describe(self) -> str:
        """For a person: what comes when."""
        return self.stream.describe()

    def run(self, progress: Progress | None = None, boundary: Boundary | None = None) -> bool:
        """Go on from where it stands; true when the last task has been learned, false if it was told to stop."""
        began, before = time.perf_counter(), self.seconds
        with few_threads(self.learner, self.batch_size):
            for word in self._steps():
                self.seconds = before + time.perf_counter() - began
                if word == "epoch" and progress is not None:
                    progress(self.task + 1, self.epoch, self.epochs)
                if boundary is not None and boundary(word):
                    return self.finished
        return True

    def _steps(self) -> Iterator[str]:
        """The training itself, pausing after every batch, epoch and task."""
        learner = self.learner
        while not self.finished:
            task = self._data(self.task)
            if not self.begun:
                self._look_ahead()
                learner.begin_task(task)
                self.begun = True
            while self.epoch < self.epochs:
                for index in self._batches(task):
                    self._tally(learner.step_on(task, index))
                    self.batch += 1
                    yield "batch"
                self.order, self.batch, self.here = None, 0, {}
                self.epoch += 1
                yield "epoch"
            self.watch.note(self.task)
            learner.end_task(task)
            self.watch.look(self.task, task)
            if self.examination is not None:
                self.examination.note(self.task)
            for j in range(self.task + 1):
                self.A[:, self.task, j] = self._accuracy(j, after=self.task)
            self.task, self.epoch, self.begun = self.task + 1, 0, False
            yield "task"

    def _data(self, task: int) -> TaskData:
        given = self.stream.data(task, steps=0, joint=self.learner.joint)
        return prepared(given, self.learner, self.epochs, self.batch_size, self.class_weight)

    def _look_ahead(self) -> None:
        """Before a task is learned: how well is it known already, and how well without any training?"""
        if self.task == 0:
            self.untrained = np.stack([self._accuracy(j, after=j) for j in range(len(self.stream.tasks))], 1)
            self.before = self.untrained.copy()
        else:
            self.before[:, self.task] = self._accuracy(self.task, after=self.task)

    def _accuracy(self, task: int, after: int) -> Array:
        return 100 * accuracy(self.learner, self.stream, task, after, self.part)

    def _batches(self, task: TaskData) -> tuple[Tensor, ...]:
        """Index batches (R, B) of the epoch that are still to come: every run in its own order."""
        if not self.learner.takes_steps:
            return ()
        if self.order is None:
            self.order_from = self.generators.state_dict()["generators"]
            self.order = epoch_of(task, self.batch_size, self.generators.each)
        return self.order[self.batch :]

    def _tally(self, statistics: dict[str, Tensor]) -> None:
        """Add a step's sums to its epoch's; nobody looks at them before the end."""
        for name in SUMMED:
            if name in statistics:
                if name not in self.here:
                    self.here[name] = self._row(name, statistics[name])
                self.here[name].add_(statistics[name])

    def _row(self, name: str, like: Tensor) -> Tensor:
        """Where the sums of the epoch under way stand."""
        if name not in self.sums:
            epochs = len(self.stream.tasks) * self.epochs
            self.sums[name] = like.new_zeros(epochs, *like.shape, dtype=torch.float64)
        return self.sums[name][self.task * self.epochs + self.epoch]

    def _unsettled(self) -> Array | None:
        """(R, T): share of the samples of each task whose equilibrium was not found."""
        if "unsettled" not in self.sums:
            return None
        T = len(self.stream.tasks)
        total = self.sums["unsettled"].reshape(T, self.epochs, -1).sum(1).T.cpu().numpy()
        return np.asarray(total / [self.epochs * len(self._data(t).shown) for t in range(T)])

    def _effort(self) -> tuple[Array | None, Effort | None]:
        """The share of unsettled samples in the whole training, (R,), and how control went in each epoch."""
        if "unsettled" not in self.sums:
            return None, None
        sums = {name: value.transpose(0, 1).cpu().numpy() for name, value in self.sums.items()}
        data = [self._data(t) for t in range(len(self.stream.tasks))]
        samples = np.repeat([len(task.shown) for task in data], self.epochs)
        unsettled = sums["unsettled"]
        share = unsettled.sum(1) / samples.sum()
        if "effort" not in sums:
            return share, None
        counted = samples - sums.get("lost", 0)
        norms = sums["effort"] / np.where(counted > 0, counted, np.nan).reshape(-1, len(samples), 1)
        psi, gamma = np.split(norms, 2, axis=2)
        task, epoch = (1 + np.indices((len(data), self.epochs), dtype=np.int64)).reshape(2, -1)
        return share, Effort(task, epoch, psi, gamma, unsettled / samples)

    def result(self) -> TrainingResult:
        """What was achieved, once it is finished."""
        counts = confusion(self.learner, self.stream, self.part)
        samples = sum(len(task.parts[self.part].y) for task in self.stream.tasks)
        finite = torch.isfinite(self.learner.theta).all(1).cpu().numpy() & (counts.sum((1, 2)) == samples)
        share, effort = self._effort()
        return TrainingResult(
            accuracy_matrix=self.A,
            before=self.before,
            untrained=self.untrained,
            confusion=counts,
            unsettled=share,
            seconds=self.seconds,
            diverged=np.flatnonzero(~finite).tolist(),
            effort=effort,
            findings=self.watch.findings(self._unsettled(), counts, ~finite),
            diagnoses=None if self.examination is None else self.examination.diagnoses(self.A[:, -1], counts),
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Everything, as plain tensors; the order of an epoch under way is drawn again from where it was drawn."""
        generators = self.generators.state_dict()["generators"] if self.order is None else self.order_from
        own = {
            "position": torch.tensor([self.task, self.epoch, self.batch, int(self.begun)]),
            "seconds": torch.tensor(self.seconds, dtype=torch.float64),
            "generators": generators,
            "accuracy_matrix": torch.as_tensor(self.A),
            "before": torch.as_tensor(self.before),
            "untrained": torch.as_tensor(self.untrained),
        }
        own |= {f"watch.{key}": value for key, value in self.watch.state_dict().items()}
        own |= {f"sums.{key}": value for key, value in self.sums.items()}
        if self.examination is not None:
            own |= {f"examination.{key}": value for key, value in self.examination.state_dict().items()}
        return own | {f"learner.{key}": value for key, value in self.learner.state_dict().items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over a state of a training that was made with the same arguments."""
        self.learner.load_state_dict(_below("learner.", state))
        self.task, self.epoch, self.batch, begun = state["position"].tolist()
        self.begun, self.seconds = bool(begun), float(state["seconds"])
        self.order = None
        self.generators.load_state_dict({"generators": state["generators"]})
        self.A, self.before, self.untrained = (
            state[name].cpu().numpy().copy() for name in ("accuracy_matrix", "before", "untrained")
        )
        self.watch.load_state_dict(_below("watch.", state))
        if self.examination is not None:
            self.examination.load_state_dict(_below("examination.", state))
        device, self.here = self.learner.theta.device, {}
        self.sums = {key: value.to(device, copy=True) for key, value in _below("sums.", state).items()}


def _below(prefix: str, state: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}


@contextmanager
def few_threads(learner: Learner, batch_size: int) -> Iterator[None]:
    """Train with a single thread where more would not pay."""
    # Units that are silent for long let Adam's moments decay into denormals, which are many times slower on a CPU.
    torch.set_flush_denormal(True)
    threads = torch.get_num_threads()
    if learner.runs * batch_size * max(W.shape[1] * W.shape[2] for W in learner.layers.weights) < SMALL:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
