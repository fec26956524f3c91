"""A stream without boundaries, measured: against a loop of a few lines, and interrupted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from efc.errors import EFCError
from efc.learners import LEARNERS, Learner
from efc.streams import Arrival, split
from efc.streams.arrival import all_samples
from efc.training.streaming import StreamTraining
from support.tasks import toy_dataset, toy_stream

TOY = split(toy_dataset(120), tasks=3, classes_per_task=2)


def learner(name: str = "efc", seeds: tuple[int, ...] = (0,)) -> Learner:
    cls = LEARNERS[name]
    return cls((6, 20, 6), list(seeds), cls.options_type(), head=cls.stream_head)


def training(name: str = "efc", text: str = "blurred", size: int = 16, **given: Any) -> StreamTraining:
    return StreamTraining(learner(name), TOY, Arrival.parse(text), size, **given)


def test_every_sample_is_answered_before_it_is_learned() -> None:
    """The same by hand: order, numbers of outputs, answers and hits."""
    ours = training("slda", "blurred:0.5", size=7)
    assert ours.run()
    x, y, group = all_samples(TOY, "train")
    order = Arrival.parse("blurred:0.5").order(group, 0)
    x, y = x[torch.as_tensor(order)], y[torch.as_tensor(order)]
    other, names, hits, at = learner("slda"), [], [], 0
    while at < len(y):
        stop = min(at + 7, min(end for end in ours.ends if end > at))
        some, told = x[at:stop], y[at:stop].tolist()
        answers = [names[k] for k in other.logits(some, slice(0, len(names)))[0].argmax(-1)] if names else []
        hits += [a == b for a, b in zip(answers, told, strict=True)] if names else [False] * len(told)
        names += [k for k in dict.fromkeys(told) if k not in names]
        other.observe(some, torch.tensor([names.index(k) for k in told]))
        if stop in ours.ends:
            other.settle()
        at = stop
    assert ours.hits.tolist() == hits
    measures: Any = ours.measures()
    assert measures["accuracy"] == pytest.approx(100 * np.mean(hits))
    assert np.array(measures["mix"]).sum(0).tolist() == torch.bincount(y, minlength=6).tolist()


def test_what_comes_of_it() -> None:
    ours = training()
    ours.run()
    found, measures = ours.result(), ours.measures()
    assert found.accuracy_matrix[0, -1].min() > 90
    assert found.confusion.sum() == sum(len(task.parts["test"].y) for task in TOY.tasks)
    assert np.trace(found.confusion[0]) / found.confusion.sum() > 0.9
    assert np.isnan(found.accuracy_matrix[0, 0, 2])  # not there at the first checkpoint
    assert found.diverged == []
    curve: Any = measures["curve"]
    assert curve[-1] > 90 > curve[0]
    assert all(isinstance(one, float) and one >= 10 for one in measures["adaptation"])  # type: ignore[union-attr]
    assert float(measures["bytes"]) > 4 * ours.learner.theta.numel()  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["efc", "sgd"])
def test_what_each_class_has_lost_is_reported(name: str) -> None:
    """By hand: the test samples of each class, asked about at each checkpoint of the same stream."""
    ours = training(name, "blurred:0")
    ours.run()
    other, shares, at = learner(name), np.full((3, 6), np.nan), 0
    x, _, group = all_samples(TOY, "train")
    order = torch.as_tensor(Arrival.parse("blurred:0").order(group, 0))
    for row, end in enumerate(ours.ends):
        for start in range(at, end, 16):
            stop = min(start + 16, end)
            other.observe(x[order[start:stop]], ours.y[start:stop])
        other.settle()
        at, known = end, int(ours.y[:end].max()) + 1
        asked, truth, _ = all_samples(TOY, "test")
        told = ours.named[other.logits(asked, slice(0, known))[0].argmax(-1)]
        for k in ours.named[:known].tolist():
            shares[row, k] = 100 * float((told[truth == k] == k).double().mean())
    lost: Any = ours.measures()["forgets"]
    for k, one in enumerate(lost):
        *earlier, last = shares[~np.isnan(shares[:, k]), k]
        assert one == (pytest.approx(max(earlier) - last) if earlier else None)
    assert (min(lost[:2]) > 30) == (name == "sgd")


@pytest.mark.parametrize(("name", "text"), [("efc", "blurred"), ("derpp", "drift"), ("activity", "single")])
def test_stopped_and_gone_on_with_it_is_the_same(name: str, text: str) -> None:
    whole, first, second = (training(name, text, 5 if text != "single" else 1) for _ in range(3))
    whole.run()
    left = 31

    def stop(word: str) -> bool:
        nonlocal left
        left -= 1
        return left == 0

    assert not first.run(boundary=stop)
    assert 0 < first.at < len(first.y)
    second.load_state_dict({key: value.clone() for key, value in first.state_dict().items()})
    second.run()
    mine, theirs = whole.learner.state_dict(), second.learner.state_dict()
    assert all(torch.equal(mine[key], theirs[key]) for key in mine)
    assert torch.equal(whole.hits, second.hits)
    np.testing.assert_array_equal(whole.A, second.A)
    np.testing.assert_array_equal(whole.by_class, second.by_class)


def test_a_drift_is_what_is_measured() -> None:
    """Test data have changed, too, by as much as the stream has at its end."""
    ours = training("slda", "drift:0.4")
    ours.run()
    for j, task in enumerate(TOY.tasks):
        data = task.parts["test"]
        changed = ours.arrival.inputs(data.x, 1.0, 0)
        assert not torch.equal(changed, data.x)
        told = ours.named[ours.learner.logits(changed, slice(0, 6))[0].argmax(-1)]
        assert ours.A[0, -1, j] == pytest.approx(100 * float((told == data.y).double().mean()))


def test_one_run_at_a_time_of_all_classes_seen() -> None:
    with pytest.raises(EFCError, match="one run at a time"):
        StreamTraining(learner(seeds=(0, 1)), TOY, Arrival.parse("random"), 16)
    with pytest.raises(EFCError, match="all classes seen"):
        StreamTraining(learner(), toy_stream("task"), Arrival.parse("random"), 16)
