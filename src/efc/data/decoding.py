"""Decoding picture files. Pillow is imported here alone."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import numpy as np

from efc.data.image_set import UInt8
from efc.errors import EFCError, MissingError

EXTENSIONS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")


def read_picture(
    source: Path | IO[bytes], size: int | None = None, largest: tuple[int, int] = (10_000, 10_000), name: str = ""
) -> UInt8:
    """An RGB picture as (H, W, 3), resized to ``size`` x ``size`` (bicubic, antialiased) if given.

    A picture of more pixels than ``largest`` (width, height) is refused before it is decoded.
    """
    try:
        from PIL import Image
    except ImportError:
        raise MissingError("pictures", "pillow", "images") from None
    label = name or str(source)
    keep = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = None  # our own limit is stricter and gives a clear message
    try:
        with Image.open(source) as picture:
            if picture.width > largest[0] or picture.height > largest[1]:
                raise EFCError(
                    f"{label}: {picture.width} x {picture.height} pixels are more than {largest[0]} x {largest[1]}"
                )
            rgb = picture.convert("RGB")
            if size is not None and rgb.size != (size, size):
                rgb = rgb.resize((size, size), Image.Resampling.BICUBIC)
            return np.asarray(rgb, np.uint8)
    except EFCError:
        raise
    except Exception as problem:  # what Pillow raises depends on which bytes it stumbles over
        raise EFCError(f"{label}: not a readable picture ({problem})") from None
    finally:
        Image.MAX_IMAGE_PIXELS = keep
