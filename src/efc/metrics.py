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


def average_incremental_accuracy(A: Array) -> Array:
    """``mean_i mean_{j<=i} A[i, j]``: the average, over all moments, of the average so far (Rebuffi et al., 2017)."""
    return np.asarray(np.nanmean(A, axis=2).mean(-1))


def forgetting(A: Array) -> Array:
    """``mean_{j<T} max_{i<T} (A[i, j] - A[T, j])`` (Chaudhry et al., 2018); zero when there is a single task."""
    if A.shape[1] == 1:
        return np.zeros(len(A))
    best = np.nanmax(A[:, :-1, :-1], axis=1)
    return np.asarray((best - A[:, -1, :-1]).mean(-1))


def backward_transfer(A: Array) -> Array:
    """``mean_{j<T} (A[T, j] - A[j, j])`` (Lopez-Paz & Ranzato, 2017); zero when there is a single task."""
    if A.shape[1] == 1:
        return np.zeros(len(A))
    own = np.diagonal(A, axis1=1, axis2=2)
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
