"""The idx format, gzipped or not, whole and cut off."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from efc.data.idx import read_idx
from efc.errors import EFCError
from support.images import idx, pixels


@pytest.mark.parametrize("zipped", [True, False])
def test_idx(zipped: bool, tmp_path: Path) -> None:
    array = pixels(5, 3, 4)
    path = tmp_path / ("a.gz" if zipped else "a")
    path.write_bytes(gzip.compress(idx(array)) if zipped else idx(array))
    np.testing.assert_array_equal(read_idx(path), array)


@pytest.mark.parametrize("cut", [0, 3, 9, 20, -1])
@pytest.mark.parametrize("zipped", [True, False])
def test_a_truncated_idx_file_is_refused(cut: int, zipped: bool, tmp_path: Path) -> None:
    data = idx(pixels(5, 3, 4))
    path = tmp_path / ("a.gz" if zipped else "a")
    path.write_bytes(gzip.compress(data)[:cut] if zipped else data[:cut])
    with pytest.raises(EFCError, match=path.name):
        read_idx(path)
