"""The threads behind a service: one brings what was accepted to disk, one learns it in order."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch

from efc.errors import EFCError
from efc.files import Json
from efc.serve.answers import Answers
from efc.serve.journal import Journal, NoRoomError, Record
from efc.serve.labels import Labels
from efc.serve.log import log
from efc.serve.measures import Point
from efc.serve.pupil import Pupil
from efc.serve.samples import Inputs, Label

SHARE = 4.0
"""Between two published copies there is at least so many times the time that one takes."""

T = TypeVar("T")
Told = Callable[[Record | Exception], None]
"""Who waits for a batch to be on disk, or learned."""


@dataclass(frozen=True)
class View:
    """What can be seen of the learners from outside, all of one moment."""

    pupil: Answers
    beside: Answers | None
    state: Mapping[str, Json]
    points: Sequence[Point]
    beside_points: Sequence[Point]
    sequence: int


class QueueFullError(Exception):
    """There is no room in the queue."""


class BrokenError(Exception):
    """Nothing can be accepted any more, and why."""


@dataclass
class Entry:
    """A batch on its way to the journal."""

    x: Inputs
    labels: Sequence[Label]
    accepted: Told
    learned: Told | None


class Teacher:
    """Takes batches, journals them in groups and lets the pupils learn them, one after the other.

    Args:
        pupil: the learner that is served.
        beside: another that is given the same samples.
        journal: where batches are brought to.
        labels: those there are.
        limit: samples that may be on their way.
        publish: makes what is seen from outside.
        due: asked after every batch, with the samples taken in since the start, whether a snapshot is to be taken.
        snapshot: takes one. All three are called in the learner's thread.
        tidy: called there after something large was replaced: learners refer to themselves, and Python looks for such
            garbage rarely.
    """

    def __init__(
        self,
        pupil: Pupil,
        beside: Pupil | None,
        journal: Journal,
        labels: Labels,
        limit: int,
        publish: Callable[[], View],
        due: Callable[[int], bool],
        snapshot: Callable[[], object],
        tidy: Callable[[], object],
    ) -> None:
        self.pupil, self.beside, self.journal, self.labels, self.limit = pupil, beside, journal, labels, limit
        self.publish, self.due, self.snapshot, self.tidy = publish, due, snapshot, tidy
        self.changed = threading.Condition()
        self.entries: deque[Entry] = deque()
        self.records: deque[tuple[Record, Told | None]] = deque()
        self.waiting: list[tuple[Record, Told]] = []
        """Those who wait for a batch to be learned, and seen in the answers."""
        self.asked: list[Callable[[object], None]] = []
        """Those who wait for a snapshot."""
        self.queued = self.taken = 0
        """Samples on their way, and those that were learned or skipped."""
        self.broken = ""
        self.ending = self.journaled = self.stopped = False
        self.view = publish()
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self._journal, self._learn)]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def submit(self, x: Inputs, labels: Sequence[Label], accepted: Told, learned: Told | None = None) -> None:
        """Take a batch in. Another thread tells ``accepted`` when it is on disk, and ``learned`` when it is known."""
        with self.changed:
            if self.broken or self.ending:
                raise BrokenError(self.broken or "the service is about to end")
            self.labels.check(labels)
            if self.queued + len(labels) > self.limit:
                raise QueueFullError
            self.labels.take(labels)
            self.queued += len(labels)
            self.entries.append(Entry(x, labels, accepted, learned))
            self.changed.notify_all()

    def ask_snapshot(self, told: Callable[[object], None]) -> None:
        """Take a snapshot as soon as the batch under way is learned."""
        with self.changed:
            if self.stopped or self.ending:
                raise BrokenError(self.broken or "the service is about to end")
            self.asked.append(told)
            self.changed.notify_all()

    def end(self) -> None:
        """Learn what was accepted, and stop."""
        with self.changed:
            self.ending = True
            self.changed.notify_all()
        for thread in self.threads:
            if thread.is_alive():
                thread.join()

    # -- the journal's thread ----------------------------------------------------------------------------------------

    def _journal(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.entries or self.ending)
                group = list(self.entries)
                self.entries.clear()
                if not group:
                    self.journaled = True
                    self.changed.notify_all()
                    return
            self._write(group)

    def _write(self, group: Sequence[Entry]) -> None:
        try:
            if self.broken:
                raise BrokenError(self.broken)
            records = self.journal.append([(entry.x, entry.labels) for entry in group])
        except Exception as problem:
            if not isinstance(problem, NoRoomError | BrokenError):
                self._break(f"the journal cannot be written ({problem}); restart the service")
                problem = BrokenError(self.broken)
            with self.changed:
                for entry in group:
                    self.queued -= len(entry.labels)
                    self.labels.settle(entry.labels)
            for entry in group:
                _tell(entry.accepted, problem)
            return
        with self.changed:
            stopped = self.stopped  # while the disk was writing
            if not stopped:
                self.records.extend((record, entry.learned) for record, entry in zip(records, group, strict=True))
                self.changed.notify_all()
        for record, entry in zip(records, group, strict=True):
            _tell(entry.accepted, record)
            if stopped and entry.learned is not None:
                _tell(entry.learned, BrokenError(self.broken))

    def _break(self, sentence: str) -> None:
        self.broken = sentence
        log(sentence)

    # -- the learner's thread ----------------------------------------------------------------------------------------

    def _learn(self) -> None:
        torch.set_flush_denormal(True)  # as training does; it is a thread's own setting
        fresh, not_before = True, 0.0
        while True:
            with self.changed:
                patience = None if fresh else max(0.0, not_before - time.monotonic())
                self.changed.wait_for(lambda: self.records or self.asked or self._over(), patience)
                one = self.records.popleft() if self.records else None
                if one is None and fresh and not self.asked and self._over():
                    return
            try:
                if one is not None:
                    self._take(*one)
                    fresh = False
                now = time.monotonic()
                if not fresh and (now >= not_before or (self.waiting and not self.records)):
                    self._show()
                    took = time.monotonic() - now
                    fresh, not_before = True, now + (1 + SHARE) * took
                if self.asked or self.due(self.taken):
                    self._save()
            except Exception as problem:
                self._fail(problem)
                return

    def _over(self) -> bool:
        return self.journaled and not self.records

    def _take(self, record: Record, learned: Told | None) -> None:
        if learned is not None:  # it is told, also if learning fails
            self.waiting.append((record, learned))
        learn(record, self.pupil, self.beside)
        self.taken += len(record.labels)
        with self.changed:
            self.queued -= len(record.labels)
            self.labels.settle(record.labels, self.pupil.measures.tallies)

    def _show(self) -> None:
        self.view = self.publish()
        self.tidy()
        told, self.waiting = self.waiting, []
        for record, learned in told:
            _tell(learned, record)

    def _save(self) -> None:
        with self.changed:
            asked, self.asked = self.asked, []
        try:
            found: object = self.snapshot()
        except EFCError as problem:  # a full disk: the journal has everything
            found = problem
            if not asked:
                log(str(problem))
        for told in asked:
            _tell(told, found)

    def _fail(self, problem: Exception) -> None:
        """Memory ran out, or something that nobody thought of: what was accepted is in the journal."""
        self._break(f"learning has stopped ({problem or type(problem).__name__}); restart the service")
        with self.changed:
            self.stopped = True
            waiting, asked = [one for _, one in self.waiting], self.asked
            waiting += [learned for _, learned in self.records if learned is not None]
            self.waiting, self.asked = [], []
        for told in waiting:
            _tell(told, BrokenError(self.broken))
        for one in asked:
            _tell(one, BrokenError(self.broken))


def _tell(told: Callable[[T], None], found: T) -> None:
    """Whoever waits is told; one that cannot be told must not keep a thread from its work."""
    try:
        told(found)
    except Exception as problem:
        log(f"somebody who waits cannot be told ({problem or type(problem).__name__})")


def learn(record: Record, *pupils: Pupil | None) -> None:
    """Let each take a batch, unless it has it already."""
    for pupil in pupils:
        if pupil is not None and record.sequence > pupil.sequence:
            pupil.learn(record)
