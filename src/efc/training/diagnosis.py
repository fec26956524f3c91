"""What is known of a task when it has been learned: the facts, and a sentence for everything that looks wrong."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from efc.errors import EFCWarning

FEW = 5
"""Samples of a class below which little can be expected of it."""
PIECE = 0.2
"""A call that brings less than this share of what its classes have brought before looks like a mini-batch."""
ASKED = 2000
"""Training samples of a task that are asked about after it."""
FAR = 10.0
"""How many times as far from the middle as anything that was learned from an input is called far."""


@dataclass(frozen=True)
class Finding:
    """Something that looks wrong."""

    kind: str
    """One word, the same for everything that is wrong in the same way."""
    text: str
    task: int | None = None
    """Counted from 0; None: at the end, of all tasks."""

    def of_task(self, task: int) -> Finding:
        return replace(self, task=task)


@dataclass(frozen=True)
class TaskFacts:
    """What is known of a task when it has been learned. Outputs are numbered as in the head."""

    samples: Mapping[int, int]
    """How many there were of each output."""
    before: Mapping[int, int]
    """How many of these outputs there had been before."""
    unsettled: float | None
    """The share of samples without equilibrium; None for a method that has none."""
    accuracy: float
    """On the task's own training data, among the task's own outputs."""
    recall: float
    """The same, as a mean over these outputs: of one that answers the largest class alone it is no better than chance,
    however large that class is."""
    never: Sequence[int]
    """Outputs of the task that are never answered, not even on its own training data."""


def facts(samples: Tensor, before: Tensor, unsettled: float | None, answers: Answers) -> TaskFacts:
    """From counts by output, (outputs,) each, and the answers to some of the task's samples."""
    own = samples.nonzero().flatten().tolist()
    return TaskFacts(
        samples={k: int(samples[k]) for k in own},
        before={k: int(before[k]) for k in own},
        unsettled=unsettled,
        accuracy=answers.accuracy,
        recall=answers.recall,
        never=[k for k in own if answers.left_out[k]],
    )


@dataclass(frozen=True)
class Answers:
    """How a task's own training samples are answered."""

    accuracy: float
    """Among the task's own outputs."""
    recall: float
    """The same, as a mean over these outputs."""
    left_out: Tensor
    """(outputs,): whether an output was asked about and never answered."""


def answers(z: Tensor, y: Tensor, first: int = 0) -> list[Answers]:
    """One per run, from logits z (R, n, C) of the outputs from ``first`` on, and the true outputs y (n,)."""
    own = torch.unique(y)
    right = (own[z[..., own - first].argmax(-1)] == y).double()
    recalls = torch.stack([right[:, y == k].mean(1) for k in own]).mean(0)
    found = []
    for share, recall, best in zip(right.mean(1).tolist(), recalls.tolist(), z.argmax(-1) + first, strict=True):
        left_out = torch.zeros(first + z.shape[-1], dtype=torch.bool)
        left_out[own.cpu()] = True
        left_out[best.unique().cpu()] = False
        found.append(Answers(share, recall, left_out))
    return found


def findings(given: TaskFacts, names: Sequence[object], task: int) -> list[Finding]:
    """Everything that looks wrong with a task; ``names`` are the labels of the outputs."""
    found = []

    def add(kind: str, text: str) -> None:
        found.append(Finding(kind, text, task))

    if given.unsettled is not None and given.unsettled > 0.05:
        share = f"{100 * given.unsettled:.0f} % of the samples found no equilibrium"
        advice = "try a smaller gain (kappa 0.03), or, for strong feedback, solver newton with activation smooth_relu"
        add("unsettled", f"{share}; {advice}")
    few = [k for k, n in given.samples.items() if n + given.before[k] < FEW]
    if few:
        add("few", f"fewer than {FEW} samples of class {_told(few, names)}: expect little of it")
    piece = [k for k, n in given.samples.items() if given.before[k] > 0 and n < PIECE * given.before[k]]
    if piece and len(piece) == len(given.samples):
        brings = f"this call brings {sum(given.samples.values())} samples of classes that had brought"
        advice = "a call is a task, not a mini-batch: gather the data and give them at once, or use mode='stream'"
        add("piece", f"{brings} {sum(given.before.values())} before; {advice}")
    chance = 1 / len(given.samples)
    if len(given.samples) > 1 and given.recall < chance + 0.1 * (1 - chance):
        add(
            "idle",
            f"nothing was learned of this task: {100 * given.recall:.0f} % right on its own training data, as a mean "
            f"over its classes, where chance has {100 * chance:.0f} %; are the inputs standardised, and do they tell "
            "the classes apart?",
        )
    elif given.never:
        add(
            "never",
            f"class {_told(given.never, names)} is never answered, not even on its own training data; "
            "more data of it, or class_weight balanced, may help",
        )
    return found


