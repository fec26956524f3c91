"""What is saved of a learner's parts comes back, and what is drawn afterwards is the same."""

from __future__ import annotations

import torch

from efc.learners.state import Generators, Stored


class Pair(Stored):
    stored = ("a",)

    def __init__(self) -> None:
        self.a = torch.zeros(2, dtype=torch.float64)
        self.other = torch.zeros(1)


def test_named_tensors_come_back_in_the_parts_own_precision_and_memory() -> None:
    given = torch.arange(3.0)
    part = Pair()
    part.load_state_dict({"a": given})
    assert part.a.dtype == torch.float64
    assert part.a.tolist() == [0.0, 1.0, 2.0]  # its shape may grow
    part.a += 1
    assert given.tolist() == [0.0, 1.0, 2.0]
    assert part.state_dict().keys() == {"a"}


def test_generators_go_on_where_they_were() -> None:
    first = Generators([3, 4], purpose=1)
    first.integers(10, 5)
    state = {key: value.clone() for key, value in first.state_dict().items()}
    ahead = first.uniform(4), first.integers(100, 6)
    other = Generators([0, 0], purpose=9)
    other.load_state_dict(state)
    assert torch.equal(other.uniform(4), ahead[0])
    assert torch.equal(other.integers(100, 6), ahead[1])


def test_a_runs_numbers_depend_on_its_seed_and_purpose_alone() -> None:
    together = Generators([3, 4], purpose=1).uniform(8)
    assert torch.equal(together[1:], Generators([4], purpose=1).uniform(8))
    assert not torch.equal(together[0], together[1])
    assert not torch.equal(together[:1], Generators([3], purpose=2).uniform(8))
    assert together.dtype == torch.float64
    assert ((together >= 0) & (together < 1)).all()
    assert (Generators([3], purpose=1).integers(3, 200).unique() == torch.arange(3)).all()
