"""The user's own arrays and folders of pictures."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from efc.data.own import read_folder, read_npz
from efc.errors import EFCError
from efc.streams import load, split
from support.mutate import mutations

RNG = np.random.default_rng(0)


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
    with pytest.raises(EFCError, match="y_train must hold numbers or texts, got object"):
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


def test_odd_things_in_folders(tmp_path: Path) -> None:
    """What is hidden is left alone, as are files that are no pictures by their names; a pipe is not waited for."""
    pictures(tmp_path, classes=2, n=4)
    before = read_folder(tmp_path, 8).checksum
    (tmp_path / "class0" / "notes.txt").write_text("x")
    (tmp_path / "class0" / "._000.png").write_bytes(b"\0\5\x16\7")
    (tmp_path / "readme.png").write_bytes(b"x")
    (tmp_path / "empty").mkdir()
    assert read_folder(tmp_path, 8).checksum == before
    odd = tmp_path / "class1" / "odd.png"
    for make in (os.mkfifo, os.mkdir, lambda path: os.symlink(tmp_path / "nowhere", path), lambda p: os.symlink(p, p)):
        make(odd)
        with pytest.raises(EFCError, match=r"odd.png' is no file"):
            load(f"folder:{tmp_path}", image_size=8)
        odd.rmdir() if odd.is_dir() else odd.unlink()


@pytest.mark.parametrize("kind", ["png", "jpg", "gif", "bmp", "webp", "tiff"])
def test_pictures_that_are_damaged_are_named_or_read(kind: str, tmp_path: Path) -> None:
    pictures(tmp_path, classes=2, n=4)
    file, rng = tmp_path / "class0" / f"odd.{kind}", random.Random(19)
    Image.fromarray(RNG.integers(0, 256, (9, 9, 3), dtype=np.uint8)).save(file)
    whole = file.read_bytes()
    for spoilt in (b"", b"nonsense", whole[:20], whole[: len(whole) // 2], *mutations(whole, rng, 20)):
        file.write_bytes(spoilt)
        try:
            data = load(f"folder:{tmp_path}", image_size=8)
        except EFCError as problem:
            said = str(problem)
        else:
            said = file.name
            assert data.x_train.shape[1] == 8 * 8 * 3
        assert file.name in said


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    pictures(tmp_path, classes=2, n=4)
    Image.new("1", (20_000, 20_000)).save(tmp_path / "class0" / "bomb.png")
    with pytest.raises(EFCError, match=r"bomb.png: 20000 x 20000 pixels are more than 10000 x 10000"):
        load(f"folder:{tmp_path}", image_size=8)


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    pictures(tmp_path, classes=2, n=4)
    os.rename(tmp_path / "class0" / "000.png", os.fsencode(tmp_path / "class0") + b"/\xff.png")
    assert len(read_folder(tmp_path, 8).class_names) == 2
    os.rename(tmp_path / "class1", os.fsencode(tmp_path) + b"/class\xff")
    with pytest.raises(EFCError, match=r"name of the class 'class\\udcff' is not UTF-8; rename its folder"):
        load(f"folder:{tmp_path}")
    with pytest.raises(EFCError, match="File name too long"):
        load(f"folder:{tmp_path / ('x' * 300)}")
