"""One learner of a service: it takes batches in their order, is measured, and can be put back to where it was."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch

from efc.classifiers.estimators import ContinualClassifier, EFCClassifier
from efc.classifiers.file_format import read, shorten
from efc.errors import EFCError
from efc.files import Json
from efc.plugins import named_code, untrusted
from efc.serve.answers import Answers
from efc.serve.effort import effort_of
from efc.serve.journal import Record
from efc.serve.measures import Effort, Measures
from efc.serve.samples import WHOLE, Inputs, Label
from efc.training.diagnosis import Finding

Estimator: TypeAlias = EFCClassifier | ContinualClassifier
KINDS: tuple[type[Estimator], ...] = (EFCClassifier, ContinualClassifier)
EVERY = 32
"""Batches between two copies that a failed batch is undone with."""
REMEDY = "if you trust whoever made it, pass --trust, or name it yourself with --method or --beside"
_NO_MEMORY = re.compile("allocate memory|enough memory")


class Pupil:
    """A classifier in stream mode, its measures, and the number of the last batch that it was given.

    A batch that fails (diverged weights, a singular system) is skipped: the learner is put back to where it was before
    it. What it knows depends on the batches in their order alone, so a replay of them ends in the same bits.

    Args:
        estimator: learned or not; it is taken over.
        measures: those of what it has learned so far.
        sequence: the last batch that it has been given.
    """

    def __init__(self, estimator: Estimator, measures: Measures | None = None, sequence: int = 0) -> None:
        self.estimator = estimator
        self.measures = measures or Measures()
        self.sequence = sequence
        self.spare, self.since = fork(estimator), list[Record]()

    @property
    def method(self) -> str:
        return self.estimator._method()

    @property
    def met(self) -> list[Label]:
        """The labels in the order of the outputs."""
        return list(self.estimator._met.tolist()) if hasattr(self.estimator, "model_") else []

    def learn(self, record: Record) -> None:
        """Answer a batch, then learn it. One that fails is counted and skipped."""
        try:
            told = self._answers(record.x)
            effort = self._effort(record)
            found = teach(self.estimator, record)
        except Exception as problem:  # whatever torch says of weights that are no numbers any more
            if isinstance(problem, MemoryError) or _NO_MEMORY.search(str(problem)):
                raise  # a replay would not meet it again
            self._undo()
            self.measures.failed += 1
            self.measures.failure = f"batch {record.sequence}: {shorten(str(problem), 300)}"
        else:
            self.measures.note(record.labels, told, effort)
            self.measures.remark(found, record.sequence)
            self.since.append(record)
            if len(self.since) == EVERY:
                self.spare, self.since = fork(self.estimator), []
        self.sequence = record.sequence

    def _undo(self) -> None:
        self.estimator = fork(self.spare)
        for record in self.since:
            teach(self.estimator, record)
        if self.since:  # the next one that fails costs less
            self.spare, self.since = fork(self.estimator), []

    @torch.no_grad()
    def _answers(self, x: Inputs) -> Sequence[Label | None]:
        """What the learner itself says, as it stands: a copy that is brought up to date says more, at another time."""
        met = self.met
        if not met:
            return [None] * len(x)
        z = self.estimator.model_.exact_logits(torch.from_numpy(x))
        return [met[k] for k in z.argmax(1).tolist()]

    def _effort(self, record: Record) -> Effort | None:
        output = {label: k for k, label in enumerate(self.met)}
        at = [k for k, label in enumerate(record.labels) if label in output]
        if not at:
            return None
        outputs = torch.tensor([output[record.labels[k]] for k in at])
        return effort_of(self.estimator.model_, torch.from_numpy(record.x[at]), outputs)

    def answers(self) -> Answers:
        """A copy that answers for all that was learned so far."""
        met = self.met
        if not met:
            return Answers(None, [], torch.zeros(0, dtype=torch.long), 0)
        growing = self.estimator.model_.fork()
        growing.settle()
        order = sorted(range(len(met)), key=met.__getitem__)
        return Answers(growing, [met[k] for k in order], torch.tensor(order), self.measures.seen)

    @property
    def state_bytes(self) -> int:
        """What the learner keeps."""
        learner = self.estimator.model_.learner if self.met else None
        return 0 if learner is None else sum(t.numel() * t.element_size() for t in learner.state_dict().values())

    def save(self, path: Path, journal: str) -> None:
        """One file: the classifier, as ``load`` of the estimators reads it, and what the service has to know."""
        note: dict[str, Json] = {"journal": journal, "sequence": self.sequence, "measures": self.measures.to_json()}
        self.estimator.save(path, note)

    @classmethod
    def load(cls, path: Path, trust: bool = False, names: Collection[str] = ()) -> tuple[Pupil, str]:
        """A pupil, and the journal that its batches came from; empty if it never served.

        Code of someone's own is imported if the file is trusted, or if it is among the ``names`` that were typed.
        """
        about = read(path)[1]
        parameters = about.get("parameters")
        if isinstance(parameters, Mapping):
            wanted = list(named_code([parameters.get("method"), parameters.get("options")]))
            trust = trust or check_names(path, wanted, names)
        kind = next((kind for kind in KINDS if kind.__name__ == about.get("estimator")), EFCClassifier)
        estimator = kind.load(path, device="cpu", trust=trust)
        if estimator.mode != "stream":
            raise EFCError(f"{path}: this classifier learns tasks; `efc serve` needs one with mode='stream'")
        note = about.get("note")
        if note is None:
            return cls(estimator), ""
        try:
            measures, sequence, journal = Measures.from_json(note["measures"]), note["sequence"], note["journal"]
            if type(sequence) is not int or not 0 <= sequence <= WHOLE or not isinstance(journal, str):
                raise ValueError("sequence and journal")
            if set(measures.tallies) - set(estimator._met.tolist()):
                raise ValueError("labels that were not met")
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as problem:
            told = shorten(repr(problem), 200)
            raise EFCError(f"{path}: what the service noted in it cannot be read ({told})") from None
        return cls(estimator, measures, sequence), journal


def check_names(path: Path, wanted: Collection[str], names: Collection[str]) -> bool:
    """Refuse names of code, out of a file, that were not typed."""
    for name in wanted:
        if name not in names:
            raise untrusted(f"{path}: this file", name, REMEDY)
    return True


def teach(estimator: Estimator, record: Record) -> list[Finding]:
    """Learn a batch; returns what looks wrong.

    Nothing depends on what the process makes of others' warnings: a replay elsewhere has to end in the same bits.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.learned(record.x, np.array(record.labels))


def fork(estimator: Estimator) -> Estimator:
    """Another that goes on alike, bit for bit."""
    found = object.__new__(type(estimator))
    found.__dict__ = dict(estimator.__dict__)
    if hasattr(estimator, "model_"):
        found.model_ = estimator.model_.fork()
    return found


def begun(method: str, hidden: tuple[int, ...], head: str | None, seed: int) -> Estimator:
    """A classifier that has learned nothing yet."""
    if method == "efc":
        return EFCClassifier(hidden_layer_sizes=hidden, head=head, random_state=seed, mode="stream")
    return ContinualClassifier(method, hidden_layer_sizes=hidden, head=head, random_state=seed, mode="stream")
