"""The prepared form of a data set: written chunk by chunk, moved into place whole, read a slice at a time."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from efc.data.image_set import ArrayFile, Writer, array_hash, finish, open_prepared, read_manifest
from efc.errors import EFCError
from support.images import pixels


def write(folder: Path, n: int = 5) -> dict[str, np.ndarray]:
    """Both parts in two chunks each; what was written."""
    folder.mkdir()
    images = {}
    for part in ("train", "test"):
        images[part] = pixels(n, 4, 3)
        writer = Writer(folder, part, n, (4, 3))
        writer.add(images[part][:2], [0, 1])
        writer.add(images[part][2:], [0] * (n - 2))
        writer.close()
    return images


def test_what_is_written_in_chunks_is_read_whole(tmp_path: Path) -> None:
    images = write(tmp_path / "new")
    finish(tmp_path / "new", tmp_path / "prepared", ("a", "b"), "made here")
    assert not (tmp_path / "new").exists()
    data = open_prepared("mine", tmp_path / "prepared")
    assert data.class_names == ("a", "b")
    for part, expected in images.items():
        np.testing.assert_array_equal(np.load(tmp_path / "prepared" / f"{part}_images.npy"), expected)
        np.testing.assert_array_equal(data.images[part][1:3], expected[1:3])
        np.testing.assert_array_equal(data.labels[part], [0, 1, 0, 0, 0])
        assert len(data.images[part]) == 5


def test_the_manifest_holds_hashes_of_the_values(tmp_path: Path) -> None:
    images = write(tmp_path / "new")
    finish(tmp_path / "new", tmp_path / "prepared", ("a", "b"), "made here")
    manifest = read_manifest(tmp_path / "prepared")
    assert manifest is not None
    assert manifest["source"] == "made here"
    assert manifest["sha256"]["train_images"] == hashlib.sha256(images["train"].tobytes()).hexdigest()
    assert array_hash(tmp_path / "prepared" / "test_images.npy") == manifest["sha256"]["test_images"]


def test_other_content_is_another_checksum_and_replaces_what_was_there(tmp_path: Path) -> None:
    sums = []
    for name in ("first", "second"):
        write(tmp_path / name)
        finish(tmp_path / name, tmp_path / "prepared", ("a", "b"), name)
        sums.append(open_prepared("mine", tmp_path / "prepared").checksum)
    assert sums[0] != sums[1]
    assert (read_manifest(tmp_path / "prepared") or {})["source"] == "second"


def test_too_many_too_few_and_others(tmp_path: Path) -> None:
    writer = Writer(tmp_path, "train", 3, (4, 3))
    with pytest.raises(EFCError, match="train: "):
        writer.add(pixels(4, 4, 3), [0] * 4)
    with pytest.raises(EFCError, match="train: "):
        writer.add(pixels(2, 3, 4), [0, 0])
    with pytest.raises(EFCError, match="train: 1 labels"):
        writer.add(pixels(2, 4, 3), [0])
    writer.add(pixels(2, 4, 3), [0, 1])
    with pytest.raises(EFCError, match="train: 2 images, expected 3"):
        writer.close()


def test_folders_without_a_data_set(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    with pytest.raises(EFCError, match="mine: not prepared in"):
        open_prepared("mine", tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(EFCError, match="unreadable manifest"):
        read_manifest(tmp_path)


def test_a_slice_is_a_copy_and_not_the_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.uint8).reshape(3, 2))
    file = ArrayFile(tmp_path / "a.npy")
    file[0:2][:] = 9
    np.testing.assert_array_equal(file[0:3], [[0, 1], [2, 3], [4, 5]])
