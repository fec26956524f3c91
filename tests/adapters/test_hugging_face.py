"""Hugging Face's data sets, local ones: vectors, pictures, columns, parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from efc.adapters.hugging_face import from_hugging_face
from efc.errors import EFCError

datasets = pytest.importorskip("datasets", reason="datasets is not installed (extra: hugging-face)")
LABELS = [2, 0, 1, 0, 2, 1, 0, 1, 2, 0]
VECTORS = np.arange(30.0).reshape(10, 3)


def made(**columns: object) -> object:
    named = datasets.Features({"label": datasets.ClassLabel(names=["z", "y", "x"])})
    data = datasets.Dataset.from_dict({"label": LABELS, **columns})
    return data.cast_column("label", named["label"])


def test_vectors_beside_numbers_keep_their_order_and_names(tmp_path: Path) -> None:
    made(v=VECTORS.tolist(), n=list(range(10))).save_to_disk(tmp_path / "set")
    data = datasets.load_from_disk(tmp_path / "set")
    parts = datasets.DatasetDict({"train": data.select(range(6)), "validation": data.select(range(6, 10))})
    found = from_hugging_face(parts, ["v", "n"])
    assert found.class_names == ("z", "y", "x")  # as the labels are numbered, not sorted
    assert found.y_train.tolist() == LABELS[:6]
    assert found.x_test.tolist() == np.column_stack([VECTORS, range(10)])[6:].tolist()


def test_pictures_are_pixels() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (10, 4, 5, 3), dtype=np.uint8)
    named = datasets.Features({"label": datasets.ClassLabel(names=["z", "y", "x"]), "image": datasets.Image()})
    data = datasets.Dataset.from_dict({"label": LABELS, "image": list(pixels)}, features=named)
    found = from_hugging_face(data, "image", test=data)
    assert found.x_train.dtype == np.uint8
    assert (found.x_test == pixels.reshape(10, -1)).all()
    assert found.scale == 1 / 255


def test_mistakes_are_told() -> None:
    data = made(v=VECTORS.tolist(), ragged=[[0.0] * (1 + k % 2) for k in range(10)])
    with pytest.raises(EFCError, match="did you mean 'label'"):
        from_hugging_face(data, "v", label="labels")
    with pytest.raises(EFCError, match="'ragged' holds arrays of 2 shapes"):
        from_hugging_face(data, "ragged")
    with pytest.raises(EFCError, match="only test"):
        from_hugging_face(datasets.DatasetDict({"test": data}), "v")


def test_a_label_that_is_missing_is_no_class() -> None:
    data = datasets.Dataset.from_dict({"label": ["a", None] * 5, "v": VECTORS.tolist()})
    with pytest.raises(EFCError, match=r"labels must be all texts.*None"):
        from_hugging_face(data, "v")


def test_what_is_not_there_is_told_with_what_is() -> None:
    with pytest.raises(EFCError, match=r"column: there is no 'vv'.*; there are label, v$"):
        from_hugging_face(made(v=VECTORS.tolist()), "vv")
    with pytest.raises(EFCError, match="data: expected a data set of the package datasets, loaded, got 'imdb'"):
        from_hugging_face("imdb", "v")
