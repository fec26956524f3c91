"""From arrays, whoever made them, to a data set; and from there to a file that every command takes."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from efc.data.dataset import Dataset, Features
from efc.data.own import number_labels
from efc.errors import EFCError, shown
from efc.files import write_atomically

TEST_SHARE = 0.2
Values = npt.NDArray[np.generic]
Pair = tuple[npt.ArrayLike, npt.ArrayLike]


def from_arrays(name: str, train: Pair, test: Pair | None = None, classes: Sequence[str] | None = None) -> Dataset:
    """Features and labels of both parts. Without ``test`` a fifth of each class is set aside for it, always the same.

    Bytes are taken as pixels, 0 to 1 once they are divided by 255. Labels are whole numbers or texts; ``classes``
    are the names of the labels 0, 1, ...
    """
    x, y = _array(name, "train", train)
    if test is None:
        x, y, test_x, test_y = _parted(name, x, y)
    else:
        test_x, test_y = _array(name, "test", test)
    if (x.dtype == np.uint8) != (test_x.dtype == np.uint8):
        raise EFCError(f"{name}: the training part holds {x.dtype}, the test part {test_x.dtype}; give both alike")
    names, numbers = number_labels(name, {"train": y, "test": test_y})
    if classes is not None:
        names, numbers = _named(name, tuple(classes), {"train": y, "test": test_y})
    scale = 1 / 255 if x.dtype == np.uint8 else 1.0
    return Dataset(name, x, numbers["train"], test_x, numbers["test"], names, scale)


def save_npz(dataset: Dataset, path: Path | str) -> Path:
    """Write a data set to a file for ``efc run --dataset npz:FILE``; labels that are numbers stay numbers."""
    labels = _as_labels(dataset.class_names)
    if len(set(labels.tolist())) < len(labels):
        raise EFCError(f"{dataset.name}: classes must have different names in a file, got {shown(dataset.class_names)}")
    target = Path(path)
    if target.suffix != ".npz":
        raise EFCError(f"path: {target} does not end in .npz")
    content = io.BytesIO()
    np.savez(
        content,
        x_train=dataset.x_train,
        y_train=labels[dataset.y_train],
        x_test=dataset.x_test,
        y_test=labels[dataset.y_test],
        scale=np.array(dataset.scale),
    )
    write_atomically(target, content.getvalue(), "path")
    return target


def _as_labels(names: Sequence[str]) -> Values:
    """The names, or the numbers that they stand for if all do and their order is the same: it numbers the classes."""
    numbers = [int(name) for name in names if re.fullmatch("0|-?[1-9][0-9]{0,17}", name)]
    return np.array(numbers if len(numbers) == len(names) and numbers == sorted(numbers) else names)


def _array(name: str, part: str, pair: Pair) -> tuple[Features, Values]:
    """Features (N, d) and labels (N,)."""
    x, y = np.asarray(pair[0]), np.asarray(pair[1])
    if x.dtype.kind not in "biuf" or x.ndim < 1 or y.ndim != 1 or len(x) != len(y):
        raise EFCError(
            f"{name}: the {part} part must be numbers (N, ...) with N labels, got {x.dtype} {x.shape} and {y.shape}"
        )
    if not len(x):
        raise EFCError(f"{name}: the {part} part is empty")
    if y.dtype == object:
        if not (all(isinstance(label, str) for label in y) or all(type(label) is int for label in y)):
            odd = next(label for label in y if not isinstance(label, str))
            raise EFCError(f"{name}: labels must be all texts or all whole numbers; the {part} part has {shown(odd)}")
        y = y.astype(str)
    x = x.reshape(len(x), -1)
    return (x if x.dtype == np.uint8 or x.dtype.kind == "f" else x.astype(np.float32)), y


def _parted(name: str, x: Features, y: Values) -> tuple[Features, Values, Features, Values]:
    """x, y of the training part, x, y of the test part: the same share of every class."""
    test = np.zeros(len(y), bool)
    for k, label in enumerate(np.unique(y)):
        members = np.flatnonzero(y == label)
        if len(members) < 2:
            raise EFCError(f"{name}: class {shown(str(label))} has one sample; a test part cannot be made, give one")
        count = max(1, round(TEST_SHARE * len(members)))
        test[np.random.default_rng([20260204, k]).permutation(members)[:count]] = True
    return x[~test], y[~test], x[test], y[test]


def _named(
    name: str, classes: tuple[str, ...], labels: dict[str, Values]
) -> tuple[tuple[str, ...], dict[str, npt.NDArray[np.int64]]]:
    """Labels that are numbers of names already."""
    if any(y.dtype.kind in "US" for y in labels.values()):
        raise EFCError(f"{name}: with names of the classes, labels must be their numbers, not texts")
    numbers = {part: y.astype(np.int64) for part, y in labels.items()}
    for part, y in numbers.items():
        if y.min() < 0 or y.max() >= len(classes):
            raise EFCError(f"{name}: labels of the {part} part must lie in 0..{len(classes) - 1}")
    return classes, numbers
