"""Picture files: decoded, resized, and refused where they are broken or too large."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from efc.data.decoding import read_picture
from efc.errors import EFCError
from support.images import pixels


def test_pictures(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"no picture")
    with pytest.raises(EFCError, match="not a readable picture"):
        read_picture(tmp_path / "x.png")
    Image.fromarray(pixels(20, 30, 3)).save(tmp_path / "y.png")
    with pytest.raises(EFCError, match="30 x 20 pixels are more than 10 x 10"):
        read_picture(tmp_path / "y.png", largest=(10, 10))
    whole = (tmp_path / "y.png").read_bytes()
    (tmp_path / "z.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(EFCError, match="not a readable picture"):
        read_picture(tmp_path / "z.png")
    assert read_picture(tmp_path / "y.png", size=8).shape == (8, 8, 3)
