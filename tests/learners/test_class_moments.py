"""Moments of classes apart against the samples they are of, and Gaussian classes against SciPy's density."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from torch import Tensor

from efc.learners.class_moments import ClassMoments, QuadraticDiscriminant
from efc.learners.inputs import Change


def samples(runs: int = 2, d: int = 4, n: int = 60, classes: int = 3, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Features (R, n, d) of classes with means and covariances of their own, and these classes (n,)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    spread, centre = rng.standard_normal((classes, d, d)), rng.standard_normal((classes, d))
    h = np.einsum("rni,nij->rnj", rng.standard_normal((runs, n, d)), spread[y]) + centre[y]
    return torch.tensor(h), torch.tensor(y)


def moments_of(h: Tensor, y: Tensor, classes: int = 3) -> ClassMoments:
    found = ClassMoments(len(h), h.shape[-1], classes)
    found.add(h, torch.eye(classes, dtype=torch.float64)[y].expand(len(h), -1, -1))
    return found


def check_same(found: ClassMoments, h: Tensor, y: Tensor, classes: int = 3) -> None:
    """They are the sums over these samples."""
    h1 = torch.cat([h, torch.ones_like(h[..., :1])], -1)
    own = torch.stack([torch.stack([one[y == k].T @ one[y == k] for k in range(classes)]) for one in h1])
    torch.testing.assert_close(found.own, own)
    torch.testing.assert_close(found.A, own.sum(1))
    torch.testing.assert_close(found.T, own[..., -1].transpose(1, 2))


def test_they_are_sums_over_each_classs_samples() -> None:
    h, y = samples()
    check_same(moments_of(h, y), h, y)
    first, second = slice(0, 25), slice(25, 60)
    parts = moments_of(h[:, first], y[first]).merge(moments_of(h[:, second], y[second]))
    check_same(parts, h, y)
    check_same(parts.without(moments_of(h[:, first], y[first])), h[:, second], y[second])
    check_same(parts, h, y)  # which has not changed them
    check_same(parts.of_last(2), h[..., 2:], y)
    x, Y = h[0, :, :3], torch.eye(3)[y].expand(2, -1, -1)
    together = ClassMoments(2, 7, 3)
    together.add_with_inputs(x, h, Y)
    check_same(together, torch.cat([x.expand(2, -1, -1), h], -1), y)


def test_they_follow_features_and_inputs() -> None:
    h, y = samples()
    generator = torch.Generator().manual_seed(1)
    W = torch.randn(2, 2, 4, generator=generator, dtype=torch.float64)
    b = torch.randn(2, 2, generator=generator, dtype=torch.float64)
    moved = moments_of(h, y)
    moved.carry(W, b)
    after = h.clone()
    after[..., 2:] += h @ W.transpose(1, 2) + b.unsqueeze(1)
    check_same(moved, after, y)
    a, c = torch.tensor([2.0, 0.5]).double(), torch.tensor([1.0, -3.0]).double()
    changed = moments_of(h, y)
    changed.rescale_inputs(Change(a, c, torch.tensor([True, True])))
    after = h.clone()
    after[..., :2] = a * h[..., :2] + c
    check_same(changed, after, y)


def test_noise_goes_to_every_class_by_its_samples() -> None:
    h, y = samples()
    moments, plain = moments_of(h, y), moments_of(h, y)
    left = torch.eye(2).double().expand(2, -1, -1) * torch.tensor([0.5, 2.0]).double()[:, None, None]
    moments.blur(left)
    added = moments.own - plain.own
    counts = torch.bincount(y).double()
    for k in range(3):
        torch.testing.assert_close(added[:, k, 2:4, 2:4], counts[k] * left)
    torch.testing.assert_close(moments.A, moments.own.sum(1))


def test_a_choice_between_two_is_made_for_each_run() -> None:
    one, other = moments_of(*samples(seed=1)), moments_of(*samples(seed=2))
    expected = torch.stack([one.own[0], other.own[1]])
    found = one.where(torch.tensor([True, False])[:, None, None], other)
    assert torch.equal(found.own, expected)
    assert torch.equal(found.A, torch.stack([one.A[0], other.A[1]]))


def test_where_they_are_not_kept_apart_the_shared_ones_are_the_same() -> None:
    h, y = samples()
    Y = torch.eye(3)[y].expand(2, -1, -1)
    shared, apart = ClassMoments(2, 7, 3, apart=False), ClassMoments(2, 7, 3)
    for moments in (shared, apart):
        moments.add_with_inputs(h[0, :, :3], h, Y)
    assert shared.own.numel() == 0
    torch.testing.assert_close(shared.A, apart.A)


@pytest.mark.parametrize(("a", "r"), [(0.0, 1e-9), (0.3, 0.1), (1.0, 0.05)])
def test_the_outputs_are_logarithms_of_the_classes_probabilities(a: float, r: float) -> None:
    """Differences between classes against SciPy's densities, with covariances mixed by hand; another one per run."""
    h, y = samples(n=200)
    mass = torch.tensor([10.0, 40.0, 50.0]).double()
    shares = torch.tensor([a, 0.5]).double()
    found = QuadraticDiscriminant(moments_of(h, y), shares, torch.tensor([r, r]).double(), mass)(h[:, :20])
    for run, mine in enumerate(shares.tolist()):
        one, labels = h[run].numpy(), y.numpy()
        V = np.stack([np.cov(one[labels == k].T, bias=True) for k in range(3)])
        within = np.tensordot(np.bincount(labels) / len(labels), V, 1)
        S = (1 - mine) * V + mine * within + r * np.diag(within).mean() * np.eye(4)
        logs = np.stack([multivariate_normal(one[labels == k].mean(0), S[k]).logpdf(one[:20]) for k in range(3)], 1)
        logs += np.log(mass.numpy() / 100)
        for i, j in combinations(range(3), 2):
            difference = (found[run, :, i] - found[run, :, j]).numpy()
            np.testing.assert_allclose(difference, logs[:, i] - logs[:, j], rtol=1e-7, atol=1e-7)


def test_a_class_without_samples_has_its_prior_alone_and_a_broken_run_stays_alone() -> None:
    h, y = samples(classes=2)
    moments = ClassMoments(2, 4, 3)
    moments.add(h, torch.eye(3, dtype=torch.float64)[y].expand(2, -1, -1))
    half = torch.full((2,), 0.5).double()
    found = QuadraticDiscriminant(moments, half, half, torch.tensor([30.0, 30.0, 0.0]).double())
    assert bool((found(h).argmax(-1) < 2).all())
    assert torch.isfinite(found(h)).all()
    moments.own[1, 0, 0, 0] = float("inf")
    broken = QuadraticDiscriminant(moments, half, half, torch.tensor([30.0, 30.0, 0.0]).double())
    torch.testing.assert_close(broken(h)[0], found(h)[0])
    assert not torch.isfinite(broken(h)[1]).any()
