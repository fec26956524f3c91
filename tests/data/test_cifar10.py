"""Readers of the original formats, on small files made here, whole and broken."""

from __future__ import annotations

import gzip
import json
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from efc.data import cifar10, mnist, tiny_imagenet
from efc.data.decoding import read_picture
from efc.data.idx import read_idx
from efc.data.image_set import finish, open_prepared
from efc.errors import EFCError

RNG = np.random.default_rng(0)


def pixels(*shape: int) -> Any:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def idx(array: Any) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.mark.parametrize("zipped", [True, False])
def test_idx(zipped: bool, tmp_path: Path) -> None:
    array = pixels(5, 3, 4)
    path = tmp_path / ("a.gz" if zipped else "a")
    path.write_bytes(gzip.compress(idx(array)) if zipped else idx(array))
    np.testing.assert_array_equal(read_idx(path), array)


@pytest.mark.parametrize("cut", [0, 3, 9, 20, -1])
@pytest.mark.parametrize("zipped", [True, False])
def test_a_truncated_idx_file_is_refused(cut: int, zipped: bool, tmp_path: Path) -> None:
    data = idx(pixels(5, 3, 4))
    path = tmp_path / ("a.gz" if zipped else "a")
    path.write_bytes(gzip.compress(data)[:cut] if zipped else data[:cut])
    with pytest.raises(EFCError, match=path.name):
        read_idx(path)


def test_mnist_files_become_prepared_arrays(tmp_path: Path) -> None:
    expected = {}
    for part, stem in (("train", "train"), ("test", "t10k")):
        expected[part] = (pixels(7, 28, 28), RNG.integers(0, 10, 7, dtype=np.uint8))
        (tmp_path / f"{stem}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(expected[part][0])))
        (tmp_path / f"{stem}-labels-idx1-ubyte").write_bytes(idx(expected[part][1]))
    out = tmp_path / "arrays"
    out.mkdir()
    mnist.from_idx(tmp_path, out)
    finish(out, tmp_path / "prepared", mnist.SPEC.class_names, "test")
    data = open_prepared("mnist", tmp_path / "prepared")
    for part, (images, labels) in expected.items():
        np.testing.assert_array_equal(data.images[part][:], images)
        np.testing.assert_array_equal(data.labels[part], labels)
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(pixels(6)))
    with pytest.raises(EFCError, match="do not go with"):
        mnist.from_idx(tmp_path, tmp_path / "prepared")


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


@pytest.mark.parametrize("packed", [True, False])
def test_tiny_imagenet_from_zip_and_folder(packed: bool, tmp_path: Path) -> None:
    root, truth = tmp_path / "tiny-imagenet-200", {}
    wnids = ["n02", "n01", "n03"]
    for wnid in wnids:
        (root / "train" / wnid / "images").mkdir(parents=True)
        for k in range(2):
            image = pixels(64, 64, 3)
            truth[wnid, k] = image
            Image.fromarray(image).save(root / "train" / wnid / "images" / f"{wnid}_{k}.JPEG", format="PNG")
    (root / "val" / "images").mkdir(parents=True)
    Image.fromarray(pixels(64, 64)).save(root / "val" / "images" / "val_0.JPEG", format="PNG")  # grey, as some are
    (root / "wnids.txt").write_text("\n".join(wnids))
    (root / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn03\t0\t0\t62\t62\n")
    out = tmp_path / "arrays"
    out.mkdir()
    if packed:
        with zipfile.ZipFile(tmp_path / "tiny-imagenet-200.zip", "w") as bundle:
            for file in sorted(root.rglob("*")):
                bundle.write(file, file.relative_to(tmp_path))
        tiny_imagenet.from_zip(tmp_path, out)
    else:
        found = tiny_imagenet.present(tmp_path)
        assert found is not None
        found.prepare(out)
    np.testing.assert_array_equal(np.load(out / "train_labels.npy"), [0, 0, 1, 1, 2, 2])  # classes by sorted wnid
    np.testing.assert_array_equal(np.load(out / "train_images.npy")[2], truth["n02", 0])
    np.testing.assert_array_equal(np.load(out / "test_labels.npy"), [2])
    assert np.load(out / "test_images.npy").shape == (1, 64, 64, 3)


def test_pictures(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(b"no picture")
    with pytest.raises(EFCError, match="not a readable picture"):
        read_picture(tmp_path / "x.png")
    Image.fromarray(pixels(20, 30, 3)).save(tmp_path / "y.png")
    with pytest.raises(EFCError, match="30 x 20 pixels are more than 10 x 10"):
        read_picture(tmp_path / "y.png", largest=(10, 10))
    whole = (tmp_path / "y.png").read_bytes()
    (tmp_path / "z.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(EFCError, match="not a readable picture"):
        read_picture(tmp_path / "z.png")
    assert read_picture(tmp_path / "y.png", size=8).shape == (8, 8, 3)
