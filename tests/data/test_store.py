"""The data folder: sources in turn, verified, prepared once; damage found."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from efc.data import mnist, seal, store
from efc.data.download import RemoteFile
from efc.errors import EFCError, EFCWarning
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


def spoil(folder: Path) -> None:
    """All pixels zero, behind a header that is whole."""
    file = folder / "train_images.npy"
    file.write_bytes(file.read_bytes()[:128] + bytes(40 * 28 * 28))


def test_damage_on_disk_is_found(small: Path) -> None:
    folder = store.get("mnist", small)
    images = np.lib.format.open_memmap(folder / "train_images.npy", "r+")
    images[3, 3, 3] ^= 1
    images.flush()
    with pytest.raises(EFCError, match=r"train_images.npy is not what was written .* mend it with: efc data get mnist"):
        store.check("mnist", small)


def test_damaged_data_are_prepared_again_from_the_published_files(small: Path) -> None:
    whole = load("mnist", data_dir=small)
    spoil(small / "mnist" / "prepared")
    with pytest.warns(EFCWarning, match=r"damaged: .*train_images.npy .*; prepared again from: files in"):
        again = load("mnist", data_dir=small)
    assert again.digest() == whole.digest()
    assert store.check("mnist", small)
    for damage in (lambda f: f.unlink(), lambda f: f.write_text("{"), lambda f: (f.unlink(), f.mkdir())):
        damage(small / "mnist" / "prepared" / "manifest.json")
        with pytest.warns(EFCWarning, match=r"manifest.json.*prepared again"):
            assert load("mnist", data_dir=small).digest() == whole.digest()


def test_damaged_data_that_nobody_can_provide_again_are_an_error_and_stay(small: Path) -> None:
    folder = store.get("mnist", small)
    (small / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    spoil(folder)
    with pytest.raises(EFCError, match=r"^mnist: damaged: .*train_images.npy .*; no source could provide it again"):
        load("mnist", data_dir=small)
    assert (folder / "train_labels.npy").exists()


def test_data_of_another_set_in_its_place_are_damage(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.get("mnist", small)
    monkeypatch.setitem(store.SPECS, "mnist", replace(store.SPECS["mnist"], class_names=tuple("abcdefghij")))
    with pytest.warns(EFCWarning, match="that of another data set"):
        assert load("mnist", data_dir=small).class_names[0] == "a"


def test_damage_that_leaves_no_trace_is_found_by_a_check_and_then_mended(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a disk that forgets: the file has not been written to. Here the notes say so."""
    monkeypatch.setattr(seal, "RECENT", 0.0)
    whole = load("mnist", data_dir=small)
    load("mnist", data_dir=small)
    folder = small / "mnist" / "prepared"
    spoil(folder)
    notes = json.loads((folder / seal.NOTES).read_text())
    found = (folder / "train_images.npy").stat()
    state = [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]
    notes["train_images.npy"][:4] = state
    (folder / seal.NOTES).write_text(json.dumps(notes))
    assert load("mnist", data_dir=small).digest() != whole.digest()  # nothing has been read again
    with pytest.raises(EFCError, match="not what was written"):
        store.check("mnist", small)
    with pytest.warns(EFCWarning, match="prepared again"):
        assert load("mnist", data_dir=small).digest() == whole.digest()


def test_a_damaged_set_is_listed_as_such(small: Path) -> None:
    assert store.here("mnist", small) == "no"
    store.get("mnist", small)
    assert store.here("mnist", small) == "yes"
    (small / "mnist" / "prepared" / "manifest.json").write_bytes(b"\xff")
    assert store.here("mnist", small) == "damaged"


PREPARE = """
import os, sys, pathlib, signal
from dataclasses import replace
from efc.data import mnist, seal, store
def stop(folder, out):
    (out / "half").write_bytes(b"x")
    print("preparing", flush=True)
    signal.pause()
files = tuple(replace(file, checksum=sum, urls=()) for file, sum in zip(mnist.SPEC.files, sys.argv[2:]))
store.SPECS["mnist"] = replace(mnist.SPEC, files=files, from_files=stop)
store.get("mnist", pathlib.Path(sys.argv[1]))
"""


def test_what_a_killed_process_left_is_removed_by_the_next_and_that_of_a_live_one_is_not(small: Path) -> None:
    folder = small / "mnist"
    sums = [file.checksum for file in store.SPECS["mnist"].files]
    command = [sys.executable, "-c", PREPARE, str(small), *sums]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "preparing\n"
        [scratch] = folder.glob(".preparing-*")
        store._sweep(folder)
        assert (scratch / "arrays" / "half").exists()
        process.kill()
    assert scratch.exists()
    store.get("mnist", small)
    assert not list(folder.glob(".preparing-*"))
    (folder / ".preparing-late").mkdir()  # killed between moving the arrays into place and cleaning up
    store.get("mnist", small)
    assert not list(folder.glob(".preparing-*"))


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
        assert len(spec.class_names) % spec.classes_per_task == 0
        for file in spec.files:
            assert len(file.checksum.removeprefix("md5:")) == 32
            assert file.urls
