"""What a classifier says of a task it has learned: the facts, and a sentence for everything that looks wrong."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from efc.errors import EFCWarning
from efc.learners.inputs import LIMIT

FEW = 5
"""Samples of a class below which little can be expected of it."""
PIECE = 0.2
"""A call that brings less than this share of what its classes have brought before looks like a mini-batch."""
ASKED = 2000
"""Training samples of a task that are asked about after it."""


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
    never: Sequence[int]
    """Outputs of the task that are never answered, not even on its own training data."""


def facts(samples: Tensor, before: Tensor, unsettled: float | None, z: Tensor, y: Tensor) -> TaskFacts:
    """From counts by output, (outputs,) each, and the logits z (n, outputs) of some of its samples y (n,)."""
    own = samples.nonzero().flatten()
    among = own[z[:, own].argmax(1)]
    answered = set(z.argmax(1).tolist())
    asked = set(y.tolist())
    return TaskFacts(
        samples={int(k): int(samples[k]) for k in own},
        before={int(k): int(before[k]) for k in own},
        unsettled=unsettled,
        accuracy=float((among == y).double().mean()),
        never=[int(k) for k in own if int(k) in asked and int(k) not in answered],
    )


def findings(given: TaskFacts, names: Sequence[object]) -> list[str]:
    """A sentence for everything that looks wrong; ``names`` are the labels of the outputs."""
    found = []

    def told(outputs: Sequence[int]) -> str:
        listed = ", ".join(repr(names[k]) for k in outputs[:5])
        return listed + (f" and {len(outputs) - 5} more" if len(outputs) > 5 else "")

    if given.unsettled is not None and given.unsettled > 0.05:
        found.append(
            f"{100 * given.unsettled:.0f} % of the samples found no equilibrium; "
            "try options={'kappa': 0.03}, or options={'solver': 'newton'}"
        )
    few = [k for k, n in given.samples.items() if n + given.before[k] < FEW]
    if few:
        found.append(f"fewer than {FEW} samples of class {told(few)}: expect little of it")
    piece = [k for k, n in given.samples.items() if given.before[k] > 0 and n < PIECE * given.before[k]]
    if piece and len(piece) == len(given.samples):
        found.append(
            f"this call brings {sum(given.samples.values())} samples of classes that had brought "
            f"{sum(given.before.values())} before; a call is a task, not a mini-batch: gather the data and give them "
            "at once"
        )
    chance = max(given.samples.values()) / sum(given.samples.values())
    several = len(given.samples) > 1
    if several and given.accuracy < chance + 0.1 * (1 - chance):
        found.append(
            f"nothing was learned of this task: {100 * given.accuracy:.0f} % right on its own training data, where the "
            f"largest class alone has {100 * chance:.0f} %; are the inputs standardised, and do they tell the classes "
            "apart?"
        )
    elif given.never:
        found.append(
            f"class {told(given.never)} is never answered, not even on its own training data; "
            "try head='input_compensated', or more data of it"
        )
    return found


def warn(sentences: Sequence[str], task: int) -> None:
    for sentence in sentences:
        warnings.warn(f"task {task}: {sentence}", EFCWarning, stacklevel=3)


def warn_far(far: Tensor) -> None:
    """Inputs whose largest feature lies so many deviations from the mean of what was seen."""
    share = float((far > 2 * LIMIT).double().mean()) if len(far) else 0.0
    if share > 0.05:
        warnings.warn(
            f"{100 * share:.0f} % of the samples have a feature more than {2 * LIMIT:.0f} deviations from what was "
            "learned from; are they in the same units?",
            EFCWarning,
            stacklevel=4,
        )


def subset(n: int) -> Tensor:
    """Which of a task's samples are asked about."""
    return torch.arange(n) if n <= ASKED else torch.linspace(0, n - 1, ASKED).round().long()
