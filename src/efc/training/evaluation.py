"""Measuring a learner on the parts of a stream."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from efc.errors import EFCError
from efc.learners.base import CHUNK, Learner
from efc.metrics import Array
from efc.streams.split import Stream

EVALUATED = ("test", "validation")


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
