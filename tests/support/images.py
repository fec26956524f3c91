"""Pictures made of random bytes, and the files they come in."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

RNG = np.random.default_rng(0)


def pixels(*shape: int) -> Any:
    """Random bytes."""
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def idx(array: Any) -> bytes:
    """An array of bytes in MNIST's format."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()
