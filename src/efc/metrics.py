"""Measures of continual learning, each with one number per run.

``A[i, j]`` is the accuracy on task j after learning task i: (R, T, T), in per cent, NaN above the diagonal (tasks not
yet met). ``before[j]`` is the accuracy on task j just before it is learned, ``untrained[j]`` that of the initial
network. ``confusion[k, l]`` counts the test samples of output k answered as l, after the last task: (R, K, K).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def final_accuracy(A: Array) -> Array:
    """``mean_j A[T, j]``: average accuracy over all tasks after the last one (Lopez-Paz & Ranzato, 2017: ACC)."""
    return np.asarray(A[:, -1].mean(-1))


def sample_accuracy(confusion: Array, samples: int | None = None) -> Array:
    """``sum_k confusion[k, k] / samples``, per cent: accuracy over all test samples after the last task, where
    :func:`final_accuracy` is the mean over tasks. ``samples``: how many there are, if a run may have left some out."""
    right = np.trace(confusion, axis1=-2, axis2=-1)
    total = confusion.sum((-2, -1)) if samples is None else np.full_like(right, samples)
    return np.asarray(100 * np.divide(right, total, out=np.zeros_like(right, dtype=float), where=total > 0))


def average_incremental_accuracy(A: Array) -> Array:
    """``mean_i mean_{j<=i} A[i, j]``: the average, over all moments, of the average so far (Rebuffi et al., 2017)."""
    return np.asarray(np.nanmean(A, axis=2).mean(-1))


def forgetting(A: Array) -> Array:
    """``mean_{j<T} max_{i<T} (A[i, j] - A[T, j])`` (Chaudhry et al., 2018); zero when there is a single task."""
    if A.shape[1] == 1:
        return np.zeros(len(A))
    earlier = A[:, :-1, :-1]
    best = np.where(np.isnan(earlier), -np.inf, earlier).max(1)
    best = np.where(np.isinf(best), A[:, -1, :-1], best)  # in a stream, a class may come late
    return np.asarray((best - A[:, -1, :-1]).mean(-1))


def backward_transfer(A: Array) -> Array:
    """``mean_{j<T} (A[T, j] - A[j, j])`` (Lopez-Paz & Ranzato, 2017); zero when there is a single task.

    In a stream without tasks ``A[j, j]`` is the first that was measured.
    """
    if A.shape[1] == 1:
        return np.zeros(len(A))
    first = np.isfinite(A).argmax(1)
    own = np.take_along_axis(A, first[:, None], 1)[:, 0]
    return np.asarray((A[:, -1, :-1] - own[:, :-1]).mean(-1))


def forward_transfer(before: Array, untrained: Array) -> Array:
    """``mean_{j>1} (before[j] - untrained[j])`` (Lopez-Paz & Ranzato, 2017); zero when there is a single task.

    How much earlier tasks help with one not learned yet, against a network that has learned nothing. It says most in
    Domain-IL, where the outputs are shared; in Class- and Task-IL the new classes' outputs are still untrained.
    """
    if before.shape[1] == 1:
        return np.zeros(len(before))
    return np.asarray((before - untrained)[:, 1:].mean(-1))


def prediction_share(confusion: Array, outputs: Sequence[slice]) -> Array:
    """Share of all answers that fall on each task's ``outputs``, (R, T), per cent.

    The calibration of old against new classes: in Class-IL a network that forgets answers with the last task's classes
    whatever it is shown (Wu et al., 2019, call it the bias towards new classes). Compare with :func:`true_share`.
    """
    return _shares(confusion.sum(1), outputs)


def true_share(confusion: Array, outputs: Sequence[slice]) -> Array:
    """Share of the test samples that belong to each task's ``outputs``, (R, T), per cent: what is right."""
    return _shares(confusion.sum(2), outputs)


def _shares(counts: Array, outputs: Sequence[slice]) -> Array:
    """``counts`` (R, K) added up over each task's outputs, as per cent of the total."""
    parts = np.stack([counts[:, o].sum(-1) for o in outputs], 1)
    total = parts.sum(-1, keepdims=True)
    return np.asarray(np.divide(100 * parts, total, out=np.zeros_like(parts), where=total > 0))


ADAPTED, LAST = 8, 10
"""A class counts as learned when so many of its last so many samples were answered rightly before they were learned."""


def prequential_curve(hits: Array, points: int) -> tuple[Array, Array]:
    """(samples so far, per cent right) at so many points of a stream: each sample was answered before it was learned,
    and every point stands for those since the one before (Gama, Sebastião & Rodrigues, 2013)."""
    ends = np.unique(np.linspace(0, len(hits), min(points, len(hits)) + 1).round().astype(int))[1:]
    sums = np.diff(np.concatenate([[0.0], np.cumsum(hits)[ends - 1]]))
    return ends.astype(float), 100 * sums / np.diff(np.concatenate([[0], ends]))


def adaptation_times(hits: Array, classes: npt.NDArray[np.integer], n_classes: int) -> list[float | None]:
    """How many samples of each class came until it was learned; None where it was not."""
    found: list[float | None] = []
    for k in range(n_classes):
        own = np.concatenate([[0.0], np.cumsum(hits[classes == k])])
        learned = np.flatnonzero(own[LAST:] - own[:-LAST] >= ADAPTED) if len(own) > LAST else np.array([])
        found.append(float(learned[0] + LAST) if len(learned) else None)
    return found
