"""Data sets of Hugging Face's ``datasets``: columns of numbers, of vectors or of pictures, as a data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from efc.adapters.arrays import from_arrays
from efc.data.dataset import Dataset
from efc.errors import EFCError, shown, suggest

if TYPE_CHECKING:
    import datasets

TESTS = ("test", "validation", "valid", "val")


def from_hugging_face(
    data: datasets.Dataset | datasets.DatasetDict,
    features: str | Sequence[str],
    label: str = "label",
    test: datasets.Dataset | None = None,
    name: str = "hugging-face",
) -> Dataset:
    """One column or several, beside each other, as features; ``label`` as classes, by their names if it has any.

    ``data`` with parts is taken at ``train`` and at ``test`` (or ``validation``). Without a test part a fifth of each
    class is set aside for it. Pictures must all have one size; ``datasets`` resizes them with ``map``.
    """
    if isinstance(data, Mapping):
        if "train" not in data:
            raise EFCError(f"data: there is no part 'train', only {', '.join(data)}; give the part you mean")
        part = next((data[key] for key in TESTS if key in data), None)
        data, test = data["train"], part if test is None else test
    if not hasattr(data, "column_names"):
        raise EFCError(f"data: expected a data set of the package datasets, loaded, got {shown(data)}")
    columns = [features] if isinstance(features, str) else list(features)
    for column in (*columns, label):
        if column not in data.column_names:
            near, there = suggest(column, data.column_names), ", ".join(data.column_names)
            raise EFCError(f"column: there is no {column!r}{near}; there are {there}")
    classes = getattr(data.features[label], "names", None)
    parts = [(_features(part, columns), _labels(part, label)) for part in (data, test) if part is not None]
    return from_arrays(name, parts[0], parts[1] if len(parts) > 1 else None, classes)


def _features(data: datasets.Dataset, columns: list[str]) -> npt.NDArray[np.generic]:
    """(N, d), all columns beside each other."""
    found = []
    for column in columns:
        values = [np.asarray(value) for value in data.select_columns([column])[column]]
        shapes = {value.shape for value in values}
        if len(shapes) != 1:
            raise EFCError(f"column: {column!r} holds arrays of {len(shapes)} shapes; bring them to one size first")
        found.append(np.stack(values).reshape(len(values), -1))
    return np.concatenate(found, 1)


def _labels(data: datasets.Dataset, label: str) -> npt.NDArray[np.generic]:
    return np.asarray(cast(list[object], data[label][:] if hasattr(data[label], "__getitem__") else data[label]))
