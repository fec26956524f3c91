"""What is read off a solution: effort, counts, and samples that are lost."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from efc.core import Anderson, FixedPoint, Newton, Parameters, System, build
from efc.core.control import Controller, Dynamics
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


def bistable(bias: float) -> System:
    """One unit per hidden layer. Free, layer 2 is off (its bias outweighs its input of one) and sends nothing down; on,
    it drives layer 1, which keeps it on if the bias is small enough."""
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    W = Parameters(
        (one, one, torch.tensor([[[1.0], [-1.0]]], dtype=torch.float64)),
        (torch.zeros(1, 1).double(), torch.full((1, 1), -bias).double(), torch.zeros(1, 2).double()),
    )
    y = torch.tensor([[[1.0, 0.0]]], dtype=torch.float64)
    return build(Dynamics(feedback="jacobian"), W, one, y, Controller.from_gain(1.0), target="strong")


@pytest.mark.parametrize(("bias", "several"), [(1.01, True), (3.0, False)])
def test_another_start_finds_the_other_equilibrium_if_there_is_one(bias: float, several: bool) -> None:
    """By hand: off, u solves u = 1 - softmax(2 u) alone; on, r_1 = exp(2 u) at that same kind of u, above the bias."""
    system, solver = bistable(bias), partial(FixedPoint, damping=0.3)
    found, other = (solver(tol=1e-9, start=start).solve(system) for start in ("free", "open"))
    assert found.settled.all()
    assert float(found.activity.rates[1]) == 0  # off
    u = float(found.u[0, 0, 0])
    assert u == pytest.approx(1 - 1 / (1 + torch.exp(torch.tensor(-2 * u, dtype=torch.float64)).item()))
    if several:
        assert float(other.activity.rates[1]) > 0.1  # on
    assert found.elsewhere(solver(tol=1e-9, start="open")).tolist() == [[several]]
    assert found.elsewhere(solver(tol=1e-9), solver(tol=1e-9, start="open")).tolist() == [[several]]
    assert found.elsewhere(solver(tol=1e-9)).tolist() == [[False]]
    assert found.elsewhere().tolist() == [[False]]


def test_without_an_equilibrium_there_is_no_other() -> None:
    found = solved()
    nobody = replace(found, result=torch.full_like(found.result, Result.CYCLING))
    assert not bool(nobody.elsewhere(Newton(start="open"), apart=0.0).any())
    assert not bool(found.elsewhere(Newton(tol=1e-9), apart=0.05).any())
