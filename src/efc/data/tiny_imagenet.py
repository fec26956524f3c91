"""Tiny-ImageNet-200: photographs in 200 classes, 64 x 64 colour (Stanford CS231n); its validation part is our test."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path

import numpy as np

from efc.data.archives import NOT_ITS_FAULT, check_member
from efc.data.decoding import read_picture
from efc.data.download import RemoteFile
from efc.data.image_set import UInt8, Writer
from efc.data.spec import DatasetSpec, Found
from efc.errors import EFCError

_ARCHIVE = "tiny-imagenet-200.zip"
_FOLDER = "tiny-imagenet-200"
_CHUNK = 500


def from_zip(folder: Path, out: Path) -> None:
    """Read straight out of the archive: nothing is unpacked, a chunk of pictures at a time is decoded."""
    try:
        with zipfile.ZipFile(folder / _ARCHIVE) as bundle:
            for info in bundle.infolist():
                check_member(_ARCHIVE, info)
            read_tree(zipfile.Path(bundle) / _FOLDER, out)
    except EFCError:
        raise
    except Exception as problem:  # what is raised depends on which bytes are stumbled over
        if isinstance(problem, OSError) and problem.errno in NOT_ITS_FAULT:
            raise
        raise EFCError(f"{_ARCHIVE}: not a readable archive ({type(problem).__name__}: {problem})") from None


def read_tree(tree: Traversable, out: Path) -> None:
    """``train/WNID/images/*`` and ``val/val_annotations.txt`` below ``tree`` (a folder, or a path inside a zip)."""
    try:
        _read_tree(tree, out)
    except (LookupError, ValueError, FileNotFoundError, NotADirectoryError) as problem:
        if isinstance(problem, EFCError):
            raise
        raise EFCError(f"{_FOLDER}: not as published ({type(problem).__name__}: {problem})") from None


def _read_tree(tree: Traversable, out: Path) -> None:
    wnids = sorted(tree.joinpath("wnids.txt").read_text().split())
    index = {wnid: label for label, wnid in enumerate(wnids)}
    train = [(picture, index[wnid]) for wnid in wnids for picture in _pictures(tree, "train", wnid, "images")]
    lines = [line.split("\t") for line in tree.joinpath("val", "val_annotations.txt").read_text().splitlines()]
    pictures = tree.joinpath("val", "images")
    test = [(pictures.joinpath(line[0]), index[line[1]]) for line in lines]
    for part, entries in (("train", train), ("test", test)):
        writer = Writer(out, part, len(entries), (64, 64, 3))
        for images, labels in _decoded(entries):
            writer.add(images, labels)
        writer.close()


def _pictures(tree: Traversable, *below: str) -> list[Traversable]:
    return sorted(tree.joinpath(*below).iterdir(), key=lambda path: path.name)


def _decoded(entries: list[tuple[Traversable, int]]) -> Iterator[tuple[UInt8, list[int]]]:
    for start in range(0, len(entries), _CHUNK):
        chunk = entries[start : start + _CHUNK]
        images = []
        for path, _ in chunk:
            with path.open("rb") as file:
                images.append(read_picture(file, size=64, largest=(64, 64), name=path.name))
        yield np.stack(images), [label for _, label in chunk]


def present(root: Path) -> Found | None:
    """``ROOT/tiny-imagenet-200``, unpacked."""
    tree = root / _FOLDER
    if not (tree / "wnids.txt").is_file() or not (tree / "val" / "val_annotations.txt").is_file():
        return None
    return Found(f"files in {tree}", lambda out: read_tree(tree, out))


SPEC = DatasetSpec(
    name="tiny-imagenet",
    title="photographs, 64 x 64 colour",
    class_names=tuple(f"class {k}" for k in range(200)),
    train=100000,
    test=10000,
    shape=(64, 64, 3),
    files=(
        RemoteFile(
            _ARCHIVE,
            "md5:90528d7ca1a48142e341f4ef8d21d0de",
            248100043,
            (f"http://cs231n.stanford.edu/{_ARCHIVE}", f"https://cs231n.stanford.edu/{_ARCHIVE}"),
        ),
    ),
    from_files=from_zip,
    present=present,
    size=2 << 30,
    classes_per_task=20,
)
