"""Moments of activity against matrices written out, whole and as a sketch."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from efc.core.moments import DIRECTIONS, WIDE, Dense, LowRank, Moments, Operator, Sketch, leading


def rates(runs: int, n: int, d: int, seed: int = 0) -> Tensor:
    return torch.rand(runs, n, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def matrix(operator: Operator, runs: int, d: int) -> Tensor:
    """The operator written out: what it makes of the unit vectors."""
    eye = torch.eye(d + 1, dtype=torch.float64).expand(runs, -1, -1)
    out_W, out_b = torch.zeros(runs, d + 1, d, dtype=torch.float64), torch.zeros(runs, d + 1, dtype=torch.float64)
    operator.add_to(eye[..., :-1], eye[..., -1], out_W, out_b)
    return torch.cat([out_W, out_b.unsqueeze(2)], 2)


def written_out(r: Tensor) -> Tensor:
    """``mean [r 1]^T [r 1]``, sample by sample."""
    total = torch.zeros(r.shape[0], r.shape[2] + 1, r.shape[2] + 1, dtype=torch.float64)
    for n in range(r.shape[1]):
        one = torch.cat([r[:, n], torch.ones(r.shape[0], 1, dtype=torch.float64)], 1)
        total += one.unsqueeze(2) * one.unsqueeze(1) / r.shape[1]
    return total


@settings(max_examples=30, deadline=None)
@given(
    runs=st.integers(1, 3), shared=st.booleans(), n=st.integers(1, 9), d=st.integers(1, 6), rank=st.integers(0, 7),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_both_forms_are_the_matrix_or_as_near_as_their_rank_allows(
    runs: int, shared: bool, n: int, d: int, rank: int, seed: int
) -> None:
    r = rates(1 if shared else runs, n, d, seed)
    kept = Moments(len(r), d) if rank == 0 else Sketch(len(r), d, rank)
    for part in r.split(4, 1):
        kept.add(part, 1 / n)
    A = written_out(r).expand(runs, -1, -1)
    found = matrix(kept.operator(torch.zeros((), dtype=torch.float64)), runs, d)
    torch.testing.assert_close(found.diagonal(dim1=1, dim2=2), A.diagonal(dim1=1, dim2=2))
    if rank == 0 or rank >= min(n, d + 1):
        torch.testing.assert_close(found, A)
    mu = torch.linspace(0.1, 2.0, runs, dtype=torch.float64).reshape(-1, 1, 1)
    natural = matrix(kept.natural(mu, torch.zeros((), dtype=torch.float64)), runs, d)
    expected = mu * torch.linalg.inv(mu * torch.eye(d + 1, dtype=torch.float64) + found)
    torch.testing.assert_close(natural, expected)


def test_a_sketch_keeps_the_leading_directions() -> None:
    """Of ten directions with very different activity, those with the most are kept as they are."""
    g = torch.Generator().manual_seed(0)
    directions = torch.linalg.qr(torch.randn(10, 10, generator=g, dtype=torch.float64)).Q
    r = torch.randn(1, 4000, 10, generator=g, dtype=torch.float64) * 10.0 ** -torch.arange(10.0, dtype=torch.float64)
    r = r @ directions.T
    sketch, whole = Sketch(1, 10, 3), Moments(1, 10)
    for part in r.split(500, 1):
        sketch.add(part, 1 / 4000)
        whole.add(part, 1 / 4000)
    found = matrix(sketch.operator(torch.zeros((), dtype=torch.float64)), 1, 10)
    assert float((found - whole.A).norm() / whole.A.norm()) < 1e-3
    assert sketch.B.shape == (1, 3, 11)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_run_that_is_not_finite_does_not_spoil_the_others(rank: int) -> None:
    r = rates(2, 9, 5)
    alone, both = ((Sketch(n, 5, rank) if rank else Moments(n, 5)) for n in (1, 2))
    alone.add(r[1:], 1 / 9)
    r[0, 3, 2] = float("nan")
    both.add(r, 1 / 9)
    mu, like = torch.ones(1, 1, 1, dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    torch.testing.assert_close(matrix(both.operator(like), 2, 5)[1:], matrix(alone.operator(like), 1, 5))
    torch.testing.assert_close(matrix(both.natural(mu, like), 2, 5)[1:], matrix(alone.natural(mu, like), 1, 5))


@pytest.mark.parametrize("rank", [0, 4])
def test_a_natural_step_where_activity_is_very_large(rank: int) -> None:
    """``A / mu`` of 1e24: what was used is not moved at all, what was not stays free."""
    r = torch.zeros(1, 50, 6, dtype=torch.float64)
    r[..., :3] = 1e12 * rates(1, 50, 3)
    kept = Sketch(1, 6, rank) if rank else Moments(1, 6)
    kept.add(r, 1 / 50)
    like = torch.zeros((), dtype=torch.float64)
    found = matrix(kept.natural(torch.ones(1, 1, 1, dtype=torch.float64), like), 1, 6)[0]
    torch.testing.assert_close(found[3:6, 3:6], torch.eye(3, dtype=torch.float64))
    assert found[:3, :3].abs().max() < 1e-3


def wide_moments(runs: int, d: int, decay: float, seed: int = 0) -> Moments:
    """Whose eigenvalues fall by ``decay`` from one to the next."""
    g = torch.Generator().manual_seed(seed)
    kept = Moments(runs, d)
    for run in range(runs):
        Q = torch.linalg.qr(torch.randn(d + 1, d + 1, generator=g, dtype=torch.float64)).Q
        kept.A[run] = (Q * decay ** torch.arange(d + 1, dtype=torch.float64)) @ Q.T
    return kept


def test_leading_directions_are_those_of_the_largest_eigenvalues() -> None:
    A = wide_moments(2, 60, 0.8).A
    values, vectors = leading(A, 10)
    expected = 0.8 ** torch.arange(9.0, -1.0, -1.0, dtype=torch.float64)
    torch.testing.assert_close(values, expected.expand(2, -1), rtol=5e-3, atol=0)
    torch.testing.assert_close(values[:, 5:], expected[5:].expand(2, -1), rtol=1e-5, atol=0)  # the last converge last
    torch.testing.assert_close(vectors.transpose(1, 2) @ vectors, torch.eye(10, dtype=torch.float64).expand(2, -1, -1))
    assert float((A @ vectors - vectors * values.unsqueeze(1)).norm(dim=1).max()) < 0.02
    A[0, 3, 3] = float("nan")
    lost, kept = leading(A, 10)
    assert bool(lost[0].isfinite().all())  # nothing raises, and the vectors say what became of the run
    assert bool(kept[0].isnan().all())
    torch.testing.assert_close(kept[1], vectors[1])


@pytest.mark.parametrize("decay", [0.97, 0.999])
def test_a_wide_layer_is_pulled_by_its_leading_directions_and_the_rest_of_its_diagonal(decay: float) -> None:
    """The operator is not off by more than twice what a matrix of so many directions must be off by."""
    d = WIDE
    kept = wide_moments(1, d, decay)
    operator = kept.operator(torch.zeros((), dtype=torch.float64))
    assert isinstance(operator, LowRank)
    found = matrix(operator, 1, d)[0]
    torch.testing.assert_close(found.diagonal(), kept.A[0].diagonal())
    off = float(torch.linalg.matrix_norm(found - kept.A[0], 2))
    assert off < 2.2 * decay**DIRECTIONS
    assert isinstance(wide_moments(1, d - 1, decay).operator(torch.zeros(())), Dense)


def test_a_wide_layer_of_few_directions_is_pulled_exactly() -> None:
    r = rates(1, 100, WIDE)
    kept = Moments(1, WIDE)
    kept.add(r, 0.01)
    torch.testing.assert_close(matrix(kept.operator(torch.zeros((), dtype=torch.float64)), 1, WIDE), kept.A)