def left_out(counts: Sequence[float], names: Sequence[object], part: str) -> list[Finding]:
    """Outputs that are never answered at the end, from how often each is answered on the ``part`` data."""
    never = [k for k, count in enumerate(counts) if count == 0]
    if not never:
        return []
    told = f"{len(never)} of {len(names)} classes are never answered on the {part} data after the last task"
    return [Finding("left_out", f"{told}: {_told(never, names)}")]


def at_chance(counts: Sequence[Sequence[float]], chance: float, part: str) -> list[Finding]:
    """Answers at the end that are no better than a guess, from counts (true outputs by rows), as a mean over these."""
    shown = [(sum(row), row[k]) for k, row in enumerate(counts)]
    recalls = [right / n for n, right in shown if n > 0]
    recall = sum(recalls) / len(recalls) if recalls else 0.0
    if len(recalls) < 2 or recall > 1.25 * chance:
        return []
    told = f"{100 * recall:.0f} % right on the {part} data after the last task, as a mean over the classes"
    return [Finding("chance", f"{told}, where chance has {100 * chance:.0f} %: no result to rely on")]


def far(distances: Tensor) -> list[Finding]:
    """From how far inputs lie from the middle of what was learned from, (N,), whose farthest value is one."""
    share = float((distances > FAR).double().mean()) if len(distances) else 0.0
    if share <= 0.05:
        return []
    told = f"{100 * share:.0f} % of the samples have a feature more than {FAR:.0f} times as far out as any learned from"
    return [Finding("far", f"{told}; are they in the same units?")]


DIVERGED = Finding("diverged", "training diverged, and all answers count as wrong; lower the learning rate")


TAKEN_BACK = Finding("lost", "training diverged, and what it had changed was taken back; lower the learning rate")


def summary(each: Sequence[Sequence[Finding]]) -> list[str]:
    """What was found in several runs of one setting, a sentence for each kind."""
    kinds: dict[str, list[tuple[int, Finding]]] = defaultdict(list)
    for run, found in enumerate(each):
        for one in found:
            kinds[one.kind].append((run, one))
    sentences = []
    for alike in kinds.values():
        first = alike[0][1]
        tasks, runs = {one.task for _, one in alike}, {run for run, _ in alike}
        where = "" if first.task is None else f"task {first.task + 1}: "
        others = len(tasks) - 1
        further = f" (also in {others} other task{'s' * (others > 1)})" if others else ""
        seeds = f" [{len(runs)} of {len(each)} seeds]" if len(each) > 1 else ""
        sentences.append(f"{where}{first.text}{further}{seeds}")
    return sentences


def warn(found: Sequence[Finding], stacklevel: int = 3) -> None:
    """Say it where nobody reads results."""
    for one in found:
        where = "" if one.task is None else f"task {one.task}: "
        warnings.warn(where + one.text, EFCWarning, stacklevel=stacklevel)


def subset(n: int) -> Tensor:
    """Which of a task's samples are asked about."""
    return torch.arange(n) if n <= ASKED else torch.linspace(0, n - 1, ASKED).round().long()


def _told(outputs: Sequence[int], names: Sequence[object]) -> str:
    listed = ", ".join(repr(names[k]) for k in outputs[:5])
    return listed + (f" and {len(outputs) - 5} more" if len(outputs) > 5 else "")
