"""The embedded default: scikit-learn's handwritten digits, 1797 images of 8 x 8 pixels in ten classes."""

from __future__ import annotations

import numpy as np

from efc.data.dataset import Dataset

CLASSES = tuple(str(digit) for digit in range(10))


def load() -> Dataset:
    """Pixels in [0, 1]; a fixed, stratified fifth of the images is the test part (the set has none of its own)."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(
        (x / 16.0).astype(np.float32), y.astype(np.int64), test_size=0.2, stratify=y, random_state=0
    )
    return Dataset("digits", x_train, y_train, x_test, y_test, CLASSES)
