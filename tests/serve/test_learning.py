"""The threads behind a service: what they do when something breaks that no request can cause."""

from __future__ import annotations

import threading
from pathlib import Path
from queue import Queue

import numpy as np
import pytest

from efc.errors import EFCError
from efc.serve.journal import NoRoomError, Record, replay
from efc.serve.learning import BrokenError, QueueFullError, Teacher, learn
from efc.serve.pupil import Pupil
from efc.serve.service import Making, Service, Settings
from support.serving import batches

ONE = (np.ones((1, 4)), ["a"])


def a_service(folder: Path) -> Service:
    service = Service(Settings(folder / "m.safetensors", Making(features=4, hidden=(8,)), keep=True))
    service.start()
    return service


def submitted(teacher: Teacher, x: np.ndarray, labels: list[str]) -> tuple[object, Queue[object]]:
    """What the journal says of a batch, and where the learner will say something."""
    accepted, learned = Queue[object](), Queue[object]()
    teacher.submit(x, labels, accepted.put, learned.put)
    return accepted.get(timeout=600), learned


def test_a_disk_that_does_not_answer_ends_what_is_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody knows then what is on it. What was learned goes on answering."""
    service = a_service(tmp_path)
    service.teach(*ONE)
    assert service.journal.file is not None
    service.journal.file.close()
    service.journal.file = (tmp_path / "m.safetensors.journal" / "lock").open("rb", buffering=0)
    found, learned = submitted(service.teacher, *ONE)
    assert isinstance(found, BrokenError)
    assert "restart the service" in str(found)
    assert learned.empty()
    with pytest.raises(BrokenError):
        submitted(service.teacher, *ONE)
    assert service.state()["broken"] == str(found)
    assert service.state()["queued"] == 0
    view = service.teacher.view
    assert view.pupil.labels(view.pupil.probabilities(ONE[0])) == ["a"]
    service.close()
    assert capsys.readouterr().err.count("efc: the journal cannot be written") == 1


class OutOfMemory(Pupil):
    """A learner that finds no memory for its third batch."""

    def learn(self, record: Record) -> None:
        if record.sequence == 3:
            raise MemoryError
        super().learn(record)


def test_without_memory_learning_stops_and_the_journal_has_it_all(tmp_path: Path) -> None:
    """A batch that another process could learn is not skipped."""
    service = a_service(tmp_path)
    service.teacher.pupil = service.pupil = OutOfMemory(service.pupil.estimator)
    some = [(np.array(x), [str(label) for label in y]) for x, y in batches(30)][:4]
    for x, labels in some[:2]:
        service.teach(x, labels)
    found, learned = submitted(service.teacher, *some[2])
    assert isinstance(found, Record)
    assert isinstance(learned.get(timeout=600), BrokenError)
    with pytest.raises(BrokenError, match="learning has stopped"):
        submitted(service.teacher, *some[3])
    with pytest.raises(BrokenError):
        service.teacher.ask_snapshot(lambda _: None)
    service.close()
    again = Service(Settings(tmp_path / "m.safetensors"))
    assert (again.replayed, again.pupil.measures.failed) == (3, 0)
    assert again.pupil.measures.seen == sum(len(labels) for _, labels in some[:3])
    again.close()


def test_who_cannot_be_told_stops_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever waited is gone, and says so in the worst way: at the disk, at the learner, at a snapshot."""
    service = a_service(tmp_path)

    def gone(found: object) -> None:
        raise RuntimeError("Event loop is closed")

    service.teacher.submit(*ONE, gone, gone)
    service.teacher.submit(*ONE, gone, gone)
    service.teacher.ask_snapshot(gone)
    _, learned = submitted(service.teacher, *ONE)
    assert isinstance(learned.get(timeout=60), Record)
    told: Queue[object] = Queue()
    service.teacher.ask_snapshot(told.put)
    assert isinstance(told.get(timeout=60), dict)
    service.close()
    assert service.pupil.measures.seen == Pupil.load(tmp_path / "m.safetensors")[0].measures.seen == 3
    assert capsys.readouterr().err.count("efc: somebody who waits cannot be told (Event loop is closed)") == 5


