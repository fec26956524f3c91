"""Measures of continual learning, from the accuracy matrix ``A[i, j]``: accuracy on task j after learning task i.

``A`` is (R, T, T), in per cent, NaN above the diagonal (tasks not yet met). Each function returns one number per run.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def final_accuracy(A: Array) -> Array:
    """``mean_j A[T, j]``: average accuracy over all tasks after the last one."""
    return np.asarray(A[:, -1].mean(-1))


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
