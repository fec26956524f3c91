"""How well a service did so far: every sample is answered before it is learned. Flat in memory, the same on replay."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from efc.errors import shown
from efc.files import Json
from efc.serve.samples import WHOLE, Document, Label, check_kind, label_of
from efc.training.diagnosis import Finding

RECENT, RECENT_OF_CLASS = 200, 100
"""Samples that count as recent."""
POINTS = 500
"""Points of the history, at most."""
MEMORY = 50
"""Samples that the running mean of the effort is about."""
LONGEST = 1000
"""Characters of a remark."""
CURVES = 32
"""Classes that have a curve of their own: the first that were met."""


@dataclass
class Tally:
    """What became of a class's samples."""

    count: int = 0
    answered: int = 0
    right: int = 0
    recent: deque[bool] = field(default_factory=lambda: deque(maxlen=RECENT_OF_CLASS))

    @property
    def accuracy(self) -> float | None:
        """Of the recent samples."""
        return share(self.recent)


@dataclass(frozen=True)
class Point:
    """The measures at one moment."""

    seen: int
    recent: float | None
    psi: list[float] | None
    gamma: list[float] | None
    per_class: dict[str, float]


@dataclass(frozen=True)
class Effort:
    """The mean norms of the control signals psi and of the preservation signals gamma, layer by layer."""

    psi: list[float]
    gamma: list[float]

    @property
    def finite(self) -> bool:
        """Whether all are numbers: with inputs as large as are taken they may overflow."""
        return all(map(math.isfinite, (*self.psi, *self.gamma)))

    def moved(self, new: Effort, samples: int) -> Effort:
        """The running mean, which forgets within some ``MEMORY`` samples."""
        share = 1 - math.exp(-samples / MEMORY)
        both = ((self.psi, new.psi), (self.gamma, new.gamma))
        psi, gamma = ([float(f"{a + share * (b - a):.4g}") for a, b in zip(*pair, strict=True)] for pair in both)
        return Effort(psi, gamma)


@dataclass
class Remark:
    """What looked wrong with some batches, as it was said of the last of them."""

    kind: str
    text: str
    batches: int
    """How many."""
    sequence: int
    """The last one."""
    seen: int
    """Samples up to then."""


