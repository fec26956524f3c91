"""Hashes of blocks: what has changed is found, what has not is read once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from efc.data import seal
from efc.data.seal import Seal, Sealer, check_once, check_seal, difference, read_sealed


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files may be remembered at once, and have blocks of ten bytes."""
    monkeypatch.setattr(seal, "RECENT", 0.0)
    monkeypatch.setattr(seal, "BLOCK", 10)


def test_a_seal_does_not_depend_on_the_pieces_and_comes_back_from_json(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(bytes(range(37)))
    one = Sealer()
    for piece in (bytes(range(3)), bytes(range(3, 29)), bytes(range(29, 37))):
        one.add(piece)
    assert one.seal() == read_sealed(file).seal()
    assert len(one.seal().blocks) == 4
    assert Seal.from_json(json.loads(json.dumps(one.seal().to_json()))) == one.seal()
    assert read_sealed(file, 20).seal().blocks == one.seal().blocks[:2]


@pytest.mark.parametrize("value", [None, [], 3, {}, {"size": "3"}, {"size": 3, "block": 10, "blake2b": [1]}])
def test_what_is_no_seal(value: object) -> None:
    with pytest.raises(ValueError, match="not readable"):
        Seal.from_json(value)


def test_differences_are_named(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(bytes(range(37)))
    right = read_sealed(file).seal()
    assert difference(file, right) is None
    file.write_bytes(bytes(range(20)) + b"\0" + bytes(range(21, 37)))
    assert difference(file, right) == "is not what was written (block 3 of 4)"
    file.write_bytes(bytes(range(36)))
    assert difference(file, right) == "is 36 bytes long instead of 37"


def test_a_file_is_read_once_per_change(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"abc")
    looked: list[int] = []

    def look() -> None:
        looked.append(1)

    for expected in ("x", "x", "y", "y"):
        assert check_once(file, expected, look) is None
    assert len(looked) == 2
    file.write_bytes(b"abd")
    check_once(file, "y", look)
    check_once(file, "y", look)
    assert len(looked) == 3
    check_once(file, "y", look, again=True)
    assert len(looked) == 4


def test_a_change_is_found_though_size_and_time_are_set_back(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"abc" * 10)
    right = read_sealed(file).seal()
    assert check_seal(file, right) is None
    before = file.stat()
    with file.open("r+b") as out:
        out.write(b"x")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert check_seal(file, right) == "is not what was written (block 1 of 3)"
    assert not (tmp_path / seal.NOTES).exists()


def test_a_file_that_has_just_changed_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal, "RECENT", 1e9)
    (tmp_path / "f").write_bytes(b"abc")
    assert check_seal(tmp_path / "f", read_sealed(tmp_path / "f").seal()) is None
    assert not (tmp_path / seal.NOTES).exists()


@pytest.mark.parametrize("notes", [b"", b"{", b"\xff\xfe", b"[1]", b'{"f": 3}', b"[" * 100_000, b"3"])
def test_damaged_notes_make_no_damaged_file_pass(notes: bytes, tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"abc")
    right = read_sealed(file).seal()
    check_seal(file, right)
    (tmp_path / seal.NOTES).write_bytes(notes)
    assert check_seal(file, right) is None
    file.write_bytes(b"abd")
    (tmp_path / seal.NOTES).write_bytes(notes)
    assert check_seal(file, right) is not None


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert check_seal(tmp_path / "f", Seal(0, ())) == "cannot be read (No such file or directory)"
