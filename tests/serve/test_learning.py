"""The threads behind a service: what they do when something breaks that no request can cause."""

from __future__ import annotations

from pathlib import Path
from queue import Queue

import numpy as np
import pytest

from efc.serve.journal import Record, replay
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
