"""The service behind the routes: recovery, what is learned and answered, snapshots; one process per model."""

from __future__ import annotations

import gc
import os
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from queue import Queue

import torch
from filelock import FileLock, Timeout

from efc.classifiers.file_format import shorten
from efc.errors import EFCError, shown
from efc.files import Json, make_folder, remove_begun, sync_folder
from efc.plugins import named_code
from efc.serve.demo import Lessons
from efc.serve.journal import Journal, NoRoomError, Record, described, replay, segments
from efc.serve.labels import Labels
from efc.serve.learning import Teacher, View, learn
from efc.serve.log import log
from efc.serve.measures import Measures, share
from efc.serve.pupil import EVERY, Pupil, begun, check_names
from efc.serve.samples import Document, Inputs, Label, Limits

QUEUE = 2000
"""Samples that may be on their way, unless it is told otherwise."""
SNAPSHOT_EVERY = 5000
"""Samples between two snapshots that nobody asked for."""
LARGE = 256 * 2**20
"""Bytes of the journal between them, at most."""
LARGEST_SEED = 2**32 - 1
"""What a random state takes."""
HIDDEN = (500,)
"""Widths of the hidden layers, unless it is told otherwise."""


@dataclass(frozen=True)
class Making:
    """What a model that is not there yet is made of; None, and no features: as it is, or as usual."""

    features: int = 0
    method: str | None = None
    hidden: tuple[int, ...] | None = None
    head: str | None = None
    seed: int = 0

    @classmethod
    def of(cls, about: Document) -> Making:
        """What a journal's header says; a ValueError if no service can have written it."""
        found = cls(**{**about, "hidden": tuple(about["hidden"] or HIDDEN)})
        numbers, names = (found.features, *(found.hidden or ())), (found.method or "efc", found.head or "zero")
        if not all(type(n) is int and n > 0 for n in numbers) or not all(isinstance(name, str) for name in names):
            raise ValueError("sizes and names")
        if type(found.seed) is not int or not 0 <= found.seed <= LARGEST_SEED:
            raise ValueError("seed")
        return found


@dataclass(frozen=True)
class Settings:
    """What is served, and how.

    Args:
        model: the model's file; its journal lies beside it, in a folder.
        making: what it is made of, if it is not there.
        beside: a method that is given the same samples, to compare with.
        queue: samples that may be on their way.
        every: samples between two snapshots.
        keep: whether the journal keeps what a snapshot covers.
        limits: of one request.
        trust: whether the model's file may name code of someone's own.
        demo: whether the embedded digits are taught.
    """

    model: Path
    making: Making = field(default_factory=Making)
    beside: str | None = None
    queue: int = QUEUE
    every: int = SNAPSHOT_EVERY
    keep: bool = False
    limits: Limits = field(default_factory=Limits)
    trust: bool = False
    demo: bool = False


