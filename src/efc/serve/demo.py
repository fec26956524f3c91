"""The demonstration: embedded digits, of which two are known at the beginning; whoever looks teaches the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from efc.data import digits
from efc.errors import EFCError, shown
from efc.files import Json
from efc.serve.answers import Answers
from efc.serve.samples import Inputs, Label

SIDE, MAXIMUM = 8, 16
FIRST = (0, 1)
"""The digits that are known at the beginning."""
BEGINNING = 66
"""Samples of each: past 128 in all, where learners begin afresh (``Arrivals``) and would hide what a new digit does."""
LESSON = 100
"""Samples of a lesson, at most."""


class Lessons:
    """Training digits, class by class, and held-out ones that tell what is known."""

    features = SIDE * SIDE

    def __init__(self) -> None:
        data = digits.load()
        x = np.rint(data.x_train * float(MAXIMUM)).astype(np.float64)
        self.of: dict[int, Inputs] = {k: x[data.y_train == k] for k in range(len(digits.CLASSES))}
        self.x_test = np.rint(data.x_test * float(MAXIMUM)).astype(np.float64)
        self.y_test = data.y_test
        self.given = dict.fromkeys(self.of, 0)

    def beginning(self) -> Iterator[tuple[Inputs, list[Label]]]:
        """Small batches of the first digits, in turn."""
        for _ in range(BEGINNING):
            x, y = zip(*(self.next(k, 1) for k in FIRST), strict=True)
            yield np.concatenate(x), [label for one in y for label in one]

    def next(self, label: int, samples: int) -> tuple[Inputs, list[Label]]:
        """The next samples of a digit."""
        at = self.given[label]
        x = self.of[label][at : at + samples]
        if not len(x):
            raise EFCError(f"label: all {at} lessons of the digit {label} have been given; draw one yourself")
        self.given[label] = at + len(x)
        return x, [label] * len(x)

    def asked(self, body: Mapping[str, object]) -> tuple[Inputs, list[Label]]:
        """What a request asks for."""
        label, samples = body.get("label"), body.get("samples", 10)
        if type(label) is not int or label not in self.of:
            raise EFCError(f"label: expected a digit from 0 to 9, got {shown(label)}")
        if type(samples) is not int or not 1 <= samples <= LESSON:
            raise EFCError(f"samples: expected a whole number from 1 to {LESSON}, got {shown(samples)}")
        return self.next(label, samples)

    def go_on(self, counts: Mapping[Label, int]) -> None:
        """Begin where an earlier service ended: a digit's samples that were learned are not given again."""
        for label, given in self.given.items():
            self.given[label] = min(len(self.of[label]), max(given, counts.get(label, 0)))

    def left(self) -> dict[str, int]:
        return {str(label): len(x) - self.given[label] for label, x in self.of.items()}

    def held_out(self, seen: int, pupil: Answers, beside: Answers | None) -> dict[str, Json]:
        """The accuracy on each held-out digit."""
        found: dict[str, Json] = {"seen": seen, "efc": self._accuracies(pupil)}
        return found if beside is None else found | {"beside": self._accuracies(beside)}

    def _accuracies(self, answers: Answers) -> dict[str, Json]:
        told = answers.labels(answers.probabilities(self.x_test))
        right = np.array([a == int(b) for a, b in zip(told, self.y_test, strict=True)])
        return {str(k): round(float(right[self.y_test == k].mean()), 4) for k in self.of}
