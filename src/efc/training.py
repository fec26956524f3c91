"""Training a learner on a stream: batches with a run axis, evaluation after every task."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from efc.errors import EFCError, choose
from efc.learners.base import CHUNK, Learner
from efc.metrics import Array
from efc.streams.split import Stream

EVALUATED = ("test", "validation")
SMALL = 10_000_000
"""Multiplications in a step's largest matrix product below which a second thread gains little on an idle CPU (a fifth,
for the digits) and costs much on a busy one."""


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
    """Runs whose weights are no longer finite."""


Progress = Callable[[int, int, int], None]
"""Called after every epoch with (task, epoch, epochs), counted from 1."""


def train(
    learner: Learner,
    stream: Stream,
    epochs: int = 20,
    batch_size: int = 32,
    evaluate: str = "test",
    progress: Progress | None = None,
) -> TrainingResult:
    """Train on task after task; measure on the ``test`` (or ``validation``) part of all tasks met so far after each."""
    if epochs < 1 or batch_size < 1:
        raise EFCError(f"epochs, batch_size: must be at least 1, got {epochs} and {batch_size}")
    choose("evaluate", evaluate, EVALUATED)
    # Units that are silent for long let Adam's moments decay into denormals, which are many times slower on a CPU.
    torch.set_flush_denormal(True)
    threads = torch.get_num_threads()
    if _largest_product(learner, batch_size) < SMALL:
        torch.set_num_threads(1)
    try:
        return _train(learner, stream, epochs, batch_size, evaluate, progress)
    finally:
        torch.set_num_threads(threads)


def _largest_product(learner: Learner, batch_size: int) -> int:
    return learner.runs * batch_size * max(W.shape[1] * W.shape[2] for W in learner.layers.weights)


def _train(
    learner: Learner, stream: Stream, epochs: int, batch_size: int, evaluate: str, progress: Progress | None
) -> TrainingResult:
    began = time.perf_counter()
    generators = [torch.Generator().manual_seed(1_000_003 * seed + 1) for seed in learner.seeds]
    T = len(stream.tasks)
    A = np.full((learner.runs, T, T), np.nan)
    untrained = np.stack([100 * accuracy(learner, stream, j, after=j, part=evaluate) for j in range(T)], 1)
    before = untrained.copy()
    tally = _Tally(learner.runs)
    for i in range(T):
        if i > 0:
            before[:, i] = 100 * accuracy(learner, stream, i, after=i, part=evaluate)
        task = stream.data(i, steps=0, joint=learner.joint)
        task = replace(task, steps=epochs * -(-len(task.y) // batch_size))
        learner.begin_task(task)
        for epoch in range(epochs):
            if learner.takes_steps:
                for index in shuffled(len(task.y), batch_size, generators, task.y.device):
                    tally.add(learner.step(task.x[index], task.y[index]), index.shape[1])
            if progress is not None:
                progress(i + 1, epoch + 1, epochs)
        learner.end_task(task)
        for j in range(i + 1):
            A[:, i, j] = 100 * accuracy(learner, stream, j, after=i, part=evaluate)
    finite = torch.isfinite(learner.theta).all(1).tolist()
    return TrainingResult(
        accuracy_matrix=A,
        before=before,
        untrained=untrained,
        confusion=confusion(learner, stream, evaluate),
        unsettled=tally.share(),
        seconds=time.perf_counter() - began,
        diverged=[run for run, ok in enumerate(finite) if not ok],
    )


def shuffled(n: int, batch_size: int, generators: Sequence[torch.Generator], device: torch.device) -> Iterator[Tensor]:
    """Index batches (R, B) of one epoch: every run in its own order, drawn from its own generator."""
    order = torch.stack([torch.randperm(n, generator=generator) for generator in generators]).to(device)
    yield from order.split(batch_size, dim=1)


def predictions(learner: Learner, stream: Stream, task: int, after: int, part: str) -> Iterator[tuple[Tensor, Tensor]]:
    """(predicted outputs (R, B), true outputs (B,)) in chunks; a run that is not finite predicts -1, which is wrong."""
    data, classes = stream.tasks[task].parts[part], stream.active(task, after)
    for x, y in zip(data.x.split(CHUNK), data.y.split(CHUNK), strict=True):
        z = learner.logits(x, classes)
        yield torch.where(torch.isfinite(z).all(-1), classes.start + z.argmax(-1), -1), y


def accuracy(learner: Learner, stream: Stream, task: int, after: int, part: str) -> Array:
    """(R,): share of right predictions on one task."""
    hits = torch.zeros(learner.runs, dtype=torch.float64)
    n = 0
    for predicted, y in predictions(learner, stream, task, after, part):
        hits += (predicted == y).sum(1).cpu()
        n += len(y)
    if n == 0:
        raise EFCError(f"evaluate: task {task} has no {part} samples")
    return (hits / n).numpy()


def confusion(learner: Learner, stream: Stream, part: str) -> Array:
    """(R, outputs, outputs): counts over all tasks after the last one, true outputs by rows."""
    K = stream.n_outputs
    counts = torch.zeros(learner.runs, K, K + 1, dtype=torch.float64)
    runs = torch.arange(learner.runs).unsqueeze(1)
    for j in range(len(stream.tasks)):
        for predicted, y in predictions(learner, stream, j, len(stream.tasks) - 1, part):
            # Column K collects what a diverged run (-1) did not answer; it is cut off below.
            column = torch.where(predicted < 0, K, predicted).cpu()
            where = (runs.expand_as(column), y.cpu().expand_as(column), column)
            counts.index_put_(where, torch.ones_like(column, dtype=torch.float64), accumulate=True)
    return counts[..., :K].numpy()


class _Tally:
    """Adds up how many of the samples trained on did not settle."""

    def __init__(self, runs: int) -> None:
        self.unsettled: Tensor | None = None
        self.samples = 0

    def add(self, statistics: dict[str, Tensor], samples: int) -> None:
        if "unsettled" in statistics:
            new = statistics["unsettled"]
            self.unsettled = new if self.unsettled is None else self.unsettled + new
            self.samples += samples

    def share(self) -> Array | None:
        return None if self.unsettled is None else (self.unsettled.double() / self.samples).cpu().numpy()
