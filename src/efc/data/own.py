"""The user's own data: arrays in an .npz file, or pictures in folders, one folder per class."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from efc.data.decoding import EXTENSIONS, read_picture
from efc.data.download import checksum_of
from efc.data.image_set import PARTS, ImageSet, Labels, UInt8
from efc.errors import EFCError

TEST_SHARE = 0.2
_PARTS = {"train": ("train",), "test": ("val", "test", "validation")}


@dataclass(frozen=True)
class Arrays:
    """The content of an .npz file: x (images or features) and y, both parts, and what to multiply x by."""

    x: dict[str, Any]
    y: dict[str, Labels]
    class_names: tuple[str, ...]
    scale: float | None
    checksum: str


def read_npz(path: Path) -> Arrays:
    """``x_train, y_train, x_test, y_test`` and, optionally, ``scale``; labels of any kind, numbered in sorted order."""
    if not path.is_file():
        raise EFCError(f"dataset: npz file {path} is not there")
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            missing = [key for key in ("x_train", "y_train", "x_test", "y_test") if key not in file.files]
            if missing:
                raise EFCError(f"dataset: {path} lacks {', '.join(missing)}; it has {', '.join(file.files)}")
            x = {part: file[f"x_{part}"] for part in PARTS}
            raw = {part: file[f"y_{part}"] for part in PARTS}
            scale = float(file["scale"]) if "scale" in file.files else None
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as problem:
        if isinstance(problem, EFCError):
            raise
        raise EFCError(f"dataset: {path} is not a readable npz file ({problem})") from None
    for part in PARTS:
        if raw[part].ndim != 1 or len(raw[part]) != len(x[part]) or x[part].ndim not in (2, 3, 4) or not len(raw[part]):
            raise EFCError(f"dataset: {path}: x_{part} {x[part].shape} does not go with y_{part} {raw[part].shape}")
        if not (np.issubdtype(x[part].dtype, np.number) and np.isrealobj(x[part])):
            raise EFCError(f"dataset: {path}: x_{part} must hold numbers, got {x[part].dtype}")
    classes = np.unique(np.concatenate([raw["train"], raw["test"]]))
    y = {part: np.searchsorted(classes, raw[part]).astype(np.int64) for part in PARTS}
    return Arrays(x, y, tuple(str(c) for c in classes), scale, checksum_of(path, "sha256"))


class FolderImages:
    """Pictures decoded when they are asked for, all resized to the same square."""

    def __init__(self, files: Sequence[Path], size: int) -> None:
        self.files, self.size = list(files), size

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: slice, /) -> UInt8:
        return np.stack([read_picture(file, size=self.size) for file in self.files[index]])


def read_folder(root: Path, size: int) -> ImageSet:
    """``root/train/CLASS/*`` and ``root/val/CLASS/*``; or ``root/CLASS/*``, of which a fifth of each class is test."""
    if not root.is_dir():
        raise EFCError(f"dataset: folder {root} is not there")
    folders = {part: next((root / n for n in names if (root / n).is_dir()), None) for part, names in _PARTS.items()}
    if folders["train"] is not None and folders["test"] is not None:
        found = {part: _classes(folder) for part, folder in folders.items() if folder is not None}
        strange = sorted(found["test"].keys() - found["train"].keys())
        if strange:
            raise EFCError(f"dataset: class {strange[0]!r} of {folders['test']} does not occur in {folders['train']}")
    else:
        found = _split_made_for(_classes(root))
    names = sorted(found["train"])
    files = {part: [f for name in names for f in found[part].get(name, [])] for part in PARTS}
    labels = {
        part: np.array([k for k, name in enumerate(names) for _ in found[part].get(name, [])], np.int64)
        for part in PARTS
    }
    digest = hashlib.sha256(f"{size}".encode())
    for part in PARTS:
        for file in files[part]:
            digest.update(f"{part}/{file.relative_to(root)}:{checksum_of(file, 'sha256')}".encode())
    images = {part: FolderImages(files[part], size) for part in PARTS}
    return ImageSet(f"folder:{root}", tuple(names), dict(images), labels, digest.hexdigest())


def _classes(folder: Path) -> dict[str, list[Path]]:
    """Class name -> its picture files, sorted."""
    found = {
        sub.name: sorted(f for f in sub.iterdir() if f.suffix.lower() in EXTENSIONS)
        for sub in sorted(folder.iterdir())
        if sub.is_dir() and not sub.name.startswith(".")
    }
    found = {name: files for name, files in found.items() if files}
    if len(found) < 2:
        raise EFCError(f"dataset: {folder} needs one folder of pictures per class, at least two; found {len(found)}")
    return found


def _split_made_for(classes: dict[str, list[Path]]) -> dict[str, dict[str, list[Path]]]:
    split: dict[str, dict[str, list[Path]]] = {"train": {}, "test": {}}
    for k, (name, files) in enumerate(classes.items()):
        if len(files) < 2:
            raise EFCError(f"dataset: class {name!r} has a single picture; a test part cannot be made, add more")
        order = np.random.default_rng([20260204, k]).permutation(len(files))
        n_test = max(1, round(TEST_SHARE * len(files)))
        split["test"][name] = [files[i] for i in sorted(order[:n_test])]
        split["train"][name] = [files[i] for i in sorted(order[n_test:])]
    return split
