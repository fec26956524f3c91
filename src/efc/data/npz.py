"""Arrays out of an .npz file that may be anything: no pickles, no more memory than the file accounts for."""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from efc.data.archives import check_member
from efc.errors import EFCError

Array = npt.NDArray[Any]
LARGE = 1 << 30
"""Bytes from which on a file must not hold more than ``RATIO`` times its size."""
RATIO = 100


def read_arrays(path: Path, needed: Iterable[str], optional: Iterable[str] = ()) -> dict[str, Array]:
    """The arrays of these names, in the machine's byte order; one sentence if the file does not hold them."""
    needed, optional = list(needed), list(optional)
    try:
        with zipfile.ZipFile(path) as bundle:
            members: dict[str, list[zipfile.ZipInfo]] = {}
            for info in bundle.infolist():
                members.setdefault(info.filename.removesuffix(".npy"), []).append(info)
            missing = [name for name in needed if name not in members]
            if missing:
                found = ", ".join(repr(name)[1:-1] for name in list(members)[:20]) or "nothing"
                raise EFCError(f"dataset: {path} lacks {', '.join(missing)}; it has {found}")
            wanted = [name for name in (*needed, *optional) if name in members]
            for name in wanted:
                if len(members[name]) > 1:
                    raise EFCError(f"dataset: {path}: {name} is there twice")
            _check_sizes(path, [members[name][0] for name in wanted])
            return {name: _read(path, bundle, members[name][0], name) for name in wanted}
    except EFCError:
        raise
    except MemoryError:
        raise EFCError(f"dataset: {path} is larger than the memory of this machine") from None
    except Exception as problem:  # what is raised depends on which bytes are stumbled over
        said = f"{problem}" or type(problem).__name__
        raise EFCError(f"dataset: {path} is not a readable npz file ({said})") from None


def _check_sizes(path: Path, members: list[zipfile.ZipInfo]) -> None:
    """Refuse what cannot be true, and what is meant to fill the memory."""
    on_disk = path.stat().st_size
    for info in members:
        check_member(f"dataset: {path}", info)
    total = sum(info.file_size for info in members)
    if total > LARGE and total > RATIO * on_disk:
        raise EFCError(
            f"dataset: {path} of {on_disk} bytes unpacks to {total / 1e9:.0f} GB; refused; save it with np.savez, "
            "not with np.savez_compressed, if that is right"
        )


def _read(path: Path, bundle: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Array:
    with bundle.open(info) as file:
        shape, column_major, dtype = _header(path, file, name)
        if dtype.hasobject or dtype.kind == "V" or dtype.itemsize == 0:
            raise EFCError(f"dataset: {path}: {name} must hold numbers or texts, got {_shown(dtype)}")
        count = math.prod(shape)
        promised, there = count * dtype.itemsize, info.file_size - file.tell()
        if min(shape, default=1) < 0 or promised != there:
            size = f"{_shown(shape)} of {_shown(dtype)}, {promised} bytes"
            raise EFCError(f"dataset: {path}: the header of {name} says {size}, the file has {there}")
        flat = _values(file, count, dtype)
    if flat is None:
        raise EFCError(f"dataset: {path}: {name} is cut off")
    array = flat.reshape(shape[::-1]).T if column_major else flat.reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=False)


def _header(path: Path, file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come first, type."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # files of Python 2 are as good as any
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, column_major, dtype = read(file)
            return tuple(int(n) for n in shape), bool(column_major), dtype
    except Exception as problem:  # what numpy raises depends on which bytes it stumbles over
        said = _shown(problem)
        raise EFCError(f"dataset: {path}: {name} is no array ({said})") from None


def _values(file: IO[bytes], count: int, dtype: np.dtype[Any]) -> Array | None:
    """The values; None if there are fewer. The end is read too: there the checksum is compared."""
    flat = np.empty(count, dtype)
    room, at = flat.view(np.uint8), 0
    while at < len(room) and (block := file.read(min(1 << 22, len(room) - at))):
        room[at : at + len(block)] = np.frombuffer(block, np.uint8)
        at += len(block)
    return flat if at == len(room) and not file.read(1) else None


def _shown(value: object) -> str:
    """Something out of a file, short enough for a sentence."""
    text = str(value).replace("\n", " ")
    return text if len(text) < 100 else f"{text[:100]}..."
