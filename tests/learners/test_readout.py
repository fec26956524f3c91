"""Heads read off moments: against scikit-learn, against refits, and what the discriminant does for rare classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from efc.learners import SGD, Options, TaskData
from efc.learners.readout import READOUTS, Discriminant, Readout, Regression
from efc.learners.ridge import RidgeMoments

Array = NDArray[np.float64]


def clouds(counts: list[int], d: int, seed: int = 0, spread: float = 1.0) -> tuple[Array, NDArray[np.int64]]:
    """Gaussian classes with one covariance, that many samples of each."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(counts)), counts)
    mix = rng.normal(size=(d, d)) / np.sqrt(d) + np.eye(d)
    return rng.normal(size=(len(counts), d))[y] * spread + rng.normal(size=(len(y), d)) @ mix + 3.0, y


def read(
    kind: type[Readout], h: Array, y: NDArray[np.int64], ridge: float, C: int, mass: Array | None = None
) -> Readout:
    moments = RidgeMoments(1, h.shape[1], C).add(torch.tensor(h)[None], one_hot(y, C))
    counts = np.bincount(y, minlength=C).astype(float) if mass is None else mass
    return kind(moments, torch.full((1, 1, 1), ridge, dtype=torch.float64), torch.tensor(counts))


def one_hot(y: NDArray[np.int64], C: int) -> torch.Tensor:
    return torch.tensor(np.eye(C)[y])[None]


def outputs(found: Readout, h: Array) -> Array:
    return np.asarray(h @ found.W[0].numpy().T + found.b[0].numpy())


def relative(z: Array) -> Array:
    """What all classes share says nothing."""
    return np.asarray(z - z.mean(1, keepdims=True))


def by_definition(h: Array, y: NDArray[np.int64], ridge: float, C: int, at: Array) -> Array:
    """Log densities of Gaussians by their definition, with the correction for means of few samples."""
    counts = np.bincount(y, minlength=C)
    means = np.stack([h[y == k].mean(0) for k in range(C)])
    within = (h - means[y]).T @ (h - means[y]) / len(h)
    S = within + ridge * np.eye(h.shape[1])
    d = np.trace(np.linalg.solve(S, within))
    d_eff = d / (1 - d / len(h))
    away = at[:, None] - means
    squares = np.einsum("nkd,de,nke->nk", away, np.linalg.inv(S), away)
    return np.asarray(-0.5 * squares + 0.5 * d_eff / counts + np.log(counts / counts.sum()))


def test_the_discriminant_is_scikit_learns_but_for_the_correction_of_means() -> None:
    h, y = clouds([40, 70, 25], 6)
    found = read(Discriminant, h, y, 1e-12, 3)
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(h, y)
    d_eff = 6 / (1 - 6 / len(y))
    expected = relative(theirs.decision_function(h) + 0.5 * d_eff / np.bincount(y))
    np.testing.assert_allclose(relative(outputs(found, h)), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("ridge", [1e-3, 0.3])
def test_the_discriminant_is_the_log_density_of_gaussians(ridge: float) -> None:
    h, y = clouds([12, 7, 5], 20)  # more features than samples
    found = read(Discriminant, h, y, ridge, 3)
    expected = by_definition(h, y, ridge, 3, h)
    np.testing.assert_allclose(relative(outputs(found, h)), relative(expected), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("kind", READOUTS.values())
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), counts=st.lists(st.integers(2, 9), min_size=2, max_size=4), d=st.integers(1, 12))
def test_a_sample_left_out_is_answered_as_by_a_head_that_never_saw_it(
    kind: type[Readout], seed: int, counts: list[int], d: int
) -> None:
    h, y = clouds(counts, d, seed)
    C, ridge = len(counts), 0.05
    N = len(y)
    all_of_them = read(kind, h, y, ridge, C)
    found = all_of_them.left_out(torch.tensor(h)[None], one_hot(y, C), None)[0].numpy()
    for i in range(0, N, 3):
        others = np.arange(N) != i
        if kind is Discriminant:  # the sums without the sample, in units of the same N; effective dimension and priors
            refit = read(kind, h[others], y[others], ridge * N / (N - 1), C)  # are those of all samples
            z = outputs(refit, h[i : i + 1])[0] * N / (N - 1)
            fewer = np.bincount(y[others], minlength=C)
            ours, theirs = all_of_them, refit
            assert isinstance(ours, Discriminant)
            assert isinstance(theirs, Discriminant)
            z -= (0.5 * float(theirs.d_eff) / fewer + theirs.prior.numpy()) * N / (N - 1)
            z += 0.5 * float(ours.d_eff) / fewer + ours.prior.numpy()
        else:
            A = np.hstack([h, np.ones((N, 1))])
            V = np.linalg.solve(A[others].T @ A[others] + ridge * N * np.eye(d + 1), A[others].T @ np.eye(C)[y[others]])
            z = A[i] @ V
        shown = relative(found[i : i + 1]) if kind is Discriminant else found[i : i + 1]
        expected = relative(z[None]) if kind is Discriminant else z[None]
        np.testing.assert_allclose(shown, expected, rtol=1e-6, atol=1e-7)


