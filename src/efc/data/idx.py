"""The idx format of MNIST and its kin, gzipped or not."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

from efc.data.image_set import UInt8
from efc.errors import EFCError

LARGEST = 1 << 30
"""Bytes. No file of these sets is larger."""


def read_idx(path: Path) -> UInt8:
    """An idx file of unsigned bytes: two zero bytes, type 8, number of dimensions, big-endian sizes, values."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            start = file.read(4)
            if len(start) < 4 or start[:3] != b"\x00\x00\x08":
                raise EFCError(f"{path.name}: not an idx file of bytes")
            sizes = file.read(4 * start[3])
            if len(sizes) < 4 * start[3]:
                raise EFCError(f"{path.name}: the header is cut off")
            shape = struct.unpack(f">{start[3]}I", sizes)
            count = math.prod(shape)
            if count > LARGEST:
                raise EFCError(f"{path.name}: the header says {shape}, more than {LARGEST} values; refused")
            data = file.read(count + 1)
    except (OSError, EOFError, zlib.error) as problem:
        raise EFCError(f"{path.name}: cannot be read ({problem})") from None
    if len(data) != count:
        found = f"more than {count}" if len(data) > count else str(len(data))
        raise EFCError(f"{path.name}: {found} values, the header says {shape}")
    try:
        return np.frombuffer(data, np.uint8).reshape(shape)
    except ValueError as problem:  # numpy has a limit to the number of dimensions
        raise EFCError(f"{path.name}: {problem}") from None
