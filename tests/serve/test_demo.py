"""The demonstration: two digits are known, the others are taught, and EFC keeps what SGD forgets."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from efc.data import digits
from efc.errors import EFCError
from efc.serve.demo import BEGINNING, FIRST, LESSON, Lessons
from efc.serve.service import Making, Service, Settings
from support.serving import serving


def test_lessons_are_training_digits_each_once() -> None:
    lessons, data = Lessons(), digits.load()
    given = {label: [] for label in range(10)}  # type: ignore[var-annotated]
    for x, labels in lessons.beginning():
        for row, label in zip(x, labels, strict=True):
            given[label].append(row)
    assert {label: len(rows) for label, rows in given.items() if rows} == {0: BEGINNING, 1: BEGINNING}
    for label in given:
        while lessons.left()[str(label)]:
            lesson = lessons.asked({"label": label, "samples": 37})
            assert lesson.labels == [label] * len(lesson.x)
            given[label] += list(lesson.x)
        with pytest.raises(EFCError, match="have been given"):
            lessons.next(label, 1)
        train = (data.x_train[data.y_train == label] * 16).round()
        assert [row.tolist() for row in given[label]] == train.tolist()


@pytest.mark.parametrize(
    "body", [{}, {"label": 10}, {"label": True}, {"label": "1"}, {"label": 1, "samples": LESSON + 1}]
)
def test_lessons_that_are_none(body: dict[str, object]) -> None:
    with pytest.raises(EFCError, match=r"label|samples"):
        Lessons().asked(body)


def test_what_was_learned_before_is_not_given_again() -> None:
    lessons = Lessons()
    lessons.go_on({3: 20, 4: 10_000})
    assert lessons.left()["4"] == 0
    assert lessons.given(3) == 20
    assert lessons.next(3, 1).x.tolist() == lessons.of[3][20:21].tolist()


def test_a_lesson_that_was_not_accepted_comes_again() -> None:
    lessons = Lessons()
    first = lessons.next(5, 10)
    lessons.next(5, 10)
    lessons.take_back(first)
    assert lessons.given(5) == 10
    assert lessons.next(5, 15).x.tolist() == [*first.x.tolist(), *lessons.of[5][20:25].tolist()]
    assert lessons.next(5, 1).x.tolist() == lessons.of[5][25:26].tolist()


def test_lessons_that_find_no_room_are_not_lost(tmp_path: Path) -> None:
    """One request has the queue, which a wide network empties slowly, and others are refused."""
    with serving(tmp_path / "m.safetensors", "--demo", "--queue", "20", "--hidden", "600,600") as served:
        left, taken, statuses = served.get("/state")["demo"]["lessons_left"], 0, list[int]()
        while statuses.count(429) < 3:
            status, told, _ = served.ask("/demo/lesson", {"label": 5, "samples": 20})
            statuses.append(status)
            taken += told.get("accepted", 0)
        assert set(statuses) == {202, 429}
        assert served.get("/state")["demo"]["lessons_left"] == left | {"5": left["5"] - taken}


@pytest.mark.parametrize("queue", [1, 3])
def test_a_queue_that_is_shorter_than_a_lesson_takes_what_it_can(queue: int, tmp_path: Path) -> None:
    with serving(tmp_path / "m.safetensors", "--demo", "--queue", str(queue), "--hidden", "8") as served:
        assert served.get("/state")["seen"] == 2 * BEGINNING
        status, told, _ = served.ask("/demo/lesson?wait=1", {"label": 5})
        assert (status, told["accepted"]) == (202, queue)


def test_a_demonstration_that_was_killed_at_its_beginning_begins_to_its_end(tmp_path: Path) -> None:
    """Files as they were after each batch of the beginning; what comes of them is what came of the whole."""
    making, crashed = Making(features=64, hidden=(8,)), list[Path]()

    def crash(sequence: int) -> bool:
        if sequence in (1, 7, 66):
            crashed.append(tmp_path / str(sequence))
            shutil.copytree(tmp_path / "whole", crashed[-1])
        return False

    service = Service(Settings(tmp_path / "whole" / "m.safetensors", making, demo=True))
    service.teacher.due = lambda _: crash(service.pupil.sequence)
    service.start()
    service.close()
    states = []
    for folder in (tmp_path / "whole", *crashed):
        again = Service(Settings(folder / "m.safetensors", making, demo=True))
        again.start()
        states.append(bits(again))
        again.close()
    assert [service.pupil.measures.tallies[k].count for k in FIRST] == [BEGINNING] * 2
    assert states == [states[0]] * (1 + len(crashed))
    assert len(crashed) == 3


def bits(service: Service) -> object:
    state = service.pupil.estimator.model_.state_dict()
    return {key: value.numpy().tobytes() for key, value in state.items()}, service.pupil.measures.to_json()


def test_a_model_that_learned_something_else_is_not_begun_with() -> None:
    assert Lessons.under_way({})
    assert Lessons.under_way({0: 3, 1: 3})
    assert Lessons.under_way({0: 1})
    assert not Lessons.under_way({0: 3, 1: 3, 2: 1})
    assert not Lessons.under_way({0: BEGINNING + 1, 1: BEGINNING})
    assert not Lessons.under_way({"a": 1})


def test_taught_one_after_the_other_efc_keeps_them_and_sgd_does_not(tmp_path_factory: pytest.TempPathFactory) -> None:
    """From nothing: no file is named, and none stays behind."""
    folder = tmp_path_factory.mktemp("demo")
    with serving(folder / "m.safetensors", "--demo", "--hidden", "60") as served:
        state = served.get("/state")
        assert [c["label"] for c in state["classes"]] == [0, 1]
        demo = state["demo"]
        assert (demo["kind"], demo["side"], demo["maximum"]) == ("digits", 8, 16)
        assert min(demo["held_out"]["efc"][k] for k in "01") > 0.9
        assert demo["held_out"]["efc"]["2"] == 0
        for label in (2, 3, 4):
            for _ in range(3):
                status, told, _ = served.ask("/demo/lesson?wait=1", {"label": label, "samples": 30})
                assert (status, told["accepted"]) == (202, 30)
        state = served.get("/state")
        held_out = state["demo"]["held_out"]
        assert held_out["seen"] == state["seen"] == 2 * BEGINNING + 270
        assert min(held_out["efc"][k] for k in "01234") > 0.7
        assert sum(held_out["beside"][k] for k in "0123") < sum(held_out["efc"][k] for k in "0123") - 1
        assert held_out["beside"]["4"] > 0.8
        assert state["beside"]["method"] == "sgd"
        assert state["demo"]["lessons_left"]["2"] == demo["lessons_left"]["2"] - 90
        assert {"psi", "gamma"} == set(state["effort"])
        points = served.get("/history")["points"]
        assert points[-1]["seen"] == 2 * BEGINNING + 270
        assert set(points[-1]["per_class"]) == set("01234")