class Service:
    """A model that answers and learns. It is recovered when it is made, and learns from ``start`` to ``close``.

    Args:
        settings: what is served, and how.
        tidy: collects garbage; asked to whenever there may be much of it.
    """

    def __init__(self, settings: Settings, tidy: Callable[[], object] = lambda: None) -> None:
        self.settings, self.tidy, self.began = settings, tidy, time.monotonic()
        self.model = settings.model
        self.folder = Path(f"{settings.model}.journal")
        self.beside_file = self.folder / "beside.safetensors"
        make_folder(self.folder, "model")
        self.lock = FileLock(self.folder / "lock")
        try:
            self.lock.acquire(timeout=0)
        except Timeout:
            raise EFCError(f"{self.model}: another process serves this model; stop it, or serve a copy") from None
        try:
            self._tidy_up()
            self._recover()
        except BaseException:
            self.lock.release()
            raise

    def _tidy_up(self) -> None:
        """What a power loss or a kill may have left of the folders."""
        try:
            sync_folder(self.folder.parent)  # a journal whose folder is gone keeps nothing
            for file in (self.model, self.beside_file):
                remove_begun(file)
        except OSError as problem:
            raise EFCError(f"model: cannot read {self.folder.parent}: {problem.strerror}") from None

    def _recover(self) -> None:
        """The model's file, then what the journal has beyond it."""
        about = self._header()
        self.pupil, journal = self._pupil(about)
        self.features = self.making.features
        self.id = journal or (str(about["journal"]) if about else uuid.uuid4().hex)
        if self.settings.demo and self.features != Lessons.features:
            raise EFCError(f"features: the demonstration's digits have {Lessons.features}, not {self.features}")
        if about and about["journal"] != self.id:
            raise EFCError(f"{self.folder}: this journal belongs to another model than {self.model}; move one away")
        if about and about["features"] != self.features:
            raise EFCError(f"{self.folder}: its samples have {about['features']} features, the model's {self.features}")
        self.beside = self._beside()
        self.covered = min(pupil.sequence for pupil in self._pupils())
        self.replayed = replayed = 0
        torch.set_flush_denormal(True)  # as those who learned them had it; it is a thread's own setting
        for record in replay(self.folder, self.features, self.covered, log):
            learn(record, *self._pupils())
            self.replayed, replayed = self.replayed + 1, replayed + len(record.labels)
            if self.replayed % EVERY == 0:
                self.tidy()
        last = max(pupil.sequence for pupil in self._pupils())
        making: dict[str, Json] = {"journal": self.id, "features": self.features, "making": asdict(self.making)}
        self.journal = Journal(self.folder, last, making, self.settings.keep)
        self.tried = -replayed, -(0 if self.settings.keep else self.journal.bytes)
        """The samples taken in, and the bytes written, when the last snapshot was tried."""
        self.lessons = Lessons() if self.settings.demo else None
        if self.lessons is not None:
            self.lessons.go_on(self._counts())
        labels = Labels(self.pupil.met, self.settings.limits.classes)
        self.teacher = Teacher(
            *(self.pupil, self.beside, self.journal, labels, self.settings.queue),
            *(self._view, self._due, self._snapshot, self.tidy),
        )

    def _header(self) -> Document | None:
        """What the journal says of itself, if there is one; its ``making`` is one."""
        about = described(self.folder)
        if about is None:
            return None
        try:
            if not isinstance(about["journal"], str) or type(about["features"]) is not int:
                raise ValueError("journal and features")
            return {**about, "making": Making.of(about["making"])}
        except (KeyError, TypeError, ValueError):
            raise EFCError(f"{self.folder}: this is no journal of `efc serve`; move it away") from None

    @property
    def _typed(self) -> tuple[str, ...]:
        """Names of code that whoever began the service typed."""
        return tuple(name for name in (self.settings.making.method, self.settings.beside) if name and ":" in name)

    def _pupil(self, about: Document | None) -> tuple[Pupil, str]:
        """From the model's file, or one that knows nothing."""
        asked = self.settings.making
        if self.model.exists():
            pupil, journal = Pupil.load(self.model, self.settings.trust, self._typed)
            setup = pupil.estimator.model_.setup
            has = Making(setup.n_features, setup.method, setup.hidden, setup.head, asked.seed)
            self._check_asked(has)
        else:
            if about is None and not asked.features:
                told = "say how long its inputs are with --features to begin an empty model"
                raise EFCError(f"{self.model}: there is no such file; {told}")
            has = about["making"] if about else replace(asked, hidden=asked.hidden or HIDDEN)
            has = replace(has, method=has.method or "efc")
            self._check_asked(has)
            if about and not self.settings.trust:
                check_names(self.folder, list(named_code([has.method])), self._typed)
            pupil, journal = Pupil(begun(has.method or "efc", has.hidden or (), has.head, has.seed)), ""
            setup = pupil.estimator._setup(has.features, has.seed)  # a mistake is told now
            try:
                setup.make(1)
            except (MemoryError, RuntimeError, TypeError, OverflowError) as problem:  # sizes beyond all memory
                told = f"a network of {has.features} inputs and {shown(has.hidden)} hidden units cannot be made here"
                raise EFCError(f"hidden: {told} ({shorten(str(problem), 100)})") from None
        self.making = has
        return pupil, journal

    def _check_asked(self, has: Making) -> None:
        """What is asked for is what there is."""
        for name in ("features", "method", "hidden", "head"):
            given, there = getattr(self.settings.making, name), getattr(has, name)
            if given and given != there:
                raise EFCError(f"{name}: this model has {there}, not {given}; leave it out, or name another file")

    def _beside(self) -> Pupil | None:
        method = self.settings.beside
        if method is None:
            return None
        if not self.beside_file.exists():
            pupil = Pupil(begun(method, self.making.hidden or HIDDEN, None, self.making.seed))
            pupil.estimator._setup(self.features, self.making.seed)
            pupil.sequence = self.pupil.sequence  # it begins here
            return pupil
        pupil, journal = Pupil.load(self.beside_file, self.settings.trust, self._typed)
        if (pupil.method, journal) != (method, self.id):
            told = f"{pupil.method}, or one of another model, is kept in {self.beside_file}"
            raise EFCError(f"beside: {told}; remove that file to begin anew with {method}")
        there = segments(self.folder)
        if pupil.sequence < self.pupil.sequence and (not there or there[0].first > pupil.sequence + 1):
            told = f"{self.beside_file} has learned up to batch {pupil.sequence}, and what came next is no longer kept"
            raise EFCError(f"beside: {told}; remove that file to begin anew")
        return pupil

    def _pupils(self) -> list[Pupil]:
        return [self.pupil] if self.beside is None else [self.pupil, self.beside]

    def _counts(self) -> dict[Label, int]:
        """How many samples of each class were learned here."""
        learned = {label: tally.count for label, tally in self.pupil.measures.tallies.items()}
        return dict.fromkeys(self.pupil.met, 0) | learned

    def start(self) -> None:
        """Learn from now on; the demonstration begins with its first lesson, or where that was broken off."""
        self.teacher.start()
        if self.lessons is not None and Lessons.under_way(self._counts()):
            for x, labels in self.lessons.beginning():
                self.teach(x, labels)

    def teach(self, x: Inputs, labels: Sequence[Label]) -> None:
        """Learn samples, as many at a time as the queue takes, and come back when they are learned."""
        for at in range(0, len(labels), self.settings.queue):
            some, told = slice(at, at + self.settings.queue), Queue[Record | Exception]()

            def accepted(found: Record | Exception, told: Queue[Record | Exception] = told) -> None:
                if isinstance(found, Exception):
                    told.put(found)

            self.teacher.submit(x[some], labels[some], accepted, told.put)
            found = told.get()
            if isinstance(found, Exception):
                raise found

    def close(self) -> None:
        """Learn what was accepted, write a snapshot, and let others have the model."""
        try:
            self.teacher.end()
            if not self.teacher.broken and self.pupil.met and self.pupil.sequence > self.covered:
                self._snapshot()
        finally:
            self.journal.close()
            self.lock.release()

    # -- snapshots ---------------------------------------------------------------------------------------------------

    def _due(self, taken: int) -> bool:
        """Batches that could not be learned count, too: they lie in the journal, and are replayed."""
        samples, written = self.tried
        grown = taken - samples >= self.settings.every or self.journal.written - written >= LARGE
        return grown and bool(self.pupil.met)

    def _snapshot(self) -> dict[str, Json]:
        """Write the model's file, then let go of what it covers."""
        self.tried = self.teacher.taken, self.journal.written
        if not self.pupil.met:
            raise EFCError("snapshot: nothing has been learned yet")
        try:
            if self.beside is not None and self.beside.met:
                self.beside.save(self.beside_file, self.id)
            self.pupil.save(self.model, self.id)
        except EFCError as problem:
            raise NoRoomError(f"snapshot: {problem}; the journal has everything") from None
        self.covered = min(pupil.sequence for pupil in self._pupils())
        self.journal.cover(self.covered)
        return {"path": str(self.model), "sequence": self.pupil.sequence, "bytes": self.model.stat().st_size}

    # -- what is seen from outside -----------------------------------------------------------------------------------

    def _view(self) -> View:
        pupil = self.pupil.answers()
        beside = None if self.beside is None else self.beside.answers()
        measures = self.pupil.measures
        state: dict[str, Json] = {
            "model": self.model.name,
            "method": self.pupil.method,
            "features": self.features,
            "classes": classes_of(measures),
            "seen": measures.seen,
            "prequential": {"all": measures.overall, "recent": share(measures.recent)},
            "effort": None if measures.effort is None else asdict(measures.effort),
            "errors": {"batches": measures.failed, "last": measures.failure or None},
            "findings": measures.findings,
            "state_bytes": sum(one.state_bytes for one in self._pupils()),
        }
        if self.beside is not None:
            m = self.beside.measures
            state["beside"] = {
                "method": self.beside.method,
                "prequential": {"all": m.overall, "recent": share(m.recent)},
                "classes": classes_of(m),
            }
        if self.lessons is not None:
            state["held_out"] = self.lessons.held_out(measures.seen, pupil, beside)
        other = () if self.beside is None else tuple(self.beside.measures.points)
        return View(pupil, beside, state, tuple(measures.points), other, self.pupil.sequence)

    def state(self) -> dict[str, Json]:
        """As ``GET /state`` answers."""
        view, teacher = self.teacher.view, self.teacher
        found = dict(view.state)
        held_out, state_bytes = found.pop("held_out", None), found.pop("state_bytes")
        demo: Json = None
        if self.lessons is not None:
            demo = {
                "kind": "digits",
                "side": 8,
                "maximum": 16,
                "held_out": held_out,
                "lessons_left": self.lessons.left(),
            }
        return found | {
            "queued": teacher.queued,
            "sequence": view.sequence,
            "memory": {"state_bytes": state_bytes, "process_bytes": process_bytes()},
            "journal": {"bytes": self.journal.bytes, "since_snapshot": self.journal.last - self.covered},
            "uptime": round(time.monotonic() - self.began, 3),
            "broken": teacher.broken or None,
            "demo": demo,
        }

    def history(self) -> dict[str, Json]:
        """As ``GET /history`` answers: the points of both learners, by the samples seen."""
        view = self.teacher.view
        other = {point.seen: point.recent for point in view.beside_points}
        return {"points": [vars(point) | {"beside_recent": other.get(point.seen)} for point in view.points]}


def classes_of(measures: Measures) -> list[dict[str, Json]]:
    """What became of each class, by label."""
    tallies = sorted(measures.tallies.items())
    return [
        {"label": label, "count": t.count, "right": t.right, "answered": t.answered, "accuracy": t.accuracy}
        for label, t in tallies
    ]


def process_bytes() -> int | None:
    """What the process has in memory, where the system tells."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def alone(demo: bool = False) -> None:
    """Set up a process that does nothing but serve.

    Learning and answering share the cores: matrices of a batch are too small for more threads, and none may keep the
    other waiting. What has been imported is never garbage: to look for garbage elsewhere takes a millisecond.
    """
    if demo:
        Lessons()  # what reads them is imported with them
    torch.set_num_threads(1)
    sys.setswitchinterval(0.001)
    gc.collect()
    gc.freeze()
