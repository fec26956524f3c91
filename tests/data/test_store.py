"""The data folder: sources in turn, verified, prepared once; damage found; own arrays and folders."""

from __future__ import annotations

import gzip
import hashlib
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from efc.data import mnist, store
from efc.data.download import RemoteFile
from efc.data.own import read_folder, read_npz
from efc.errors import EFCError
from efc.streams import load, split

RNG = np.random.default_rng(0)


def small_mnist(folder: Path) -> tuple[RemoteFile, ...]:
    """Four small files in MNIST's format, and how they would be published (at an address where nobody answers)."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for stem, n in (("train", 40), ("t10k", 20)):
        for kind, array in (
            ("images-idx3", RNG.integers(0, 256, (n, 28, 28), dtype=np.uint8)),
            ("labels-idx1", (np.arange(n) % 10).astype(np.uint8)),
        ):
            header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
            content = gzip.compress(header + array.tobytes())
            name = f"{stem}-{kind}-ubyte.gz"
            (folder / name).write_bytes(content)
            md5 = f"md5:{hashlib.md5(content).hexdigest()}"
            files.append(RemoteFile(name, md5, len(content), (f"http://127.0.0.1:9/{name}",)))
    return tuple(files)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A data folder whose ``mnist`` is a small one with its published files in place, and no npm to fall back on."""
    files = small_mnist(tmp_path / "root" / "mnist")
    spec = replace(
        mnist.SPEC, files=files, train=40, test=20, sha256={}, npm_package=None,
        present=mnist.torchvision_layout("MNIST", files),
    )  # fmt: skip
    monkeypatch.setitem(store.SPECS, "mnist", spec)
    return tmp_path / "root"


def test_files_already_there_are_used_and_checked(small: Path) -> None:
    folder = store.get("mnist", small)
    assert sorted(p.name for p in folder.iterdir()) == [
        "manifest.json", "test_images.npy", "test_labels.npy", "train_images.npy", "train_labels.npy",
    ]  # fmt: skip
    assert store.check("mnist", small)[0] == f"source: files in {small / 'mnist'}"
    assert not list((small / "mnist").glob(".preparing-*"))
    data = load("mnist", data_dir=small)
    assert data.x_train.shape == (40, 784)
    part = split(data, 5, 2).tasks[0].parts["test"]
    assert 0 <= float(part.x.min()) < float(part.x.max()) <= 1


def test_the_layout_torchvision_leaves_is_used(small: Path) -> None:
    raw = small / "MNIST" / "raw"
    raw.parent.mkdir()
    (small / "mnist").rename(raw)
    store.get("mnist", small)
    assert store.check("mnist", small)[0] == f"source: files in {raw}"
    spoilt = raw / "t10k-labels-idx1-ubyte.gz"
    spoilt.write_bytes(spoilt.read_bytes() + b"x")
    assert store.SPECS["mnist"].present(small) is None


def test_when_every_source_fails_the_message_says_all(small: Path) -> None:
    (small / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(b"broken")
    with pytest.raises(EFCError) as failure:
        store.get("mnist", small)
    text = str(failure.value)
    assert "files in" in text
    assert "download: http://127.0.0.1:9" in text
    assert "refused" in text
    assert f"Or place these files by hand in {small / 'mnist'}" in text
    assert "train-images-idx3-ubyte.gz" in text
    assert not (small / "mnist" / "prepared").exists()


def test_content_that_is_not_the_declared_one_is_refused(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = replace(store.SPECS["mnist"], sha256={"train_images": "0" * 64})
    monkeypatch.setitem(store.SPECS, "mnist", spec)
    with pytest.raises(EFCError, match="content of train_images is not that of mnist"):
        store.get("mnist", small)


def test_damage_on_disk_is_found(small: Path) -> None:
    folder = store.get("mnist", small)
    images = np.lib.format.open_memmap(folder / "train_images.npy", "r+")
    images[3, 3, 3] ^= 1
    images.flush()
    with pytest.raises(EFCError, match="train_images has changed on disk"):
        store.check("mnist", small)
    (folder / "train_images.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(EFCError, match="damaged"):
        load("mnist", data_dir=small)


def test_an_unwritable_data_folder_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EFCError, match=r"Not a directory|File exists"):
        store.get("mnist", tmp_path / "file")


def test_data_root_follows_flag_then_environment_then_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EFC_DATA", str(tmp_path / "env"))
    assert store.data_root(tmp_path / "flag") == tmp_path / "flag"
    assert store.data_root() == tmp_path / "env"
    monkeypatch.delenv("EFC_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert store.data_root().name == "efc"


def test_every_declared_set_is_complete() -> None:
    for spec in store.SPECS.values():
        assert spec.tasks[0] * spec.tasks[1] == len(spec.class_names)
        for file in spec.files:
            assert len(file.checksum.removeprefix("md5:")) == 32
            assert file.urls


def arrays(n: int = 20, d: int = 6, classes: int = 4) -> dict[str, Any]:
    y = np.arange(n) % classes
    return {"x_train": RNG.random((n, d)), "y_train": y, "x_test": RNG.random((n, d)), "y_test": y}


def test_npz_features_with_scale_and_any_labels(tmp_path: Path) -> None:
    content = arrays() | {"x_train": RNG.integers(0, 256, (20, 6), dtype=np.uint8), "scale": np.float32(0.5)}
    content["x_test"] = content["x_train"]
    content["y_train"] = content["y_test"] = np.array(["cat", "dog", "ant", "bee"])[np.arange(20) % 4]
    np.savez(tmp_path / "a.npz", **content)
    data = load(f"npz:{tmp_path / 'a.npz'}")
    assert data.class_names == ("ant", "bee", "cat", "dog")
    task = split(data, 2, 2, validation=0.0).tasks[0]
    chosen = np.isin(content["y_train"], ["ant", "bee"])
    np.testing.assert_allclose(task.parts["train"].x, 0.5 * content["x_train"][chosen])


def test_npz_images_become_pixels(tmp_path: Path) -> None:
    images = RNG.integers(0, 256, (20, 4, 4, 3), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", **(arrays() | {"x_train": images, "x_test": images}))
    data = load(f"npz:{tmp_path / 'a.npz'}")
    part = split(data, 1, 4, validation=0.0).tasks[0].parts["train"]
    np.testing.assert_allclose(part.x, images.reshape(20, -1) / 255, atol=1e-7)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"y_test": None}, "lacks y_test"),
        ({"y_train": np.zeros(3)}, r"x_train \(20, 6\) does not go with y_train \(3,\)"),
        ({"x_train": np.array([["a"] * 6] * 20)}, "must hold numbers"),
        ({"x_test": RNG.random((20, 5))}, "6 features, test data 5"),
        ({"x_train": np.full((20, 6), np.nan)}, "NaN"),
    ],
)
def test_bad_npz_files_are_refused(change: dict[str, Any], says: str, tmp_path: Path) -> None:
    content = {key: value for key, value in (arrays() | change).items() if value is not None}
    np.savez(tmp_path / "a.npz", **content)
    with pytest.raises(EFCError, match=says):
        load(f"npz:{tmp_path / 'a.npz'}")


