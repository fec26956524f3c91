"""The copy of a learner that answers: nothing changes in it, so predictions go on while the learner learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from efc.classifiers.growing import LARGEST, Growing
from efc.errors import EFCError
from efc.serve.samples import Inputs, Label


@dataclass(frozen=True)
class Answers:
    """What a learner knew at one moment.

    Args:
        growing: a settled fork of the learner's own; None before anything was learned.
        classes: the labels, sorted.
        order: which output each of them has.
        seen: how many samples had been learned.
    """

    growing: Growing | None
    classes: Sequence[Label]
    order: Tensor
    seen: int

    @torch.no_grad()
    def probabilities(self, x: Inputs) -> Tensor:
        """(N, classes), columns as in ``classes``."""
        if self.growing is None:
            return torch.zeros(len(x), 0, dtype=torch.float64)
        z = self.growing.exact_logits(torch.from_numpy(x))[:, self.order]
        if not bool((z.abs() < LARGEST).all()):
            raise EFCError("inputs: some outputs are not finite; the inputs are too large for this network")
        return self.growing.probabilities(z)

    def labels(self, probabilities: Tensor) -> list[Label | None]:
        """The likeliest label of each sample."""
        if not self.classes:
            return [None] * len(probabilities)
        return [self.classes[k] for k in probabilities.argmax(1).tolist()]
