"""A data set: arrays with a training and a test part, and the names of its classes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from efc.errors import EFCError

Features = npt.NDArray[np.floating | np.integer]
IntArray = npt.NDArray[np.integer]


@dataclass(frozen=True)
class Dataset:
    """Features (N, d) and integer labels 0..K-1 (N,), training and test part."""

    name: str
    x_train: Features
    y_train: IntArray
    x_test: Features
    y_test: IntArray
    class_names: tuple[str, ...]
    scale: float = 1.0
    """What the features are multiplied by when they become floating-point numbers: data may stay bytes until then."""

    def digest(self) -> str:
        """Sixteen hexadecimal digits that stand for the data: what they are, not where they lie."""
        total = hashlib.blake2b(digest_size=8)
        for array in (self.x_train, self.y_train, self.x_test, self.y_test):
            total.update(f"{array.dtype}{array.shape}".encode())
            total.update(np.ascontiguousarray(array).data)
        total.update(repr((self.class_names, self.scale)).encode())
        return total.hexdigest()

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            x, y = getattr(self, f"x_{part}"), getattr(self, f"y_{part}")
            if x.ndim != 2 or len(x) != len(y) or len(x) == 0:
                raise EFCError(f"{self.name}: x_{part} must be (N, d) with N labels, got {x.shape} and {len(y)} labels")
            if np.issubdtype(x.dtype, np.floating) and not all(
                np.isfinite(x[i : i + 4096]).all() for i in range(0, len(x), 4096)
            ):
                raise EFCError(f"{self.name}: x_{part} holds NaN or infinite values")
            if y.min() < 0 or y.max() >= len(self.class_names):
                raise EFCError(f"{self.name}: labels in y_{part} must lie in 0..{len(self.class_names) - 1}")
        if self.x_train.shape[1] != self.x_test.shape[1]:
            raise EFCError(
                f"{self.name}: training data have {self.x_train.shape[1]} features, test data {self.x_test.shape[1]}"
            )
