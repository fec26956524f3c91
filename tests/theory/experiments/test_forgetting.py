"""Seeds are added while it is open whether EFC follows FISH."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from efc.theory.alignment import Aligned, align_again
from efc.theory.experiments import forgetting
from efc.theory.situation import Situation, further


def test_further_seeds_are_other_seeds(tiny32: Situation) -> None:
    more = further(tiny32, 2)
    assert more.seeds == [2, 3]
    assert more.theta_A.shape == tiny32.theta_A.shape
    assert not torch.equal(more.theta_A[0], more.theta_A[1])
    assert not torch.equal(more.diagonal(), tiny32.diagonal())


def test_aligned_anew_at_the_same_strength(tiny32: Situation) -> None:
    like = Aligned("BP", 0.0, [3e-2], [50.0])
    found = align_again(tiny32, "BP", like, [60.0, 60.0])
    assert found.strength == 0.0
    assert len(found.lr) == len(found.steps) == 2


class Planted:
    """Courses in which EFC / FISH is one on average, but for a spread."""

    def __init__(self, spread: float) -> None:
        self.rng, self.spread, self.asked = np.random.default_rng(0), spread, 0

    def more(self, number: int) -> tuple[dict[str, Any], list[int]]:
        self.asked += 1
        factors = {"FISH": np.ones(number), "EFC": np.exp(self.spread * self.rng.standard_normal(number))}
        curves = {name: [[0.0] * number, f.tolist(), f.tolist()] for name, f in factors.items()}
        each = {key: [1.0] * number for key in ("lr", "steps", "steps_on_test")}
        return {name: each | {"curves": {"loss_A": rows}} for name, rows in curves.items()}, [0] * number


@pytest.mark.parametrize(("spread", "most", "seeds"), [(0.01, 20, 5), (0.8, 20, 20), (0.8, 7, 7), (0.8, 5, 5)])
def test_an_open_comparison_is_given_more_seeds(spread: float, most: int, seeds: int) -> None:
    planted = Planted(spread)
    methods, first = planted.more(5)
    start = {"steps": [0, 10, 60], "aligned_step": 10, "methods": methods, "seeds": first}
    found = forgetting.extended(start, most, planted.more)
    assert len(found["seeds"]) == seeds
    assert len(found["methods"]["EFC"]["curves"]["loss_A"][1]) == seeds
    assert planted.asked == 1 if seeds == 5 else planted.asked > 1