class Measures:
    """Counts, recent answers and a thinned history of one learner."""

    def __init__(self) -> None:
        self.seen = self.right = 0
        self.recent: deque[bool] = deque(maxlen=RECENT)
        self.tallies: dict[Label, Tally] = {}
        self.points: list[Point] = []
        self.stride = 1
        """Samples between two points; doubled whenever there are too many."""
        self.effort: Effort | None = None
        self.failed = 0
        self.failure = ""
        """Batches that could not be learned, and what was said of the last one."""
        self.remarks: dict[str, Remark] = {}
        """What looked wrong, each kind once."""

    @property
    def overall(self) -> float | None:
        """The share of all samples that were answered rightly before they were learned."""
        return self.right / self.seen if self.seen else None

    def note(self, labels: Sequence[Label], answers: Sequence[Label | None], effort: Effort | None) -> None:
        """A batch that has been learned, and what had been answered before."""
        for label, answer in zip(labels, answers, strict=True):
            hit = label == answer
            tally = self.tallies.setdefault(label, Tally())
            tally.count += 1
            tally.answered += answer is not None
            tally.right += hit
            tally.recent.append(hit)
            self.recent.append(hit)
            self.right += hit
        self.seen += len(labels)
        if effort is not None and effort.finite:
            self.effort = effort if self.effort is None else self.effort.moved(effort, len(labels))
        if not self.points or self.seen >= self.points[-1].seen + self.stride:
            self._add_point()

    def remark(self, found: Sequence[Finding], sequence: int) -> None:
        """What looks wrong with the batch of this number, which has been noted."""
        for one in found:
            before = self.remarks.get(one.kind)
            batches = 1 if before is None else before.batches + 1
            self.remarks[one.kind] = Remark(one.kind, one.text, batches, sequence, self.seen)

    def _add_point(self) -> None:
        curves = list(self.tallies.items())[:CURVES]
        per_class = {str(label): round(t.accuracy, 4) for label, t in curves if t.accuracy is not None}
        psi, gamma = (None, None) if self.effort is None else (self.effort.psi, self.effort.gamma)
        self.points.append(Point(self.seen, share(self.recent), psi, gamma, per_class))
        if len(self.points) > POINTS:
            self.points = self.points[1::2]
            self.stride *= 2

    def to_json(self) -> dict[str, Json]:
        """All of it, for a file."""
        classes = [
            [label, t.count, t.answered, t.right, "".join("01"[hit] for hit in t.recent)]
            for label, t in self.tallies.items()
        ]
        return {
            "seen": self.seen,
            "right": self.right,
            "recent": "".join("01"[hit] for hit in self.recent),
            "classes": classes,
            "points": [dict(vars(point)) for point in self.points],
            "stride": self.stride,
            "effort": None if self.effort is None else asdict(self.effort),
            "failed": self.failed,
            "failure": self.failure,
            "findings": self.findings,
        }

    @property
    def findings(self) -> list[dict[str, Json]]:
        """The remarks, as they are told."""
        return [dict(vars(one)) for one in self.remarks.values()]

    @classmethod
    def from_json(cls, about: Document) -> Measures:
        """What ``to_json`` wrote; a ValueError, TypeError or KeyError if it is nothing that can have been counted."""
        found = cls()
        found.seen, found.right, found.failed = (_count(about[name]) for name in ("seen", "right", "failed"))
        found.stride, found.failure = max(1, _count(about["stride"])), str(about["failure"])
        found.recent.extend(_hits(about["recent"]))
        for label, count, answered, right, recent in about["classes"]:
            tally = Tally(_count(count), _count(answered), _count(right))
            tally.recent.extend(_hits(recent))
            found.tallies[label_of(label)] = tally
        check_kind(list(found.tallies), next(iter(found.tallies), 0))
        found.points = [_point(point) for point in about["points"]]
        effort = about["effort"]
        found.effort = None if effort is None else Effort(_numbers(effort["psi"]), _numbers(effort["gamma"]))
        if found.effort is not None and len(found.effort.psi) != len(found.effort.gamma):
            raise ValueError("effort")
        for one in about.get("findings", []):  # which older files lack
            remark = _remark(one)
            found.remarks[remark.kind] = remark
        if found.right > found.seen or sum(tally.count for tally in found.tallies.values()) != found.seen:
            raise ValueError("seen")
        return found


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= WHOLE:
        raise ValueError(f"{shown(value)} is no count")
    return value


def _hits(value: object) -> list[bool]:
    if not isinstance(value, str) or value.strip("01"):
        raise ValueError(f"{shown(value)} is no row of answers")
    return [hit == "1" for hit in value]


def _number(value: object) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise ValueError(f"{shown(value)} is no number")
    return value  # type: ignore[return-value]


def _numbers(values: Iterable[object]) -> list[float]:
    return [_number(value) for value in values]


def _point(about: Document) -> Point:
    psi, gamma = (None if about[name] is None else _numbers(about[name]) for name in ("psi", "gamma"))
    recent = None if about["recent"] is None else _number(about["recent"])
    per_class = {str(label): _number(value) for label, value in about["per_class"].items()}
    return Point(_count(about["seen"]), recent, psi, gamma, per_class)


def _remark(about: Document) -> Remark:
    kind, text = about["kind"], about["text"]
    if not isinstance(kind, str) or not re.fullmatch("[a-z_]{1,20}", kind):
        raise ValueError(f"{shown(kind)} is no kind of finding")
    if not isinstance(text, str) or len(text) > LONGEST:
        raise ValueError(f"{shown(text)} is no finding")
    return Remark(kind, text, *(_count(about[name]) for name in ("batches", "sequence", "seen")))


def share(hits: Sequence[bool] | deque[bool]) -> float | None:
    """How many of them are true; None of nothing."""
    return round(sum(hits) / len(hits), 4) if hits else None
