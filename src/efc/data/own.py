"""The user's own data: arrays in an .npz file, or pictures in folders, one folder per class."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from efc.data.decoding import EXTENSIONS, read_picture
from efc.data.download import checksum_of
from efc.data.image_set import PARTS, ImageSet, Labels, UInt8
from efc.data.npz import Array, read_arrays
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
    try:
        if not path.is_file():
            raise EFCError(f"dataset: npz file {path} is not there")
        found = read_arrays(path, ("x_train", "y_train", "x_test", "y_test"), optional=("scale",))
        checksum = checksum_of(path, "sha256")
    except OSError as problem:
        raise EFCError(f"dataset: {path}: {problem.strerror or problem}") from None
    x, raw = ({part: found[f"{kind}_{part}"] for part in PARTS} for kind in "xy")
    where = f"dataset: {path}"
    for part in PARTS:
        if raw[part].ndim != 1 or x[part].ndim not in (2, 3, 4) or len(raw[part]) != len(x[part]) or not x[part].size:
            raise EFCError(f"{where}: x_{part} {x[part].shape} does not go with y_{part} {raw[part].shape}")
        if x[part].dtype.kind not in "iuf":
            raise EFCError(f"{where}: x_{part} must hold numbers, got {x[part].dtype}")
        if x[part].dtype == np.longdouble and x[part].dtype.itemsize > 8:
            x[part] = _as_double(x[part])
    scale = _scale(where, found.get("scale"))
    kinds = {part: (x[part].dtype == np.uint8, x[part].shape[1:] if x[part].ndim > 2 else None) for part in PARTS}
    if kinds["train"] != kinds["test"] and (x["train"].ndim > 2 or x["test"].ndim > 2 or scale is None):
        held = [f"{x[part].dtype} {x[part].shape[1:]}" for part in PARTS]
        raise EFCError(f"{where}: x_train holds {held[0]} and x_test {held[1]}; save both alike")
    classes, y = number_labels(where, raw)
    return Arrays(x, y, classes, scale, checksum)


def _as_double(x: Array) -> Array:
    """Numbers of more than 64 bits, which nothing else here knows. What is too large becomes infinite, and is found."""
    with np.errstate(over="ignore"):
        return x.astype(np.float64)


def _scale(where: str, found: Array | None) -> float | None:
    """The one number that features are multiplied by."""
    if found is None:
        return None
    if found.size != 1 or found.dtype.kind not in "iuf":
        raise EFCError(f"{where}: scale must be one number, got {found.dtype} {found.shape}")
    scale = float(found.reshape(()))
    with np.errstate(over="ignore", under="ignore"):
        single = np.float32(scale)
    if not np.isfinite(single) or single == 0:
        raise EFCError(f"{where}: scale is {scale:g}; it must be a number other than 0 that float32 can hold")
    return scale


def number_labels(where: str, raw: dict[str, Array]) -> tuple[tuple[str, ...], dict[str, Labels]]:
    """Names of the classes, in sorted order, and the number of each sample's."""
    for part in PARTS:
        kind = raw[part].dtype.kind
        if kind not in "biufUS":
            raise EFCError(f"{where}: y_{part} must hold whole numbers or texts, got {raw[part].dtype}")
        if kind == "f":
            wrong = raw[part][~(np.isfinite(raw[part]) & (np.round(raw[part]) == raw[part]))]
            if len(wrong):
                raise EFCError(f"{where}: y_{part} holds {wrong[0]}, which is no label; use whole numbers or texts")
    try:
        classes = np.unique(np.concatenate([raw["train"], raw["test"]]))
        y = {part: np.searchsorted(classes, raw[part]).astype(np.int64) for part in PARTS}
        names = tuple(str(c) for c in classes)
        for name in names:
            name.encode()
    except (ValueError, TypeError) as problem:  # texts that are none, or kinds that cannot be compared
        raise EFCError(f"{where}: the labels in y_train and y_test cannot be read ({problem})") from None
    if classes.dtype.kind == "f" and float(abs(classes).max()) > 2**53:  # from there on whole numbers become one
        raise EFCError(f"{where}: y_train {raw['train'].dtype} and y_test {raw['test'].dtype} hold too large labels")
    return names, y


def npz_classes(path: Path) -> int:
    """How many classes :func:`read_npz` would find."""
    return len(read_npz(path).class_names)


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
    try:
        return _read_folder(root, size)
    except OSError as problem:
        raise EFCError(f"dataset: {problem.filename or root}: {problem.strerror or problem}") from None


def _read_folder(root: Path, size: int) -> ImageSet:
    if not root.is_dir():
        raise EFCError(f"dataset: folder {root} is not there")
    folders = _part_folders(root)
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
            line = f"{part}/{file.relative_to(root)}:{checksum_of(file, 'sha256')}"
            digest.update(line.encode(errors="surrogateescape"))  # names of files need not be UTF-8
    images = {part: FolderImages(files[part], size) for part in PARTS}
    return ImageSet(f"folder:{root}", tuple(names), dict(images), labels, digest.hexdigest())


def folder_classes(root: Path) -> int:
    """How many classes :func:`read_folder` would find."""
    try:
        if not root.is_dir():
            raise EFCError(f"dataset: folder {root} is not there")
        folders = _part_folders(root)
        train = folders["train"] if folders["test"] is not None else None
        return len(_classes(train or root))
    except OSError as problem:
        raise EFCError(f"dataset: {problem.filename or root}: {problem.strerror or problem}") from None


def _part_folders(root: Path) -> dict[str, Path | None]:
    return {part: next((root / n for n in names if (root / n).is_dir()), None) for part, names in _PARTS.items()}


def _classes(folder: Path) -> dict[str, list[Path]]:
    """Class name -> its picture files, sorted."""
    found = {
        sub.name: sorted(f for f in sub.iterdir() if f.suffix.lower() in EXTENSIONS and not f.name.startswith("."))
        for sub in sorted(folder.iterdir())
        if sub.is_dir() and not sub.name.startswith(".")
    }
    found = {name: files for name, files in found.items() if files}
    if len(found) < 2:
        raise EFCError(f"dataset: {folder} needs one folder of pictures per class, at least two; found {len(found)}")
    for name, files in found.items():
        if name != name.encode(errors="replace").decode():
            raise EFCError(f"dataset: {folder}: the name of the class {name!r} is not UTF-8; rename its folder")
        for file in files:
            if not file.is_file():  # a pipe would be waited for
                raise EFCError(f"dataset: {str(file)!r} is no file")
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