def test_npz_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(EFCError, match="is not there"):
        read_npz(tmp_path / "no.npz")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 nonsense")
    with pytest.raises(EFCError, match="not a readable npz"):
        read_npz(tmp_path / "bad.npz")
    np.savez(tmp_path / "obj.npz", **(arrays() | {"y_train": np.array([{}] * 20, dtype=object)}))
    with pytest.raises(EFCError, match="not a readable npz"):
        read_npz(tmp_path / "obj.npz")


def pictures(root: Path, classes: int = 4, n: int = 10) -> None:
    for c in range(classes):
        (root / f"class{c}").mkdir(parents=True)
        for k in range(n):
            array = np.full((8 + k % 3, 9, 3), 20 * c + k, np.uint8)
            Image.fromarray(array).save(root / f"class{c}" / f"{k:03}.png")


def test_a_folder_is_split_for_the_user(tmp_path: Path) -> None:
    pictures(tmp_path)
    images = read_folder(tmp_path, size=8)
    assert images.class_names == ("class0", "class1", "class2", "class3")
    assert [len(images.labels[part]) for part in ("train", "test")] == [32, 8]
    values = {part: images.images[part][0:100][:, 0, 0, 0] for part in ("train", "test")}
    assert not set(values["train"]) & set(values["test"])
    np.testing.assert_array_equal(values["train"] // 20, images.labels["train"])
    assert read_folder(tmp_path, size=8).checksum == images.checksum
    (tmp_path / "class0" / "000.png").write_bytes((tmp_path / "class1" / "000.png").read_bytes())
    assert read_folder(tmp_path, size=8).checksum != images.checksum


def test_a_folder_with_its_own_parts(tmp_path: Path) -> None:
    pictures(tmp_path / "train", n=4)
    pictures(tmp_path / "val", n=2)
    images = read_folder(tmp_path, size=8)
    assert [len(images.labels[part]) for part in ("train", "test")] == [16, 8]
    (tmp_path / "val" / "class3").rename(tmp_path / "val" / "other")
    with pytest.raises(EFCError, match="class 'other'"):
        read_folder(tmp_path, size=8)


def test_folders_that_will_not_do(tmp_path: Path) -> None:
    with pytest.raises(EFCError, match="is not there"):
        read_folder(tmp_path / "no", 8)
    with pytest.raises(EFCError, match="one folder of pictures per class"):
        read_folder(tmp_path, 8)
    pictures(tmp_path, classes=2, n=1)
    with pytest.raises(EFCError, match="single picture"):
        read_folder(tmp_path, 8)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": "minst"}, "did you mean 'mnist'"),
        ({"name": "npz:"}, "unknown value"),
        ({"name": "digits", "encoder": "resnet"}, "did you mean 'resnet18'"),
        ({"name": "digits", "encoder": "resnet18"}, "too small"),
        ({"name": "digits", "encoder_weights": "x.pth"}, "only resnet18 takes"),
    ],
)
def test_mistakes_are_named(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(EFCError, match=says):
        load(**arguments)


def test_features_cannot_be_encoded_again(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays())
    with pytest.raises(EFCError, match="needs uint8 images"):
        load(f"npz:{tmp_path / 'a.npz'}", encoder="efficientnet-lite0")