def test_whoever_is_on_the_way_to_the_disk_while_the_learner_fails_is_told(tmp_path: Path) -> None:
    service = a_service(tmp_path)
    teacher, append, writing = service.teacher, service.journal.append, threading.Event()

    class FailsThen(Pupil):
        def learn(self, record: Record) -> None:
            assert writing.wait(60)
            raise MemoryError

    def slow(batches: object) -> list[Record]:
        if service.journal.last:
            writing.set()
            with teacher.changed:
                assert teacher.changed.wait_for(lambda: teacher.stopped, 60)
        return append(batches)  # type: ignore[arg-type]

    teacher.pupil = FailsThen(service.pupil.estimator)
    service.journal.append = slow  # type: ignore[method-assign]
    first, one = submitted(teacher, *ONE)
    second, two = submitted(teacher, *ONE)
    assert [record.sequence for record in (first, second)] == [1, 2]  # type: ignore[attr-defined]
    for learned in (one, two):
        assert isinstance(learned.get(timeout=60), BrokenError)
    service.close()
    assert Service(Settings(tmp_path / "m.safetensors")).pupil.measures.seen == 2


def test_labels_of_batches_that_come_to_nothing_are_none_of_the_models(tmp_path: Path) -> None:
    """A full queue, a disk that is full, and a batch that cannot be learned; what is on its way counts."""
    service = Service(Settings(tmp_path / "m.safetensors", Making(features=4, hidden=(8,)), queue=5))
    teacher, x = service.teacher, np.ones((6, 4))
    with pytest.raises(QueueFullError):
        teacher.submit(x, ["x"] * 6, lambda _: None)
    teacher.submit(x[:5], [1, 2, 1, 2, 3], lambda _: None)
    with pytest.raises(EFCError, match="numbers, got 'x'"):
        teacher.submit(x[:1], ["x"], lambda _: None)
    append = service.journal.append

    def full(batches: object) -> list[Record]:
        service.journal.append = append  # type: ignore[method-assign]
        raise NoRoomError("full")

    service.journal.append = full  # type: ignore[method-assign]
    service.start()
    with teacher.changed:
        assert teacher.changed.wait_for(lambda: not teacher.queued, 60)
    found, learned = submitted(teacher, np.full((1, 4), np.nan), [7])  # type: ignore[list-item]
    assert isinstance(found, Record)
    learned.get(timeout=60)
    service.teach(x[:2], ["a", "b"])
    with pytest.raises(EFCError, match="texts, got 1"):
        teacher.submit(x[:1], [1], lambda _: None)
    assert service.pupil.met == ["a", "b"]
    service.close()


def test_what_is_queued_is_bounded_and_learned_before_the_end(tmp_path: Path) -> None:
    service = Service(Settings(tmp_path / "m.safetensors", Making(features=4, hidden=(8,)), queue=20, keep=True))
    taken = Queue[object]()
    for _ in range(20):  # nobody takes anything yet
        service.teacher.submit(*ONE, taken.put)
    with pytest.raises(QueueFullError):
        service.teacher.submit(*ONE, taken.put)
    service.start()
    service.close()
    assert [record.sequence for record in (taken.get() for _ in range(20))] == list(range(1, 21))  # type: ignore[attr-defined]
    assert service.pupil.measures.seen == 20
    assert len(list(replay(tmp_path / "m.safetensors.journal", 4))) == 20
    with pytest.raises(BrokenError, match="about to end"):
        service.teacher.submit(*ONE, taken.put)


def test_a_batch_is_learned_once_by_each() -> None:
    class Counting(Pupil):
        def __init__(self, sequence: int) -> None:
            self.sequence, self.given = sequence, list[int]()

        def learn(self, record: Record) -> None:
            self.given.append(record.sequence)
            self.sequence = record.sequence

    one, two = Counting(0), Counting(2)
    for number in (1, 2, 3, 3):
        learn(Record(number, *ONE), one, None, two)
    assert (one.given, two.given) == ([1, 2, 3], [3])
