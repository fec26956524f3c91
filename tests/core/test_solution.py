"""What is read off a solution: effort, counts, and samples that are lost."""

from __future__ import annotations

from dataclasses import replace

import torch

from efc.core import Anderson
from efc.core.solution import Result, Solution
from support.helpers import Problem


def solved(beta: float = 0.05) -> Solution:
    return Anderson().solve(Problem(sizes=(5, 6, 7, 4), beta=beta).system())


def test_effort_is_the_sum_of_norms_by_layer() -> None:
    found = solved()
    signals = [*found.psi, *found.gamma]
    assert len(signals) == 6
    expected = [[sum(float(t[run, b].norm()) for b in range(3)) for t in signals] for run in range(2)]
    torch.testing.assert_close(found.effort().cpu(), torch.tensor(expected, dtype=torch.float64))


def test_without_preservation_gamma_is_zero() -> None:
    found = solved(beta=0.0)
    assert [tuple(t.shape) for t in found.gamma] == [tuple(t.shape) for t in found.psi]
    assert not any(bool(t.any()) for t in found.gamma)


def test_counts_and_what_is_lost() -> None:
    found = solved()
    assert found.counts() == {"converged": 6, "cycling": 0, "max_steps": 0, "non_finite": 0}
    assert bool(found.settled.all())
    result = found.result.clone()
    result[0, 1], result[1, 2] = Result.CYCLING, Result.NON_FINITE
    other = replace(found, result=result)
    assert other.counts() == {"converged": 4, "cycling": 1, "max_steps": 0, "non_finite": 1}
    assert other.lost is not None
    assert other.lost.nonzero().tolist() == [[1, 2]]
    assert int(other.settled.sum()) == 4
    torch.testing.assert_close(other.effort()[0], found.effort()[0])  # one that cycles counts as it stands
    norms = torch.stack([t[1, 2].norm() for t in (*found.psi, *found.gamma)])
    torch.testing.assert_close(other.effort()[1], found.effort()[1] - norms)
