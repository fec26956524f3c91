"""Images with labels, on disk: the one form into which every data set is prepared, and from which all is read."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from efc.errors import EFCError

UInt8 = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
PARTS = ("train", "test")
_CHUNK = 1 << 22


class ImageSource(Protocol):
    """Images that are read a slice at a time: uint8 (B, H, W) or (B, H, W, 3). A memory-mapped array is one."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: slice, /) -> UInt8: ...


@dataclass(frozen=True)
class ImageSet:
    """Training and test images with labels 0..K-1, and a checksum of their content."""

    name: str
    class_names: tuple[str, ...]
    images: dict[str, ImageSource]
    labels: dict[str, Labels]
    checksum: str


class Writer:
    """Writes one part of a data set, chunk by chunk, so that no more than a chunk is ever in memory."""

    def __init__(self, folder: Path, part: str, n: int, shape: tuple[int, ...]) -> None:
        self.part, self.n, self.shape, self.folder = part, n, shape, folder
        self.labels: list[npt.NDArray[np.int64]] = []
        self.at = 0
        header = {"descr": "|u1", "fortran_order": False, "shape": (n, *shape)}
        with (folder / f"{part}_images.npy").open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)

    def add(self, images: UInt8, labels: npt.ArrayLike) -> None:
        y = np.asarray(labels, np.int64)
        if self.at + len(images) > self.n or images.shape[1:] != self.shape or len(y) != len(images):
            raise EFCError(f"{self.part}: {len(y)} labels and images {images.shape} after {self.at}, expected {self.n}")
        with (self.folder / f"{self.part}_images.npy").open("ab") as file:
            file.write(np.ascontiguousarray(images, np.uint8).tobytes())
        self.labels.append(y)
        self.at += len(images)

    def close(self) -> None:
        if self.at != self.n:
            raise EFCError(f"{self.part}: {self.at} images, expected {self.n}")
        np.save(self.folder / f"{self.part}_labels.npy", np.concatenate(self.labels))


class ArrayFile:
    """Images in an .npy file, mapped for the time of a slice only: what has been read does not pile up in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shape = np.load(path, mmap_mode="r").shape

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, index: slice, /) -> UInt8:
        return np.array(np.load(self.path, mmap_mode="r")[index])


def array_hash(path: Path) -> str:
    """sha256 of the values of an .npy file, in C order, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        while block := file.read(_CHUNK):
            digest.update(block)
    return digest.hexdigest()


def finish(folder: Path, target: Path, class_names: Iterable[str], source: str) -> None:
    """Write the manifest of freshly prepared arrays and move the folder into place, whole or not at all."""
    hashes = {file.stem: array_hash(file) for file in sorted(folder.glob("*.npy"))}
    manifest = {"class_names": list(class_names), "source": source, "sha256": hashes}
    with (folder / "manifest.json").open("w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    if target.exists():
        shutil.rmtree(target)
    os.replace(folder, target)


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a prepared data set; None if there is none."""
    try:
        return dict(json.loads((folder / "manifest.json").read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as problem:
        raise EFCError(f"{folder}: unreadable manifest ({problem}); remove the folder and get the data again") from None


def open_prepared(name: str, folder: Path) -> ImageSet:
    """A prepared data set, memory-mapped."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise EFCError(f"{name}: not prepared in {folder}")
    arrays: dict[str, Any] = {}
    try:
        for part in PARTS:
            arrays[part] = ArrayFile(folder / f"{part}_images.npy")
            arrays[f"{part}_labels"] = np.load(folder / f"{part}_labels.npy")
    except (OSError, ValueError) as problem:
        raise EFCError(f"{name}: damaged in {folder} ({problem}); remove that folder and get the data again") from None
    checksum = hashlib.sha256(json.dumps(manifest["sha256"], sort_keys=True).encode()).hexdigest()
    return ImageSet(
        name,
        tuple(manifest["class_names"]),
        {part: arrays[part] for part in PARTS},
        {part: arrays[f"{part}_labels"] for part in PARTS},
        checksum,
    )
