"""The idx format of MNIST and its kin, gzipped or not."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np

from efc.data.image_set import UInt8
from efc.errors import EFCError


def read_idx(path: Path) -> UInt8:
    """An idx file of unsigned bytes: two zero bytes, type 8, number of dimensions, big-endian sizes, values."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as problem:
        raise EFCError(f"{path.name}: cannot be read ({problem})") from None
    if len(data) < 4 or data[:3] != b"\x00\x00\x08":
        raise EFCError(f"{path.name}: not an idx file of bytes")
    dimensions = data[3]
    header = 4 + 4 * dimensions
    if len(data) < header:
        raise EFCError(f"{path.name}: the header is cut off")
    shape = struct.unpack(f">{dimensions}I", data[4:header])
    if len(data) - header != int(np.prod(shape)):
        raise EFCError(f"{path.name}: {len(data) - header} values, the header says {shape}")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)
