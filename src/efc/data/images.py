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
_CHUNK = 4096


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
        self.part = part
        self.images = np.lib.format.open_memmap(folder / f"{part}_images.npy", "w+", np.uint8, (n, *shape))
        self.labels = np.lib.format.open_memmap(folder / f"{part}_labels.npy", "w+", np.int64, (n,))
        self.at = 0

    def add(self, images: UInt8, labels: npt.ArrayLike) -> None:
        end = self.at + len(images)
        if end > len(self.labels) or images.shape[1:] != self.images.shape[1:]:
            raise EFCError(f"{self.part}: {end} images of shape {images.shape[1:]}, expected {self.images.shape}")
        self.images[self.at : end], self.labels[self.at : end] = images, labels
        self.at = end

    def close(self) -> None:
        if self.at != len(self.labels):
            raise EFCError(f"{self.part}: {self.at} images, expected {len(self.labels)}")
        self.images.flush()
        self.labels.flush()


def array_hash(array: Any) -> str:
    """sha256 of an array's values in C order, read in pieces."""
    digest = hashlib.sha256()
    for start in range(0, len(array), _CHUNK):
        digest.update(np.ascontiguousarray(array[start : start + _CHUNK]).tobytes())
    return digest.hexdigest()


def finish(folder: Path, target: Path, class_names: Iterable[str], source: str) -> None:
    """Write the manifest of freshly prepared arrays and move the folder into place, whole or not at all."""
    hashes = {file.stem: array_hash(np.load(file, mmap_mode="r")) for file in sorted(folder.glob("*.npy"))}
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
            arrays[part] = np.load(folder / f"{part}_images.npy", mmap_mode="r")
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
