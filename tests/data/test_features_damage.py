"""A feature cache that is damaged, finished or not, is encoded again, and it says so."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from efc.data import features, seal
from efc.data.image_set import ImageSet
from efc.encoders import Encoder
from efc.errors import EFCError, EFCWarning


class Mean(nn.Module):
    """Mean colour of the four quarters, counting the images."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += len(x)
        return nn.functional.adaptive_avg_pool2d(x, 2).flatten(1)


class StoppedError(Exception):
    pass


def images() -> ImageSet:
    x = np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), dtype=np.uint8)
    y = np.arange(60) % 3
    return ImageSet("toy", ("a", "b", "c"), {"train": x, "test": x[:20]}, {"train": y, "test": y[:20]}, "c0")


def encode(root: Path, progress: features.Progress | None = None) -> tuple[features.Features, int]:
    """The features, and how many images were encoded for them."""
    network = Mean()
    found = features.encode(images(), Encoder("mean", 12, "w0", torch.device("cpu"), network), root, progress)
    return found, network.seen


def zeroed(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:128] + bytes(60 * 24))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[300] ^= 4
    file.write_bytes(content)


def header(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"(60, 12)", b"(30, 24)"))


def emptied(file: Path) -> None:
    file.write_bytes(b"")


DAMAGES = [zeroed, cut, flipped, header, emptied]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_part_is_encoded_again_and_only_that(damage: Callable[[Path], None], tmp_path: Path) -> None:
    found, _ = encode(tmp_path)
    whole, folder = np.array(found.x["train"]), found.folder
    del found
    damage(folder / "train.npy")
    with pytest.warns(EFCWarning, match=r"train.npy .*; encoded again"):
        again, seen = encode(tmp_path)
    assert seen == 60
    np.testing.assert_array_equal(again.x["train"], whole)
    assert encode(tmp_path)[1] == 0


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[]", b'{"size": 3}'])
def test_features_whose_hashes_are_damaged_are_encoded_again(content: bytes, tmp_path: Path) -> None:
    found, _ = encode(tmp_path)
    (found.folder / "test.seal.json").write_bytes(content)
    with pytest.warns(EFCWarning, match=r"test.npy cannot be verified \(test.seal.json is damaged\); encoded again"):
        assert encode(tmp_path)[1] == 20


def test_features_of_an_older_version_are_taken_over_and_verified_from_then_on(tmp_path: Path) -> None:
    folder = encode(tmp_path)[0].folder
    (folder / "train.seal.json").unlink()
    assert encode(tmp_path)[1] == 0
    flipped(folder / "train.npy")
    with pytest.warns(EFCWarning, match="not what was written"):
        assert encode(tmp_path)[1] == 60


@pytest.mark.parametrize("damage", [zeroed, cut, header, emptied])
def test_features_of_an_older_version_that_cannot_be_right(damage: Callable[[Path], None], tmp_path: Path) -> None:
    folder = encode(tmp_path)[0].folder
    (folder / "train.seal.json").unlink()
    damage(folder / "train.npy")
    with pytest.warns(EFCWarning, match="encoded again"):
        assert encode(tmp_path)[1] == 60


@pytest.fixture
def half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an encoding that was stopped after 40 of 60 images."""
    monkeypatch.setitem(features.BATCH, "cpu", 10)
    monkeypatch.setattr(features, "SAVE_EVERY", 20)

    def stop(what: str, done: int, total: int | None) -> None:
        if done == 50:
            raise StoppedError

    with pytest.raises(StoppedError):
        encode(tmp_path, stop)
    [folder] = (tmp_path / "features").iterdir()
    return folder


def test_an_interrupted_encoding_goes_on(half: Path, tmp_path: Path) -> None:
    found, seen = encode(tmp_path)
    assert seen == 20 + 20
    np.testing.assert_array_equal(found.x["train"], encode(tmp_path / "other")[0].x["train"])
    assert sorted(file.name for file in half.iterdir() if not file.name.startswith(".")) == [
        "test.npy", "test.seal.json", "train.npy", "train.seal.json",
    ]  # fmt: skip


@pytest.mark.parametrize("damage", [flipped, cut, emptied, Path.unlink])
def test_an_interrupted_encoding_that_is_damaged_begins_anew(
    damage: Callable[[Path], None], half: Path, tmp_path: Path
) -> None:
    (half / "train.part.npy").write_bytes((half / "train.part.npy").read_bytes()[: 128 + 40 * 24])
    damage(half / "train.part.npy")
    found, seen = encode(tmp_path)
    assert seen == 80
    np.testing.assert_array_equal(found.x["train"], encode(tmp_path / "other")[0].x["train"])


@pytest.mark.parametrize("mark", [b"40", b"", b"\xff", b"{}", b'{"size": 128, "block": 4194304, "blake2b": ["0"]}'])
def test_a_damaged_mark_of_how_far_it_was_begins_anew(mark: bytes, half: Path, tmp_path: Path) -> None:
    (half / "train.done.json").write_bytes(mark)
    found, seen = encode(tmp_path)
    assert seen == 80
    np.testing.assert_array_equal(found.x["train"], encode(tmp_path / "other")[0].x["train"])


def test_the_second_time_nothing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal, "RECENT", 0.0)
    folder = encode(tmp_path)[0].folder
    encode(tmp_path)
    notes = json.loads((folder / seal.NOTES).read_text())
    assert sorted(notes) == ["test.npy", "train.npy"]

    def read(*_: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(seal, "read_sealed", read)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert encode(tmp_path)[1] == 0


def test_leftovers_of_killed_writes_are_removed(half: Path, tmp_path: Path) -> None:
    (half / ".train.done.json.abcd1234").write_bytes(b"x")
    encode(tmp_path)
    assert not list(half.glob(".*.json.*"))


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "features").write_text("")
    with pytest.raises(EFCError, match=r"features/toy-mean-.*: (Not a directory|File exists)"):
        encode(tmp_path)
