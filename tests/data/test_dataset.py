"""What a data set refuses to hold, and the digest that stands for what it holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from efc.data.dataset import Dataset
from efc.errors import EFCError
from support.tasks import toy_dataset


def test_bad_data_are_refused() -> None:
    good = toy_dataset()
    with pytest.raises(EFCError, match="NaN"):
        Dataset("bad", good.x_train * np.nan, good.y_train, good.x_test, good.y_test, good.class_names)
    with pytest.raises(EFCError, match="labels"):
        Dataset("bad", good.x_train, good.y_train + 1, good.x_test, good.y_test, good.class_names)
    with pytest.raises(EFCError, match="features"):
        Dataset("bad", good.x_train, good.y_train, good.x_test[:, :3], good.y_test, good.class_names)
    with pytest.raises(EFCError, match="with N labels"):
        replace(good, y_test=good.y_test[:-1])
    with pytest.raises(EFCError, match="with N labels"):
        replace(good, x_train=good.x_train[:0], y_train=good.y_train[:0])


@pytest.mark.parametrize("kind", [np.float64, np.int64, np.int32])
def test_what_float32_would_round_away_is_refused(kind: type) -> None:
    """0, 1, 2, 3 about 1e9, where float32 counts by 64s: all the same to it. About 1e6 they are themselves, and
    the same numbers where they are already rounded, or differ by no more than double precision's last digits, are no
    loss either."""
    good = toy_dataset()
    x = np.arange(good.x_train.size).reshape(good.x_train.shape) % 4
    replace(good, x_train=(x + 10**6).astype(kind))
    with pytest.raises(EFCError, match=r"feature 0 of x_train varies by [23] about 1e\+09, which float32 rounds away"):
        replace(good, x_train=(x + 10**9).astype(kind))
    replace(good, x_train=(128 * x + 2**30).astype(kind))
    replace(good, x_train=np.where(x > 1, 0.1 + 0.2, 0.3))


def test_the_digest_is_of_the_content_and_not_of_the_name_or_the_memory() -> None:
    good = toy_dataset()
    assert len(good.digest()) == 16
    assert replace(good, name="other").digest() == good.digest()
    assert replace(good, x_train=np.asfortranarray(good.x_train)).digest() == good.digest()


@pytest.mark.parametrize("changed", ["x_train", "y_train", "x_test", "y_test", "class_names", "scale", "dtype"])
def test_anything_else_changes_the_digest(changed: str) -> None:
    good = toy_dataset()
    x, y = good.x_train.copy(), good.y_test.copy()
    x[-1, -1] += 1
    y[0] = y[0] - 1 if y[0] else 1
    changes: dict[str, dict[str, Any]] = {
        "x_train": {"x_train": x},
        "y_train": {"y_train": good.y_train[::-1]},
        "x_test": {"x_test": good.x_test[::-1]},
        "y_test": {"y_test": y},
        "class_names": {"class_names": tuple(f"{name}!" for name in good.class_names)},
        "scale": {"scale": 2.0},
        "dtype": {"x_train": good.x_train.astype(np.float64)},
    }
    assert replace(good, **changes[changed]).digest() != good.digest()
