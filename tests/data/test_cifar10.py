"""CIFAR-10 in each of the forms it is published in, on small files made here, whole and broken."""

from __future__ import annotations

import json
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from efc.data import cifar10
from efc.errors import EFCError
from support.images import RNG, pixels


def cifar_batch(n: int) -> tuple[Any, Any, Any]:
    """Images (n, 32, 32, 3), labels, and the same images as rows of red, green and blue planes."""
    images, labels = pixels(n, 32, 32, 3), RNG.integers(0, 10, n, dtype=np.uint8)
    planes = np.stack([images[..., c].reshape(n, -1) for c in range(3)], 1).reshape(n, 3072)
    return images, labels, planes


def test_cifar_binary_and_python_versions(tmp_path: Path) -> None:
    images, labels, planes = cifar_batch(4)
    (tmp_path / "b.bin").write_bytes(np.concatenate([labels[:, None], planes], 1).tobytes())
    np.testing.assert_array_equal(cifar10.read_binary(tmp_path / "b.bin")[0], images)
    np.testing.assert_array_equal(cifar10.read_binary(tmp_path / "b.bin")[1], labels)
    (tmp_path / "p").write_bytes(pickle.dumps({"data": planes, "labels": labels.tolist()}, protocol=2))
    np.testing.assert_array_equal(cifar10.read_pickle(tmp_path / "p")[0], images)
    np.testing.assert_array_equal(cifar10.read_pickle(tmp_path / "p")[1], labels)


def test_cifar_archive(tmp_path: Path) -> None:
    made = {}
    (tmp_path / "cifar-10-batches-bin").mkdir()
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
        images, labels, planes = cifar_batch(2)
        made[name] = (images, labels)
        rows = np.concatenate([labels[:, None], planes], 1)
        (tmp_path / "cifar-10-batches-bin" / f"{name}.bin").write_bytes(rows.tobytes())
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as bundle:
        bundle.add(tmp_path / "cifar-10-batches-bin", "cifar-10-batches-bin")
    out = tmp_path / "arrays"
    out.mkdir()
    cifar10.from_binary_archive(tmp_path, out)
    train = np.load(out / "train_images.npy")
    np.testing.assert_array_equal(train, np.concatenate([made[f"data_batch_{k}"][0] for k in range(1, 6)]))
    np.testing.assert_array_equal(np.load(out / "test_labels.npy"), made["test_batch"][1])


def test_cifar_npm_sheets(tmp_path: Path) -> None:
    made, labels = [], []
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
        images, y, _ = cifar_batch(3)
        Image.fromarray(images.reshape(3, 1024, 3)).save(tmp_path / f"{name}.png")
        made.append(images)
        labels.append(y)
    (tmp_path / "train_lables.json").write_text(json.dumps(np.concatenate(labels[:5]).tolist()))
    (tmp_path / "test_lables.json").write_text(json.dumps(labels[5].tolist()))
    out = tmp_path / "arrays"
    out.mkdir()
    cifar10.from_npm(tmp_path, out)
    np.testing.assert_array_equal(np.load(out / "train_images.npy"), np.concatenate(made[:5]))
    np.testing.assert_array_equal(np.load(out / "train_labels.npy"), np.concatenate(labels[:5]))
    np.testing.assert_array_equal(np.load(out / "test_images.npy"), made[5])


def test_broken_cifar_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "b.bin").write_bytes(bytes(3072))
    with pytest.raises(EFCError, match="3073"):
        cifar10.read_binary(tmp_path / "b.bin")
    (tmp_path / "p").write_bytes(pickle.dumps({"data": 1})[:5])
    with pytest.raises(EFCError, match="not a CIFAR-10 batch"):
        cifar10.read_pickle(tmp_path / "p")


def test_a_pickle_cannot_run_anything(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "owned",))

    (tmp_path / "p").write_bytes(pickle.dumps({"data": Evil(), "labels": []}))
    with pytest.raises(EFCError, match="has no place in a data file"):
        cifar10.read_pickle(tmp_path / "p")
    assert not (tmp_path / "owned").exists()
