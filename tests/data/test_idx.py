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


@pytest.mark.parametrize("zipped", [True, False])
def test_headers_that_promise_too_much_too_little_or_too_many_dimensions(zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / ("a.gz" if zipped else "a")
    for header, says in (
        (b"\0\0\x08\x04" + b"\xff" * 16, "more than 1073741824 values"),
        (b"\0\0\x08\x04" + b"\x80\0\0\0" * 4, "more than 1073741824 values"),  # 2 ** 124: 0 where numbers wrap around
        (b"\0\0\x08\x01\0\0\0\x05", "more than 5 values, the header says"),
        (b"\0\0\x08\xff" + b"\0\0\0\x01" * 255, "more than 1 values"),
    ):
        path.write_bytes(gzip.compress(header + bytes(100)) if zipped else header + bytes(100))
        with pytest.raises(EFCError, match=says):
            read_idx(path)
    content = b"\0\0\x08\xff" + b"\0\0\0\x01" * 255 + b"x"
    path.write_bytes(gzip.compress(content) if zipped else content)
    with pytest.raises(EFCError, match="dimension"):
        read_idx(path)
