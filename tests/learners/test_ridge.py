"""Moments that are added up in any way are those of all samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from efc.learners.ridge import Inverse, RidgeMoments, _spectrum


def samples(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(2, n, 3, generator=g, dtype=torch.float64), torch.randn(
        2, n, 2, generator=g, dtype=torch.float64
    )


def test_in_batches_merged_or_at_once() -> None:
    (h1, Y1), (h2, Y2) = samples(5, 0), samples(7, 1)
    at_once = RidgeMoments(2, 3, 2).add(torch.cat([h1, h2], 1), torch.cat([Y1, Y2], 1))
    in_batches = RidgeMoments(2, 3, 2).add(h1, Y1).add(h2, Y2)
    merged = RidgeMoments(2, 3, 2).add(h1, Y1).merge(RidgeMoments(2, 3, 2).add(h2, Y2))
    for other in (in_batches, merged):
        for found, expected in zip(other.solve(0.1), at_once.solve(0.1), strict=True):
            torch.testing.assert_close(found, expected)
    assert float(merged.n) == 12


def test_the_solution_is_a_minimum() -> None:
    """Against the gradient of ``|[h 1] V - Y|^2 + ridge N |V|^2``, which is zero there."""
    h, Y = samples(9, 2)
    W, b = RidgeMoments(2, 3, 2).add(h, Y).solve(0.3)
    V = torch.cat([W, b.unsqueeze(-1)], -1).transpose(1, 2).requires_grad_()
    h1 = torch.cat([h, torch.ones(2, 9, 1, dtype=torch.float64)], -1)
    loss = (h1 @ V - Y).square().sum() + 0.3 * 9 * V.square().sum()
    (gradient,) = torch.autograd.grad(loss, V)
    assert gradient.abs().max() < 1e-10


def test_the_moments_of_some_features_are_a_part_of_those_of_all() -> None:
    h, Y = samples(9, 3)
    part = RidgeMoments(2, 3, 2).add(h, Y).of_last(2)
    alone = RidgeMoments(2, 2, 2).add(h[..., 1:], Y)
    for found, expected in zip(part.solve(0.1), alone.solve(0.1), strict=True):
        torch.testing.assert_close(found, expected)


def test_some_targets_are_solved_as_they_are_among_all() -> None:
    h, Y = samples(9, 4)
    moments = RidgeMoments(2, 3, 2).add(h, Y)
    W, b = moments.solve(0.1)
    some_W, some_b = moments.solve(0.1, slice(1, 2))
    torch.testing.assert_close(some_W, W[:, 1:])
    torch.testing.assert_close(some_b, b[:, 1:])


def test_a_feature_that_never_varies_from_zero_gets_no_weight() -> None:
    """Singular without a ridge: the solution of least norm."""
    h, Y = samples(9, 5)
    h[..., 0] = 0
    W, _ = RidgeMoments(2, 3, 2).add(h, Y).solve(0.0)
    assert torch.isfinite(W).all()
    assert W[..., 0].abs().max() < 1e-8


def test_the_chosen_ridge_is_that_of_generalised_cross_validation() -> None:
    """Against the definition, with the samples' hat matrix, for more and for fewer samples than features."""
    for n, d in ((60, 8), (20, 40)):
        rng = np.random.default_rng(n)
        h = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1, d)
        Y = np.eye(3)[(h[:, 0] + rng.normal(size=n) > 0).astype(int) + (h[:, 1] > 0)]
        moments = RidgeMoments(1, d, 3).add(torch.tensor(h)[None], torch.tensor(Y)[None])
        ridge, error = moments.cross_validated()
        h1 = np.hstack([h, np.ones((n, 1))])

        def gcv(strength: float, h1: np.ndarray = h1, Y: np.ndarray = Y, n: int = n) -> float:
            H = h1 @ np.linalg.solve(h1.T @ h1 + strength * n * np.eye(h1.shape[1]), h1.T)
            return float(n * ((Y - H @ Y) ** 2).sum() / (n - np.trace(H)) ** 2)

        tried = 10 ** np.linspace(-6, 0, 25)
        values = [gcv(strength) for strength in tried]
        assert float(error) == pytest.approx(min(values), rel=1e-4)
        assert float(ridge) == pytest.approx(float(tried[int(np.argmin(values))]), rel=1e-6)


def test_degrees_of_freedom_are_a_trace() -> None:
    """Also of a matrix that is singular to working precision, where directions without a value do not count."""
    rng = np.random.default_rng(4)
    h = torch.tensor(rng.normal(size=(2, 6, 9)))
    A = h.transpose(1, 2) @ h
    ridge = torch.tensor([0.3, 1e-30], dtype=torch.float64).reshape(2, 1, 1)
    found = Inverse(A + ridge * torch.eye(9, dtype=torch.float64)).freedom(ridge)
    values = np.linalg.eigvalsh(A[0].numpy())
    assert float(found[0]) == pytest.approx(float((values / (values + 0.3)).sum()))
    assert float(found[1]) == pytest.approx(6.0)


def test_few_samples_of_many_features_have_the_spectrum_that_the_whole_matrix_has() -> None:
    """Found in the small space they lie in; moments that something was added to have none such, and that is seen."""
    rng = np.random.default_rng(3)
    h = rng.normal(size=(2, 30, 120)) * 10.0 ** rng.uniform(-2, 2, 120) + 1.0
    Y = np.eye(3)[np.arange(30) % 3]
    moments = RidgeMoments(2, 120, 3).add(torch.tensor(h), torch.tensor(Y).expand(2, -1, -1))
    w, U = _spectrum(moments.A, 30)
    assert w.shape == (2, 40)
    torch.testing.assert_close(U @ (w.unsqueeze(-1) * U.transpose(1, 2)), moments.A, rtol=1e-9, atol=1e-6)
    torch.testing.assert_close(U.transpose(1, 2) @ U, torch.eye(40, dtype=w.dtype).expand(2, -1, -1))
    moments.A += 0.1 * torch.eye(121, dtype=w.dtype)
    assert _spectrum(moments.A, 30)[0].shape == (2, 121)


def test_the_error_is_that_on_the_samples() -> None:
    rng = np.random.default_rng(0)
    h, V = rng.normal(size=(30, 4)), rng.normal(size=(5, 3))
    Y = np.eye(3)[rng.integers(3, size=30)]
    moments = RidgeMoments(1, 4, 3).add(torch.tensor(h)[None], torch.tensor(Y)[None])
    expected = ((np.hstack([h, np.ones((30, 1))]) @ V - Y) ** 2).sum()
    assert float(moments.error(torch.tensor(V)[None])) == pytest.approx(expected)
