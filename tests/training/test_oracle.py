"""The oracle's heads against scikit-learn's on the same features, and how its penalty is chosen."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from efc.training.oracle import L2S, Logistic, held_out, oracle, ridge_head

CLOSELY = (1e-8, 1e-14)


def blobs(n: int = 240, d: int = 7, C: int = 6, noise: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Overlapping classes, features of unlike sizes and far from zero; the last feature is constant."""
    g = torch.Generator().manual_seed(1)
    y = torch.arange(n) % C
    centres = torch.randn(C, d, generator=g, dtype=torch.float64)
    H = (centres[y] + noise * torch.randn(n, d, generator=g, dtype=torch.float64)) * torch.logspace(-1, 1, d) + 3
    H[:, -1] = 2.0
    return H, y


def theirs(H: torch.Tensor, y: torch.Tensor, l2: float, samples: int) -> LogisticRegression:
    """They add up what we average, and weigh the sum by C."""
    return LogisticRegression(C=1 / (samples * l2), solver="newton-cg", tol=1e-9, max_iter=1000).fit(
        H.numpy(), y.numpy()
    )


@pytest.mark.parametrize("l2", [1e-1, 1e-3])
def test_logistic_regression_is_scikit_learns(l2: float) -> None:
    H, y = blobs()
    expected, found = theirs(H, y, l2, len(y)), Logistic(H, y, 6).fit(l2, CLOSELY)
    np.testing.assert_allclose(found.W, expected.coef_, atol=1e-5)
    told = torch.softmax(found(H), -1).numpy()
    np.testing.assert_allclose(told, expected.predict_proba(H.numpy()), atol=1e-6)


def test_where_outputs_come_in_groups_each_is_a_regression_of_its_own() -> None:
    """As in Task-IL: an output competes with those of its task alone."""
    H, y = blobs()
    asked = torch.block_diag(torch.ones(3, 3), torch.ones(3, 3)).bool()
    found = Logistic(H, y, 6, asked).fit(1e-2, CLOSELY)
    for group in (slice(0, 3), slice(3, 6)):
        own = (y >= group.start) & (y < group.stop)
        expected = theirs(H[own], y[own], 1e-2, len(y))
        told = torch.softmax(found(H[own])[:, group], -1).numpy()
        np.testing.assert_allclose(told, expected.predict_proba(H[own].numpy()), atol=1e-6)
    assert not np.allclose(torch.softmax(found(H), -1), theirs(H, y, 1e-2, len(y)).predict_proba(H.numpy()), atol=1e-2)


def test_a_penalty_after_another_gives_the_same_as_alone() -> None:
    H, y = blobs()
    several = Logistic(H, y, 6)
    for l2 in L2S[:3]:
        last = several.fit(l2, CLOSELY)
    torch.testing.assert_close(last.W, Logistic(H, y, 6).fit(L2S[2], CLOSELY).W, atol=1e-5, rtol=0)


def test_the_penalty_is_the_one_that_errs_least_on_held_out_data() -> None:
    """Few samples in many directions: without much of a penalty the noise is learned."""
    g = torch.Generator().manual_seed(0)
    y = torch.arange(150) % 3
    H = torch.randn(150, 60, generator=g, dtype=torch.float64)
    H[:, :3] += 2.5 * torch.nn.functional.one_hot(y, 3)
    H /= H.std(0, correction=0)
    held = held_out(y)
    scores = {l2: theirs(H[~held], y[~held], l2, int((~held).sum())).score(H[held], y[held]) for l2 in L2S}
    found = oracle(H, y, 3)
    assert scores[found.l2] == max(scores.values()) > min(scores.values())
    assert found.l2 > min(L2S)
    expected = theirs(H, y, found.l2, len(y))  # and then it is fitted to all
    told = torch.softmax(found.logistic(H), -1).numpy()
    np.testing.assert_allclose(told, expected.predict_proba(H.numpy()), atol=5e-3)


def test_a_share_of_every_class_is_held_out_whatever_their_order() -> None:
    for y in (torch.arange(100) % 5, torch.arange(5).repeat_interleave(20)):
        held = held_out(y)
        assert torch.bincount(y[held]).tolist() == [4] * 5
    assert not held_out(torch.arange(3)).any()


def test_units_do_not_matter() -> None:
    H, y = blobs()
    found, other = oracle(H, y, 6), oracle(H * 1024, y, 6)
    assert found.l2 == other.l2
    torch.testing.assert_close(found.logistic(H), other.logistic(H * 1024), atol=1e-9, rtol=0)


def test_single_precision_answers_alike() -> None:
    H, y = blobs(noise=0.5)
    double, single = oracle(H, y, 6), oracle(H.float(), y, 6)
    assert single.logistic.W.dtype is torch.float32
    same = single.logistic(H.float()).argmax(1) == double.logistic(H).argmax(1)
    assert float(same.double().mean()) > 0.98


def test_features_that_say_nothing_do_no_harm() -> None:
    """A dead layer: all features are zero."""
    y = torch.arange(40) % 4
    found = oracle(torch.zeros(40, 5, dtype=torch.float64), y, 4)
    assert torch.isfinite(found.logistic(torch.zeros(3, 5, dtype=torch.float64))).all()
    assert torch.isfinite(found.ridge(torch.zeros(3, 5, dtype=torch.float64))).all()


def test_the_ridge_head_is_least_squares_where_there_is_no_noise() -> None:
    g = torch.Generator().manual_seed(0)
    y = torch.arange(200) % 4
    H = torch.cat(
        [torch.nn.functional.one_hot(y, 4).double(), torch.randn(200, 3, generator=g, dtype=torch.float64)], 1
    )
    found = ridge_head(H, y, 4)
    torch.testing.assert_close(found(H), torch.nn.functional.one_hot(y, 4).double(), atol=1e-4, rtol=0)
