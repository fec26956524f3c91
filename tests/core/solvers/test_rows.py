"""Going on with a few samples alone must change nothing but the time."""

from __future__ import annotations

import pytest
import torch

from efc.core.solution import Result
from efc.core.solvers import Anderson, FixedPoint, Newton, Solver, base, rows
from efc.core.solvers.rows import Rows, few_left
from support.helpers import Problem

SOLVERS = [Anderson(tol=1e-9), FixedPoint(tol=1e-9), Newton(tol=1e-9, start="free")]


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("activation", ["relu", "softplus"])
def test_narrowed_equals_whole(solver: Solver, activation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strong enough feedback that samples settle at different sweeps, and some ReLUs never."""
    problem = Problem((5, 9, 7, 4), R=3, B=40, kappa=1.0, lam=1.0, dynamics={"activation": activation}, seed=3)
    narrowed = solver.solve(problem.system())
    monkeypatch.setattr(rows, "WORTH", float("inf"))
    whole = solver.solve(problem.system())
    assert len(whole.iterations.unique()) > 1, "all settle at once: nothing was narrowed"
    assert torch.equal(narrowed.result, whole.result)
    assert torch.equal(narrowed.iterations, whole.iterations)
    settled = whole.settled  # a sample that goes round may magnify rounding errors
    assert settled.double().mean() > 0.5
    for one, other in zip(
        (narrowed.u, *narrowed.rates, *narrowed.psi, *narrowed.gamma),
        (whole.u, *whole.rates, *whole.psi, *whole.gamma),
        strict=True,
    ):
        torch.testing.assert_close(one[settled], other[settled], rtol=1e-7, atol=1e-9)


def test_narrowing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only is the result the same: fewer rows are swept."""
    seen: list[int] = []
    plain = base.sweep
    monkeypatch.setattr(base, "sweep", lambda system, u, slopes: seen.append(u.shape[1]) or plain(system, u, slopes))
    problem = Problem((5, 9, 4), R=2, B=40, kappa=1.0, lam=1.0, seed=3)
    Anderson(tol=1e-9).solve(problem.system())
    assert seen[0] == 40
    assert (min(seen) < 40) == (problem.device == "cpu")  # a GPU would have to wait for the host to count


def test_take_and_put() -> None:
    done = torch.ones(2, 5, 1, dtype=torch.bool)
    done[0, 3] = done[1, 1] = done[1, 4] = False
    few = few_left(done, width=10**9)
    assert isinstance(few, Rows)
    t = torch.arange(30.0).view(2, 5, 3)
    taken = few.take((t, None, [t]))
    assert taken[0].shape == (2, 2, 3)
    assert {tuple(row) for row in taken[0][1].tolist()} == {tuple(t[1, 1].tolist()), tuple(t[1, 4].tolist())}
    out = t.clone()
    few.put((out, None), (torch.full_like(taken[0], -1.0), None))
    left = ~done.expand_as(t)
    assert (out[left] == -1).all()
    assert torch.equal(out[~left], t[~left])


def test_many_left_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "FEW", 0.25)
    assert few_left(torch.zeros(1, 8, 1, dtype=torch.bool), width=10**9) is None
    assert few_left(None, width=10**9) is None


def test_the_outcome_names_every_end() -> None:
    """A cycling sample narrowed away comes back as cycling."""
    problem = Problem((5, 9, 7, 4), R=3, B=40, kappa=1.0, lam=1.0, dynamics={"activation": "relu"}, seed=3)
    result = Anderson(tol=1e-9, max_steps=40).solve(problem.system()).result
    assert {int(r) for r in result.unique()} >= {Result.CONVERGED, Result.CYCLING}
