"""Every sample in exactly one place; the same split every time; bad requests refused."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from efc.errors import EFCError
from efc.streams import Dataset, load, split
from support.tasks import toy_dataset


@settings(max_examples=20, deadline=None)
@given(
    scenario=st.sampled_from(["class", "task", "domain"]),
    shape=st.sampled_from([(3, 2), (2, 3), (6, 1), (1, 6), (2, 2)]),
    order_seed=st.none() | st.integers(0, 100),
    validation=st.sampled_from([0.0, 0.1, 0.3]),
)
def test_every_sample_is_in_exactly_one_part(
    scenario: str, shape: tuple[int, int], order_seed: int | None, validation: float
) -> None:
    data = toy_dataset()
    stream = split(data, *shape, order_seed=order_seed, scenario=scenario, validation=validation)
    seen = {"train": [], "test": []}  # type: dict[str, list[bytes]]
    classes: list[str] = []
    for task in stream.tasks:
        classes += task.classes
        for name, part in task.parts.items():
            seen["test" if name == "test" else "train"] += [x.numpy().tobytes() for x in part.x]
            for x, y in zip(part.x, part.y, strict=True):
                arrival = int(y) if scenario != "domain" else task.index * shape[1] + int(y)
                assert task.classes[arrival - task.index * shape[1]] == data.class_names[_label(data, x)]
    assert len(set(classes)) == len(classes) == shape[0] * shape[1]
    chosen = [data.class_names.index(c) for c in classes]
    for name, x, y in (("train", data.x_train, data.y_train), ("test", data.x_test, data.y_test)):
        assert sorted(seen[name]) == sorted(row.tobytes() for row in x[np.isin(y, chosen)])


def _label(data: Dataset, x: torch.Tensor) -> int:
    for part, labels in ((data.x_train, data.y_train), (data.x_test, data.y_test)):
        match = (part == x.numpy()).all(1)
        if match.any():
            return int(labels[match][0])
    raise AssertionError("a sample that is not in the data")


def test_validation_is_stratified_and_leaves_the_test_part_alone() -> None:
    whole, held = split(load("digits"), validation=0.0), split(load("digits"), validation=0.25)
    for a, b in zip(whole.tasks, held.tasks, strict=True):
        assert torch.equal(a.parts["test"].x, b.parts["test"].x)
        for output in b.parts["validation"].y.unique():
            share = (b.parts["validation"].y == output).sum() / (a.parts["train"].y == output).sum()
            assert abs(float(share) - 0.25) < 0.01


def test_the_same_split_in_another_process() -> None:
    code = (
        "from efc.streams import load, split\n"
        "s = split(load('digits'), order_seed=3)\n"
        "print([t.classes for t in s.tasks], [float(t.parts['validation'].x.double().sum()) for t in s.tasks])\n"
    )
    first, second = (subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in "ab")
    assert first == second


def test_active_outputs_by_scenario() -> None:
    data = toy_dataset()
    kinds = {name: split(data, 3, 2, scenario=name) for name in ("class", "task", "domain")}
    assert [kinds["class"].active(0, after) for after in range(3)] == [slice(0, 2), slice(0, 4), slice(0, 6)]
    assert [kinds["task"].active(1, after) for after in range(1, 3)] == [slice(2, 4), slice(2, 4)]
    assert kinds["domain"].active(2, 2) == slice(0, 2)
    assert [kinds["domain"].n_outputs, kinds["task"].n_outputs] == [2, 6]
    assert kinds["class"].data(1, 5).new == slice(2, 4)
    assert kinds["domain"].data(1, 5).new.start == kinds["domain"].data(1, 5).new.stop
    assert "all classes seen so far" in kinds["class"].describe()


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"tasks": 4}, "4 tasks of 2 classes need 8 classes, toy has 6"),
        ({"tasks": 0}, "at least one task"),
        ({"validation": 1.0}, "validation: .*1.0"),
        ({"scenario": "clas"}, "did you mean 'class'"),
    ],
)
def test_impossible_requests_are_refused(request_: dict[str, Any], says: str) -> None:
    with pytest.raises(EFCError, match=says):
        split(toy_dataset(), **({"tasks": 3, "classes_per_task": 2} | request_))


def test_a_task_without_test_samples_is_refused() -> None:
    good = toy_dataset()
    missing = good.y_test != 3
    with pytest.raises(EFCError, match="bad: class 'd' has no test samples"):
        split(
            Dataset("bad", good.x_train, good.y_train, good.x_test[missing], good.y_test[missing], good.class_names),
            3,
            2,
        )
