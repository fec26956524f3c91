"""A data set: arrays with a training and a test part, and the names of its classes."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from efc.errors import EFCError

Features = npt.NDArray[np.floating | np.integer]
IntArray = npt.NDArray[np.integer]
LARGEST = float(np.finfo(np.float32).max)
COARSE = 0.05
"""The error of rounding to float32, as a share of a feature's range, from which on too little of it is left."""


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
            if not np.issubdtype(y.dtype, np.integer):
                raise EFCError(f"{self.name}: labels in y_{part} must be whole numbers, got {y.dtype}")
            self._check_values(part, x)
            if part == "train":
                self._check_rounding(x)
            if y.min() < 0 or y.max() >= len(self.class_names):
                raise EFCError(f"{self.name}: labels in y_{part} must lie in 0..{len(self.class_names) - 1}")
        if self.x_train.shape[1] != self.x_test.shape[1]:
            raise EFCError(
                f"{self.name}: training data have {self.x_train.shape[1]} features, test data {self.x_test.shape[1]}"
            )

    def _check_values(self, part: str, x: Features) -> None:
        """All finite, and in float32 too, which is what is computed in."""
        if x.dtype.kind not in "biuf" or not x.dtype.isnative or x.dtype.itemsize > 8:
            raise EFCError(f"{self.name}: x_{part} must hold the machine's own numbers of up to 64 bits, got {x.dtype}")
        if not np.isfinite(self.scale) or self.scale == 0:
            raise EFCError(f"{self.name}: scale is {self.scale}; it must be a finite number other than 0")
        if x.dtype.kind != "f" and abs(self.scale) <= 1:
            return
        chunks = [x[i : i + 4096] for i in range(0, len(x), 4096)] if x.shape[1] else []
        ends = [float(end) for chunk in chunks for end in (chunk.min(), chunk.max())]
        if not np.isfinite(ends).all():
            raise EFCError(f"{self.name}: x_{part} holds NaN or infinite values")
        largest = max(map(abs, ends), default=0.0)
        if largest * max(1.0, abs(self.scale)) > LARGEST:
            times = "" if self.scale == 1 else f", times a scale of {self.scale:g}"
            raise EFCError(
                f"{self.name}: x_{part} holds values up to {largest:g}{times}; "
                f"float32 ends at {LARGEST:g}: divide them by a number before"
            )

    def _check_rounding(self, x: Features) -> None:
        """That float32 does not round away what a feature varies by. What double precision makes of a constant is no
        variation."""
        if x.dtype.itemsize < 4 or x.dtype == np.float32 or not x.shape[1]:
            return
        chunks = [x[i : i + 4096] for i in range(0, len(x), 4096)]
        low = np.array([c.min(0) for c in chunks], np.float64).min(0)
        high = np.array([c.max(0) for c in chunks], np.float64).max(0)
        error = np.max([abs(c.astype(np.float32).astype(np.float64) - c).max(0) for c in chunks], 0)
        size, varies = np.maximum(abs(low), abs(high)), high - low
        lost = np.flatnonzero((error > COARSE * varies) & (varies > 1e-12 * size) & (size > 1e-30))
        if len(lost):
            k = lost[0]
            told = f"feature {k} of x_train varies by {varies[k]:.3g} about {low[k]:g}, which float32 rounds away"
            raise EFCError(f"{self.name}: {told}: subtract an offset from it before")
