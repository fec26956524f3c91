"""Which labels a model has: against sets that are made anew each time."""

from __future__ import annotations

import random

import pytest

from efc.errors import EFCError
from efc.serve.labels import Labels


def test_a_label_is_there_while_a_batch_brings_it_and_stays_if_it_was_learned() -> None:
    """Batches that come and go at random; what is allowed is worked out from all that are there."""
    rng, labels, met = random.Random(0), Labels([3], 6), {3}
    coming = list[list[int]]()
    refused = 0
    for _ in range(3000):
        if rng.random() < 0.55:
            batch = [rng.randrange(12) for _ in range(rng.randint(1, 3))]
            there = met.union(*coming)
            if len(there.union(batch)) > 6:
                with pytest.raises(EFCError, match="more than the 6 classes"):
                    labels.check(batch)
                refused += 1
                continue
            labels.check(batch)
            labels.take(batch)
            coming.append(batch)
        elif coming:
            batch, learned = coming.pop(rng.randrange(len(coming))), rng.random() < 0.002
            labels.settle(batch, batch if learned else ())
            met |= set(batch) if learned else set()
        assert labels.met == met
        assert set(labels.coming) == set().union(*coming)
    assert refused > 100
    assert len(met) > 1


def test_one_kind_at_a_time() -> None:
    labels = Labels([], 10)
    labels.take(["a"])
    with pytest.raises(EFCError, match="texts, got 1"):
        labels.check([1])
    labels.settle(["a"])
    labels.check([1])
    labels.take([1])
    labels.settle([1], [1, 2])
    with pytest.raises(EFCError, match="numbers, got 'a'"):
        labels.check(["a"])
    assert labels.met == {1}
