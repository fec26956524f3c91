"""Files that are there whole or not at all, and JSON that any reader reads."""

from __future__ import annotations

import json
import math
import os
import stat
from pathlib import Path

import pytest

from efc.errors import EFCError
from efc.files import make_folder, to_json, write_atomically


def test_what_is_written_is_there_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_atomically(path, "grün\n")
    assert path.read_bytes() == "grün\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    write_atomically(path, b"\x00\xff")
    assert path.read_bytes() == b"\x00\xff"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_where_the_new_file_cannot_take_its_place_the_old_one_stays(tmp_path: Path) -> None:
    """A folder in the way: everything works but the very last step."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "kept").write_text("before")
    with pytest.raises(EFCError, match=r"^cannot write .*a: .*; what was written before is intact$"):
        write_atomically(tmp_path / "a", "after")
    assert (tmp_path / "a" / "kept").read_text() == "before"
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(EFCError, match=r"cannot write .*: No such file or directory"):
        write_atomically(tmp_path / "no" / "a", "text")


def test_folders_are_made_with_those_above_them(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert make_folder(folder, "out") == folder
    assert make_folder(folder, "out") == folder
    assert list(folder.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(EFCError, match=r"^out: cannot write to .*file"):
        make_folder(tmp_path / "file", "out")


def test_json_is_strict() -> None:
    document = {"a": [1.5, math.inf, (-math.inf, None)], "path": Path("x/y"), "deep": {"b": True}}
    assert json.loads(to_json(document)) == {"a": [1.5, "inf", ["-inf", None]], "path": "x/y", "deep": {"b": True}}
    with pytest.raises(ValueError, match="JSON"):
        to_json({"a": math.nan})
