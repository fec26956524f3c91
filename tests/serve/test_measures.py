"""Counts and curves of a service, against sums done by hand; flat, and the same out of a file."""

from __future__ import annotations

import json
import math
import random

import pytest

from efc.serve.measures import POINTS, RECENT, RECENT_OF_CLASS, Effort, Measures, share
from efc.training.diagnosis import Finding


def lived(batches: int, seed: int = 0, size: int = 3) -> tuple[Measures, list[tuple[int, int | None]]]:
    rng, found, all_ = random.Random(seed), Measures(), list[tuple[int, int | None]]()
    for _ in range(batches):
        some: list[tuple[int, int | None]] = [(rng.randrange(4), rng.choice((0, 1, 2, 3, None))) for _ in range(size)]
        found.note([a for a, _ in some], [b for _, b in some], Effort([rng.random()], [0.0]))
        all_ += some
    return found, all_


def test_the_counts_are_those_of_the_samples() -> None:
    found, samples = lived(200)
    hits = [a == b for a, b in samples]
    assert found.seen == len(samples) == 600
    assert found.overall == sum(hits) / 600
    assert share(found.recent) == round(sum(hits[-RECENT:]) / RECENT, 4)
    for label, tally in found.tallies.items():
        own = [(a, b) for a, b in samples if a == label]
        assert tally.count == len(own)
        assert tally.answered == sum(b is not None for _, b in own)
        assert tally.right == sum(a == b for a, b in own)
        last = [a == b for a, b in own][-RECENT_OF_CLASS:]
        assert tally.accuracy == round(sum(last) / len(last), 4)


@pytest.mark.parametrize("batches", [1, 499, 500, 501, 5000])
def test_the_history_is_thinned_and_spans_it_all(batches: int) -> None:
    found, _ = lived(batches)
    seen = [point.seen for point in found.points]
    assert len(seen) <= POINTS
    assert seen == sorted(set(seen))
    assert seen[0] <= 0.02 * found.seen + 3
    assert seen[-1] >= 0.98 * found.seen
    if batches >= POINTS:
        assert len(seen) >= POINTS // 4


def test_what_comes_out_of_a_file_goes_on_alike() -> None:
    one, _ = lived(700)
    two = Measures.from_json(json.loads(json.dumps(one.to_json())))
    for measures in (one, two):
        measures.note([3, 9], [3, None], Effort([2.0], [1.0]))
    assert one.to_json() == two.to_json()
    assert two.tallies[9].count == 1


def test_what_looks_wrong_is_kept_once_of_each_kind() -> None:
    found = Measures()
    for sequence, kinds in enumerate(([], ["cut"], ["faint", "cut"], []), 1):
        found.note([0] * 10, [0] * 10, None)
        found.remark([Finding(kind, f"{kind} in {sequence}") for kind in kinds], sequence)
    assert found.findings == [
        {"kind": "cut", "text": "cut in 3", "batches": 2, "sequence": 3, "seen": 30},
        {"kind": "faint", "text": "faint in 3", "batches": 1, "sequence": 3, "seen": 30},
    ]
    about = json.loads(json.dumps(found.to_json()))
    assert Measures.from_json(about).to_json() == found.to_json()
    del about["findings"]
    assert Measures.from_json(about).findings == [], "as older files are"
    for odd in ({"kind": 'a"b'}, {"text": 3}, {"text": "x" * 2000}, {"batches": -1}, {"seen": "1"}):
        with pytest.raises(ValueError, match=r"."):
            Measures.from_json(about | {"findings": [found.findings[0] | odd]})


def test_the_effort_is_a_running_mean() -> None:
    found = Measures()
    found.note([0], [0], None)
    assert found.effort is None
    found.note([0], [0], Effort([1.0, 2.0], [0.0, 0.0]))
    found.note([0] * 25, [0] * 25, Effort([0.0, 4.0], [1.0, 0.0]))
    assert found.effort is not None
    kept = math.exp(-0.5)
    assert found.effort.psi == pytest.approx([kept, 4 - 2 * kept], rel=1e-3)
    assert found.effort.gamma == pytest.approx([1 - kept, 0.0], rel=1e-3)
    found.note([0], [0], None)
    assert found.points[-1].psi == found.effort.psi
