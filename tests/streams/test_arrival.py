"""Streams without boundaries: orders with known answers, and inputs that change."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from efc.errors import EFCError
from efc.streams import Arrival
from efc.streams.arrival import all_samples
from support.tasks import toy_stream

GROUP = np.repeat(np.arange(4), 500)


def arrived(text: str, seed: int = 0) -> np.ndarray:
    order = Arrival.parse(text).order(GROUP, seed)
    assert np.array_equal(np.sort(order), np.arange(len(GROUP)))
    return np.asarray(GROUP[order])


def test_without_a_blur_groups_follow_each_other_shuffled_inside() -> None:
    assert np.array_equal(arrived("blurred:0"), GROUP)
    assert not np.array_equal(Arrival.parse("blurred:0").order(GROUP, 0), np.arange(len(GROUP)))


def test_blurred_groups_fade_into_their_neighbours_alone() -> None:
    """With F = 0.25 a group is there for a quarter of its stay before and after it, half as strong at the border."""
    found = arrived("blurred:0.25")
    for group in range(4):
        where = np.flatnonzero(found == group) / 500
        assert where.min() > group - 0.35
        assert where.max() < group + 1.35
    middle = found[700:800]
    assert (middle == 1).all()
    border = found[460:540]
    assert 0.3 < (border == 0).mean() < 0.7


def test_random_and_drift_are_mixed_throughout() -> None:
    for text in ("random", "drift:0.5"):
        shares = np.stack([np.bincount(part, minlength=4) / len(part) for part in np.split(arrived(text), 10)])
        assert abs(shares - 0.25).max() < 0.15


def test_recurring_groups_come_as_often_as_asked() -> None:
    found = arrived("recurring:3")
    visits = found[np.concatenate([[True], found[1:] != found[:-1]])]
    assert visits.tolist() == [0, 1, 2, 3] * 3


def test_a_seed_is_an_order() -> None:
    for text in ("blurred", "random", "recurring", "single"):
        one, two = Arrival.parse(text), Arrival.parse(text)
        assert np.array_equal(one.order(GROUP, 3), two.order(GROUP, 3))
        assert not np.array_equal(one.order(GROUP, 3), one.order(GROUP, 4))


def test_pictures_turn_and_darken() -> None:
    """A quarter turn at the end of a whole drift, seen against numpy's."""
    x = torch.rand(3, 64, generator=torch.Generator().manual_seed(0))
    arrival = Arrival.parse("drift:1")
    assert torch.equal(arrival.inputs(x, 0.0, 0), x)
    turned = arrival.inputs(x, 1.0, 0).reshape(3, 8, 8).numpy()
    quarter = [np.rot90(x.reshape(3, 8, 8).numpy(), k, axes=(1, 2)) / 2 for k in (1, 3)]
    assert min(np.abs(turned - q).max() for q in quarter) < 1e-5
    assert torch.equal(Arrival.parse("random").inputs(x, 1.0, 0), x)


def test_other_features_mix() -> None:
    x = torch.arange(7.0).expand(2, 7)
    mixed = Arrival.parse("drift:1").inputs(x, 1.0, 0)
    assert sorted(mixed[0].tolist()) == [k / 2 for k in range(7)]
    half = Arrival.parse("drift:1").inputs(x, 0.5, 0)
    assert torch.allclose(half, 0.75 * (0.5 * x + 0.5 * 2 * mixed))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("blured", "did you mean"),
        ("blurred:-1", "blurred takes a number from 0 to 10, got '-1'"),
        ("blurred:x", "got 'x'"),
        ("recurring:1.5", "a whole number from 1 to 1000"),
        ("random:2", "random takes no number"),
        ("drift:nan", "from 0 to 1"),
    ],
)
def test_mistakes_are_told(text: str, told: str) -> None:
    with pytest.raises(EFCError, match=told):
        Arrival.parse(text)


def test_all_samples_of_all_tasks() -> None:
    stream = toy_stream()
    x, y, group = all_samples(stream, "train")
    assert len(x) == len(y) == len(group) == sum(len(task.parts["train"].y) for task in stream.tasks)
    assert np.array_equal(group, y.numpy() // 2)
