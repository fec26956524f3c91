"""MNIST's four files become prepared arrays."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from efc.data import mnist
from efc.data.image_set import finish, open_prepared
from efc.errors import EFCError
from support.images import RNG, idx, pixels


def test_mnist_files_become_prepared_arrays(tmp_path: Path) -> None:
    expected = {}
    for part, stem in (("train", "train"), ("test", "t10k")):
        expected[part] = (pixels(7, 28, 28), RNG.integers(0, 10, 7, dtype=np.uint8))
        (tmp_path / f"{stem}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(expected[part][0])))
        (tmp_path / f"{stem}-labels-idx1-ubyte").write_bytes(idx(expected[part][1]))
    out = tmp_path / "arrays"
    out.mkdir()
    mnist.from_idx(tmp_path, out)
    finish(out, tmp_path / "prepared", mnist.SPEC.class_names, "test")
    data = open_prepared("mnist", tmp_path / "prepared")
    for part, (images, labels) in expected.items():
        np.testing.assert_array_equal(data.images[part][:], images)
        np.testing.assert_array_equal(data.labels[part], labels)
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(pixels(6)))
    with pytest.raises(EFCError, match="do not go with"):
        mnist.from_idx(tmp_path, tmp_path / "prepared")