def test_of_few_samples_with_many_features_each_is_left_out_too() -> None:
    """With hardly any ridge every sample of its own is met exactly, and without it nothing is known of its direction.
    The covariance without it comes from the means and deviations of the others."""
    h, y = clouds([6, 5, 7], 30, 3)
    found = read(Discriminant, h, y, 1e-6, 3)
    assert isinstance(found, Discriminant)
    z = found.left_out(torch.tensor(h)[None], one_hot(y, 3), None)[0].numpy()
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        means = np.stack([h[others & (y == k)].mean(0) for k in range(3)])
        v = h[others] - means[y[others]]
        P = np.linalg.inv(v.T @ v / len(y) + 1e-6 * np.eye(30))
        offsets = 0.5 * float(found.d_eff) / np.bincount(y[others]) + found.prior.numpy().reshape(-1)
        expected = means @ P @ h[i] - 0.5 * np.einsum("kd,de,ke->k", means, P, means) + offsets
        np.testing.assert_allclose(relative(z[i : i + 1]), relative(expected[None]), rtol=1e-3)


def test_the_only_sample_of_a_class_stays_in() -> None:
    h, y = clouds([8, 1, 5], 4)
    found = read(Discriminant, h, y, 0.1, 3)
    left_out = found.left_out(torch.tensor(h)[None], one_hot(y, 3), None)[0].numpy()
    assert np.isfinite(left_out).all()
    single = relative(left_out[8:9])
    np.testing.assert_allclose(single, relative(outputs(found, h[8:9])), rtol=1e-9)


def test_classes_without_samples_are_never_answered() -> None:
    h, y = clouds([30, 0, 30], 4)
    found = read(Discriminant, h, y, 0.1, 3)
    z = outputs(found, h)
    assert np.isfinite(z).all()
    assert not (z.argmax(1) == 1).any()


def test_a_rare_class_is_found_by_the_discriminant_and_lost_by_regression() -> None:
    """Three samples of a class, two hundred of each other one, a hundred features: how many of its samples are found.
    Without the correction of its mean it seems too far away."""
    recalls: dict[str, list[float]] = {"discriminant": [], "uncorrected": [], "regression": []}
    for seed in range(5):
        h, y = clouds([400, 400, 400, 400], 100, seed, spread=0.4)
        rare = np.flatnonzero(y == 3)
        kept, asked = np.concatenate([np.flatnonzero(y < 3)[::2], rare[:3]]), h[rare[3:]]
        found = read(Discriminant, h[kept], y[kept], 0.1, 4)
        assert isinstance(found, Discriminant)
        z = outputs(found, asked)
        answers = {
            "discriminant": z,
            "uncorrected": z - 0.5 * (found.d_eff / found.n)[0].numpy(),
            "regression": outputs(read(Regression, h[kept], y[kept], 0.1, 4), asked),
        }
        for name, answer in answers.items():
            recalls[name].append(float((answer.argmax(1) == 3).mean()))
    means = {name: float(np.mean(values)) for name, values in recalls.items()}
    assert means["discriminant"] > 0.8
    assert means["uncorrected"] < 0.8
    assert means["regression"] < 0.1


def test_the_effective_dimension_is_what_new_samples_show() -> None:
    """A third as many features as samples: in the samples themselves it would be a third less."""
    rng = np.random.default_rng(0)
    h, new = rng.normal(size=(300, 100)), rng.normal(size=(5000, 100))
    y = np.arange(300) % 2
    found = read(Discriminant, h, y, 1e-9, 2)
    assert isinstance(found, Discriminant)
    v = torch.tensor(new)[None]  # the classes' means are all zero
    shown = float((v * found.inverse(v.transpose(1, 2)).transpose(1, 2)).sum(-1).mean())
    assert float(found.d_eff) == pytest.approx(shown, rel=0.1)
    assert shown > 130


def test_weights_of_classes_are_their_priors() -> None:
    h, y = clouds([100, 20], 3, spread=0.3)
    plain = outputs(read(Discriminant, h, y, 1e-2, 2), h)
    weighted = outputs(read(Discriminant, h, y, 1e-2, 2, mass=np.array([1.0, 1.0])), h)
    np.testing.assert_allclose(relative(weighted)[:, 1] - relative(plain)[:, 1], 0.5 * np.log(5), rtol=1e-9)
    assert (weighted.argmax(1) == 1).sum() > (plain.argmax(1) == 1).sum()


