"""A classifier tells when something looks wrong, and says nothing when nothing does."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_wine

from efc import ContinualClassifier, EFCClassifier, EFCHead
from efc.classifiers.diagnosis import TaskFacts, facts, findings
from efc.errors import EFCWarning

GOOD = TaskFacts({0: 50, 1: 50}, {0: 0, 1: 0}, 0.01, 0.98, [])


def test_a_good_task_is_no_news() -> None:
    assert findings(GOOD, ["a", "b"]) == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (TaskFacts({0: 50, 1: 50}, {0: 0, 1: 0}, 0.2, 0.98, []), "20 % of the samples found no equilibrium"),
        (TaskFacts({0: 50, 1: 3}, {0: 0, 1: 0}, None, 0.98, []), "fewer than 5 samples of class 'b'"),
        (TaskFacts({0: 5, 1: 5}, {0: 90, 1: 90}, None, 0.98, []), "a call is a task, not a mini-batch"),
        (TaskFacts({0: 50, 1: 50}, {0: 0, 1: 0}, None, 0.5, []), "nothing was learned of this task"),
        (TaskFacts({0: 50, 1: 50}, {0: 0, 1: 0}, None, 0.9, [1]), "class 'b' is never answered"),
    ],
)
def test_each_thing_that_looks_wrong_has_its_sentence(given: TaskFacts, says: str) -> None:
    (sentence,) = findings(given, ["a", "b"])
    assert says in sentence


def test_facts_are_counted_among_the_tasks_own_outputs() -> None:
    z = torch.tensor([[9.0, 1.0, 0.0], [9.0, 0.0, 1.0], [9.0, 0.0, 1.0]])
    found = facts(torch.tensor([0, 1, 2]), torch.tensor([7, 0, 5]), None, z, torch.tensor([1, 2, 2]))
    assert found.samples == {1: 1, 2: 2}
    assert found.before == {1: 0, 2: 5}
    assert found.accuracy == 1.0
    assert found.never == [1, 2]  # output 0, of another task, is always the largest


def stream(classifier: EFCClassifier, x: np.ndarray, y: np.ndarray, size: int | None = None) -> EFCClassifier:
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        for part in [members] if size is None else np.split(members, range(size, len(members), size)):
            classifier.partial_fit(x[part], y[part])
    return classifier


def test_raw_data_of_mixed_units_are_learned_without_a_word() -> None:
    """Wine as it is measured, one class after the other: not long ago every answer was the last class."""
    x, y = load_wine(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier = stream(EFCClassifier(random_state=0), x[::2], y[::2])
        assert classifier.score(x[1::2], y[1::2]) > 0.9
    assert [entry["warnings"] for entry in classifier.report_] == [[], [], []]
    assert classifier.report_[0]["samples"] == {0: int((y[::2] == 0).sum())}


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e5])
def test_the_scale_of_the_inputs_does_not_matter(factor: float) -> None:
    x, y = load_digits(n_class=4, return_X_y=True)
    classifier = stream(EFCClassifier(random_state=0, epochs=2), factor * x[::2] + 3 * factor, y[::2])
    assert classifier.score(factor * x[1::2] + 3 * factor, y[1::2]) > 0.95


def test_mini_batches_and_inputs_in_other_units_are_told() -> None:
    x, y = load_digits(n_class=2, return_X_y=True)
    with pytest.warns(EFCWarning, match="not a mini-batch"):
        classifier = stream(EFCClassifier(random_state=0, epochs=1), x, y, size=10)
    with pytest.warns(EFCWarning, match="are they in the same units"):
        classifier.predict(1000 * x)


def test_labels_by_chance_are_told() -> None:
    rng = np.random.default_rng(0)
    with pytest.warns(EFCWarning, match="nothing was learned"):
        ContinualClassifier("sgd", (5,), head="random", random_state=0, epochs=1).fit(
            rng.normal(size=(2000, 3)), rng.integers(2, size=2000)
        )


@pytest.mark.parametrize(
    "given",
    [
        lambda x, y: (x, y),
        lambda x, y: [x.tolist(), y.tolist()],
        lambda x, y: (torch.tensor(x), torch.tensor(y)),
        lambda x, y: [(x[:50], y[:50]), (x[50:], y[50:])],
        lambda x, y: torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y)), batch_size=32
        ),
        lambda x, y: (x.astype(">f8"), y),
    ],
    ids=["arrays", "lists", "tensors", "batches", "loader", "big-endian"],
)
def test_the_torch_head_takes_what_people_have(given: object) -> None:
    x, y = load_digits(n_class=2, return_X_y=True)
    head = EFCHead(64, hidden=(20,), epochs=1).learn_task(given(x, y))  # type: ignore[operator]
    assert float((head.predict(torch.tensor(x)) == torch.tensor(y)).double().mean()) > 0.95


@pytest.mark.parametrize("data", [3, [np.zeros((2, 64))], ["ab", "cd"]])
def test_the_torch_head_refuses_the_rest_in_one_sentence(data: object) -> None:
    with pytest.raises(ValueError, match=r"learn_task: expected|features: expected|labels: expected"):
        EFCHead(64, hidden=(20,), epochs=1).learn_task(data)


def test_probabilities_are_as_often_right_as_they_say() -> None:
    """Expected calibration error of all ten digits, in ten equal bins."""
    x, y = load_digits(return_X_y=True)
    classifier = EFCClassifier(random_state=0, epochs=2)
    for first in (0, 2, 4, 6, 8):
        mine = (y[::2] == first) | (y[::2] == first + 1)
        classifier.partial_fit(x[::2][mine], y[::2][mine])
    p = classifier.predict_proba(x[1::2])
    top, right = p.max(1), p.argmax(1) == y[1::2]
    bins = np.minimum((10 * top).astype(int), 9)
    error = sum(abs(right[bins == k].mean() - top[bins == k].mean()) * (bins == k).mean() for k in np.unique(bins))
    assert error < 0.05
    assert top.mean() > 0.8
    np.testing.assert_allclose(p.sum(1), 1.0)
