"""The prepared form of a data set: written chunk by chunk, moved into place whole, read a slice at a time."""

from __future__ import annotations

import hashlib
import json
import os
import random
from pathlib import Path

import numpy as np
import pytest

from efc.data.image_set import ArrayFile, Writer, array_hash, finish, open_prepared, read_manifest
from efc.data.seal import DamagedError
from efc.errors import EFCError
from support.images import pixels
from support.mutate import mutations

CASES = int(os.environ.get("EFC_FUZZ", "200"))
"""How many mutated manifests are tried."""


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


def test_all_of_it_is_on_disk_before_it_is_moved_into_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power loss after the move would leave files of the right length full of zeros."""
    write(tmp_path / "new")
    steps: list[str] = []
    sync, rename, replace = os.fsync, os.rename, os.replace

    def synced(handle: int) -> None:
        steps.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        sync(handle)

    def moved(move: object, source: object, target: object) -> None:
        steps.append(f"-> {Path(str(target)).name}")
        move(source, target)  # type: ignore[operator]

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", lambda source, target: moved(rename, source, target))
    monkeypatch.setattr(os, "replace", lambda source, target: moved(replace, source, target))
    finish(tmp_path / "new", tmp_path / "prepared", ("a", "b"), "made here")
    before = steps[: steps.index("-> prepared")]
    arrays = {f"{part}_{kind}.npy" for part in ("train", "test") for kind in ("images", "labels")}
    assert arrays <= set(before)
    assert any(name.endswith("manifest.json") or "manifest.json" in name for name in before)
    assert "new" in before, "the folder's own entries"
    assert tmp_path.name in steps[len(before) :], "and then its place"


def test_the_manifest_holds_hashes_of_the_values(tmp_path: Path) -> None:
    images = write(tmp_path / "new")
    finish(tmp_path / "new", tmp_path / "prepared", ("a", "b"), "made here")
    manifest = read_manifest(tmp_path / "prepared")
    assert manifest is not None
    assert manifest.source == "made here"
    assert manifest.sha256["train_images"] == hashlib.sha256(images["train"].tobytes()).hexdigest()
    assert array_hash(tmp_path / "prepared" / "test_images.npy") == manifest.sha256["test_images"]


def test_other_content_is_another_checksum_and_replaces_what_was_there(tmp_path: Path) -> None:
    sums = []
    for name in ("first", "second"):
        write(tmp_path / name)
        finish(tmp_path / name, tmp_path / "prepared", ("a", "b"), name)
        sums.append(open_prepared("mine", tmp_path / "prepared").checksum)
    assert sums[0] != sums[1]
    manifest = read_manifest(tmp_path / "prepared")
    assert manifest is not None
    assert manifest.source == "second"


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


def test_what_is_prepared_is_verified_when_it_is_opened(tmp_path: Path) -> None:
    write(tmp_path / "new")
    finish(tmp_path / "new", tmp_path / "prepared", ("a", "b"), "made here")
    file = tmp_path / "prepared" / "train_images.npy"
    whole = file.read_bytes()
    for spoilt in (whole[:128] + bytes(len(whole) - 128), whole[:-1], whole.replace(b"(5, 4, 3)", b"(5, 2, 6)")):
        file.write_bytes(spoilt)
        with pytest.raises(DamagedError, match=r"mine: damaged: .*train_images.npy is"):
            open_prepared("mine", tmp_path / "prepared")
    file.unlink()
    with pytest.raises(DamagedError, match="cannot be read"):
        open_prepared("mine", tmp_path / "prepared")
    file.write_bytes(whole)
    open_prepared("mine", tmp_path / "prepared")


def test_a_folder_of_an_older_version_is_verified_by_the_hashes_of_its_values(tmp_path: Path) -> None:
    write(tmp_path / "new")
    finish(tmp_path / "new", tmp_path / "prepared", ("a", "b"), "made here")
    new = open_prepared("mine", tmp_path / "prepared").checksum
    manifest = json.loads((tmp_path / "prepared" / "manifest.json").read_text())
    del manifest["files"], manifest["digest"]
    (tmp_path / "prepared" / "manifest.json").write_text(json.dumps(manifest))
    assert open_prepared("mine", tmp_path / "prepared").checksum == new
    file = tmp_path / "prepared" / "test_labels.npy"
    whole = file.read_bytes()
    for spoilt in (whole[:-1] + b"\1", whole[:-8], whole.replace(b"<i8", b"<f8"), b"\x93NUMPY", b""):
        file.write_bytes(spoilt)
        with pytest.raises(DamagedError, match="damaged"):
            open_prepared("mine", tmp_path / "prepared")


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"\xff\xfe\x00", b"[]", b"[[1, 2]]", b"3", b"null", b"{}", b"[" * 100_000, b"1" * 10_000,
        b'{"class_names": 3, "source": "x", "sha256": {}}',
        b'{"class_names": ["a"], "source": "x", "sha256": {"train_images": 3}}',
    ],
)  # fmt: skip
def test_damaged_manifests_are_one_sentence(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(DamagedError, match=r"manifest.json: unreadable manifest .*; get the data again"):
        open_prepared("mine", tmp_path)


def test_a_manifest_that_is_a_folder_and_one_with_another_digit(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").mkdir()
    with pytest.raises(DamagedError, match="Is a directory"):
        read_manifest(tmp_path)
    write(tmp_path / "new")
    finish(tmp_path / "new", tmp_path / "prepared", ("a", "b"), "made here")
    file = tmp_path / "prepared" / "manifest.json"
    file.write_text(file.read_text().replace('"a"', '"c"'))
    with pytest.raises(DamagedError, match="not what was written"):
        read_manifest(tmp_path / "prepared")


def test_mutated_manifests_are_found(tmp_path: Path) -> None:
    write(tmp_path / "new")
    finish(tmp_path / "new", tmp_path / "prepared", ("a", "b"), "made here")
    file, right = tmp_path / "prepared" / "manifest.json", read_manifest(tmp_path / "prepared")
    found = 0
    for spoilt in mutations(file.read_bytes(), random.Random(19), CASES):
        file.write_bytes(spoilt)
        try:
            assert read_manifest(tmp_path / "prepared") == right  # spaces more or less
        except DamagedError:
            found += 1
    assert found > CASES // 2
