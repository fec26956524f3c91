"""The demonstration: two digits are known, the others are taught, and EFC keeps what SGD forgets."""

from __future__ import annotations

import pytest

from efc.data import digits
from efc.errors import EFCError
from efc.serve.demo import BEGINNING, LESSON, Lessons
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
            x, labels = lessons.asked({"label": label, "samples": 37})
            assert set(labels) == {label}
            given[label] += list(x)
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
    assert lessons.given[3] == 20


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
