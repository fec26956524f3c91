"""Images with labels, on disk: the one form into which every data set is prepared, and from which all is read."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from efc.data.seal import DamagedError, Seal, check_once, check_seal, read_sealed, sync_file
from efc.errors import EFCError
from efc.files import Json, sync_folder, write_atomically

UInt8 = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
PARTS = ("train", "test")
ARRAYS = tuple(f"{part}_{kind}" for part in PARTS for kind in ("images", "labels"))
MANIFEST = "manifest.json"
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


@dataclass(frozen=True)
class Manifest:
    """What is known of a prepared data set: its classes, where it came from, hashes of its values and its files."""

    class_names: tuple[str, ...]
    source: str
    sha256: dict[str, str]
    """By array name, of the values."""
    seals: dict[str, Seal]
    """By array name, of the files. Empty in folders of older versions."""

    def to_json(self) -> dict[str, Json]:
        files = {name: seal.to_json() for name, seal in self.seals.items()}
        rest: dict[str, Json] = {
            "class_names": self.class_names,
            "source": self.source,
            "sha256": self.sha256,
            "files": files,
        }
        return rest | {"digest": _digest(rest)}

    @classmethod
    def from_json(cls, document: object) -> Manifest:
        """``ValueError`` if it is none."""
        content = document if isinstance(document, dict) else {}
        names, source, hashes = (content.get(key) for key in ("class_names", "source", "sha256"))
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or not names:
            raise ValueError("class_names is no list of names")
        if not isinstance(source, str) or not isinstance(hashes, dict):
            raise ValueError("source or sha256 is missing")
        if not all(isinstance(hashes.get(array), str) for array in ARRAYS):
            raise ValueError("sha256 lacks an array")
        files = content.get("files", {})
        older = content.keys() == {"class_names", "source", "sha256"}
        if not older and content.pop("digest", None) != _digest(content):
            raise ValueError("it is not what was written")
        return cls(tuple(names), source, hashes, {name: Seal.from_json(value) for name, value in files.items()})

    def damage(self, folder: Path, again: bool = False) -> str | None:
        """What is wrong with the arrays; None if nothing is. Read only if they have changed, or to check ``again``."""
        for array in ARRAYS:
            path = folder / f"{array}.npy"
            seal = self.seals.get(array)
            if seal is None:
                wrong = check_once(path, self.sha256[array], partial(self._values, path), again)
            else:
                wrong = check_seal(path, seal, again)
            if wrong is not None:
                return f"{path} {wrong}"
        return None

    def _values(self, path: Path) -> str | None:
        """For folders without seals: the hash of the values, and a header that fits them."""
        try:
            array = np.load(path, mmap_mode="r")
            kind = np.uint8 if path.stem.endswith("images") else np.int64
            right = array.flags.c_contiguous and array.dtype == kind and array_hash(path) == self.sha256[path.stem]
        except Exception as problem:  # what numpy raises depends on which bytes it stumbles over
            return f"is not readable ({problem})"
        return None if right else "is not what was written"


def _digest(document: Mapping[str, object]) -> str:
    return hashlib.blake2b(json.dumps(document, sort_keys=True).encode(), digest_size=16).hexdigest()


def finish(folder: Path, target: Path, class_names: Iterable[str], source: str) -> None:
    """Write the manifest of freshly prepared arrays and move the folder into place, whole or not at all."""
    files = sorted(folder.glob("*.npy"))
    for file in files:
        sync_file(file)
    hashes = {file.stem: array_hash(file) for file in files}
    seals = {file.stem: read_sealed(file).seal() for file in files}
    manifest = Manifest(tuple(class_names), source, hashes, seals)
    write_atomically(folder / MANIFEST, json.dumps(manifest.to_json(), indent=1))
    if target.is_dir():
        shutil.rmtree(target)
    os.replace(folder, target)
    sync_folder(target.parent)


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a prepared data set; None if there is none."""
    try:
        return Manifest.from_json(json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as problem:
        said = problem.strerror if isinstance(problem, OSError) else problem
        raise DamagedError(f"{folder / MANIFEST}: unreadable manifest ({said}); get the data again") from None


def open_prepared(name: str, folder: Path) -> ImageSet:
    """A prepared data set, verified and memory-mapped; :class:`DamagedError` if it is not what was prepared."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise EFCError(f"{name}: not prepared in {folder}")
    damage = manifest.damage(folder)
    if damage is not None:
        raise DamagedError(f"{name}: damaged: {damage}; remove {folder} and get the data again")
    images = {part: ArrayFile(folder / f"{part}_images.npy") for part in PARTS}
    labels = {part: np.load(folder / f"{part}_labels.npy") for part in PARTS}
    checksum = hashlib.sha256(json.dumps(manifest.sha256, sort_keys=True).encode()).hexdigest()
    return ImageSet(name, manifest.class_names, {part: images[part] for part in PARTS}, labels, checksum)
