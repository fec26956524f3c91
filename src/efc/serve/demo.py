"""The demonstration: embedded digits, of which two are known at the beginning; whoever looks teaches the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Lesson:
    """Samples of one digit, and which of its training samples they are."""

    label: int
    x: Inputs
    numbers: Sequence[int]

    @property
    def labels(self) -> list[Label]:
        return [self.label] * len(self.numbers)


class Lessons:
    """Training digits, class by class, and held-out ones that tell what is known."""

    features = SIDE * SIDE

    def __init__(self) -> None:
        data = digits.load()
        x = np.rint(data.x_train * float(MAXIMUM)).astype(np.float64)
        self.of: dict[int, Inputs] = {k: x[data.y_train == k] for k in range(len(digits.CLASSES))}
        self.x_test = np.rint(data.x_test * float(MAXIMUM)).astype(np.float64)
        self.y_test = data.y_test
        self.rest: dict[int, list[int]] = {label: list(range(len(own))) for label, own in self.of.items()}
        """The numbers of the samples that have not been given, in their order."""

    def given(self, label: int) -> int:
        """How many samples of a digit have been given."""
        return len(self.of[label]) - len(self.rest[label])

    @staticmethod
    def under_way(counts: Mapping[Label, int]) -> bool:
        """Whether all that was learned, so many samples of each class, is of the beginning."""
        return counts.keys() <= set(FIRST) and all(count <= BEGINNING for count in counts.values())

    def beginning(self) -> Iterator[tuple[Inputs, list[Label]]]:
        """Small batches of the first digits, in turn; without those that were given before."""
        for turn in range(BEGINNING):
            now = [self.next(label, 1) for label in FIRST if self.given(label) <= turn]
            if now:
                yield np.concatenate([one.x for one in now]), [one.label for one in now]

    def next(self, label: int, samples: int) -> Lesson:
        """The next samples of a digit."""
        taken, self.rest[label] = self.rest[label][:samples], self.rest[label][samples:]
        if not taken:
            told = f"all {len(self.of[label])} lessons of the digit {label} have been given"
            raise EFCError(f"label: {told}; draw one yourself")
        return Lesson(label, self.of[label][taken], taken)

    def take_back(self, lesson: Lesson) -> None:
        """It was not accepted: its samples come again."""
        self.rest[lesson.label] = sorted([*self.rest[lesson.label], *lesson.numbers])

    def asked(self, body: Mapping[str, object], most: int = LESSON) -> Lesson:
        """What a request asks for, or as much of it as there may be at a time."""
        label, samples = body.get("label"), body.get("samples", 10)
        if type(label) is not int or label not in self.of:
            raise EFCError(f"label: expected a digit from 0 to 9, got {shown(label)}")
        if type(samples) is not int or not 1 <= samples <= LESSON:
            raise EFCError(f"samples: expected a whole number from 1 to {LESSON}, got {shown(samples)}")
        return self.next(label, min(samples, most))

    def go_on(self, counts: Mapping[Label, int]) -> None:
        """Begin where an earlier service ended: a digit's samples that were learned are not given again."""
        for label, rest in self.rest.items():
            self.rest[label] = rest[max(0, counts.get(label, 0) - self.given(label)) :]

    def left(self) -> dict[str, int]:
        return {str(label): len(rest) for label, rest in self.rest.items()}

    def held_out(self, seen: int, pupil: Answers, beside: Answers | None) -> dict[str, Json]:
        """The accuracy on each held-out digit."""
        found: dict[str, Json] = {"seen": seen, "efc": self._accuracies(pupil)}
        return found if beside is None else found | {"beside": self._accuracies(beside)}

    def _accuracies(self, answers: Answers) -> dict[str, Json]:
        told = answers.labels(answers.probabilities(self.x_test))
        right = np.array([a == int(b) for a, b in zip(told, self.y_test, strict=True)])
        return {str(k): round(float(right[self.y_test == k].mean()), 4) for k in self.of}