def test_regression_takes_weights_into_its_moments() -> None:
    assert Regression.counts_weights
    assert not Discriminant.counts_weights


@pytest.mark.parametrize("readout", list(READOUTS))
@pytest.mark.parametrize("head", ["analytic", "compensated", "input_compensated"])
def test_a_head_ends_as_its_readout_says_over_two_tasks_with_weights(head: str, readout: str) -> None:
    """Nothing trained: features of both tasks together, weights as priors or in the sums."""
    options = Options(inputs="raw", drift="trusted", skip="off", ridge=1e-2, readout=readout)
    learner = SGD((4, 6, 4), [0], options, head=head, dtype=torch.float64)
    h, y = clouds([30, 9, 20, 5], 4)
    given = torch.tensor(np.array([1.0, 2.0, 0.5, 4.0])[y])
    for first in (0, 2):
        mine = torch.tensor((y == first) | (y == first + 1))
        task = TaskData(
            torch.tensor(h)[mine],
            torch.tensor(y)[mine],
            slice(0, first + 2),
            slice(first, first + 2),
            1,
            None,
            given[mine],
        )
        learner.begin_task(task)
        learner.end_task(task)
        assert torch.isfinite(learner.head_policy.misfit(task)[0]).all()  # type: ignore[attr-defined]
    features = torch.relu(torch.tensor(h) @ learner.layers.weights[0][0].T + learner.layers.biases[0][0])
    weights = given if readout == "regression" else None
    moments = RidgeMoments(1, 6, 4).add(features[None], one_hot(y, 4), weights)
    mass = torch.zeros(4, dtype=torch.float64).index_add(0, torch.tensor(y), given)
    expected = READOUTS[readout](moments, torch.full((1, 1, 1), 1e-2, dtype=torch.float64), mass)
    torch.testing.assert_close(learner.layers.weights[-1], expected.W, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(learner.layers.biases[-1], expected.b, rtol=1e-7, atol=1e-9)
    again = SGD((4, 6, 4), [0], options, head=head, dtype=torch.float64)
    again.load_state_dict(learner.state_dict())
    task = replace(task, weights=None)
    for one in (learner, again):
        one.begin_task(task)
        one.end_task(task)
    assert torch.equal(learner.theta, again.theta)


def test_a_run_that_diverged_does_not_take_its_neighbour_down() -> None:
    h, y = clouds([10, 10], 3)
    moments = RidgeMoments(2, 3, 2)
    both = torch.tensor(np.stack([h, h]))
    both[1, 0, 0] = float("inf")
    moments.add(both, one_hot(y, 2).expand(2, -1, -1))
    found = Discriminant(moments, torch.full((1, 1, 1), 0.1, dtype=torch.float64), torch.tensor([10.0, 10.0]).double())
    assert torch.isfinite(found.W[0]).all()
    assert not torch.isfinite(found.W[1]).any()
    torch.testing.assert_close(found.W[0], read(Discriminant, h, y, 0.1, 2).W[0])


@pytest.mark.parametrize("ridge", [1e-6, 0.3])
def test_how_far_out_samples_lie_is_that_of_refits_without_them(ridge: float) -> None:
    """More features than samples; the only sample of a class says nothing."""
    h, y = clouds([6, 4, 1], 15)
    found = read(Discriminant, h, y, ridge, 3).excess(torch.tensor(h)[None], one_hot(y, 3))[0].numpy()
    for k in range(len(y) - 1):
        others = np.arange(len(y)) != k
        means = np.stack([h[others & (y == c)].mean(0) for c in range(3)])
        within = (h - means[y])[others].T @ (h - means[y])[others] / len(h)
        v = h[k] - means[y[k]]
        assert found[k] == pytest.approx(v @ np.linalg.solve(within + ridge * np.eye(15), v) / 15, rel=1e-4)
    assert np.isnan(found[-1])


def test_a_covariance_of_many_samples_is_as_wide_as_new_samples_need_it() -> None:
    h, y = clouds([2000, 2000], 5)
    found = read(Discriminant, h, y, 1e-9, 2).excess(torch.tensor(h)[None], one_hot(y, 2))
    assert float(found.mean()) == pytest.approx(1.0, abs=0.02)
    assert float(read(Regression, h, y, 1e-3, 2).excess(torch.tensor(h)[None], one_hot(y, 2)).mean()) == 1.0
