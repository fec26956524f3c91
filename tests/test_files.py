"""Files that are there whole or not at all, and JSON that any reader reads."""

from __future__ import annotations

import csv
import json
import math
import os
import stat
from pathlib import Path

import pytest

from efc.errors import EFCError
from efc.files import from_cell, make_folder, to_csv, to_json, write_atomically


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
    assert json.loads(to_json({"a": math.nan, "b": [math.nan]})) == {"a": None, "b": [None]}


def test_csv_for_spreadsheets_and_readers() -> None:
    """Cells that a spreadsheet would compute are texts to it; numbers stay numbers; every row is one line."""
    cells = ["=1+1", "+cmd|' /C calc'!A0", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "'=1", "''=1", "-1.5", "+3", "1e-3",
             "'a", "a=b", "-", "--", "", "a,b\"c"]  # fmt: skip
    text = to_csv([cells, [1, -2.5, None, True]])
    assert text.count("\n") == 2
    first, second = csv.reader(text.splitlines())
    assert second == ["1", "-2.5", "", "True"]
    for cell, written in zip(cells, first, strict=True):
        assert written[:1] not in ("=", "@", "\t", "\r")
        assert from_cell(written) == cell.replace("\t", r"\t").replace("\r", r"\r")
    assert first[8:12] == ["-1.5", "+3", "1e-3", "'a"]
    assert first[2] == "'-1+1"


def test_names_that_are_no_utf8_cost_no_file(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", "x\udcff")
    assert (tmp_path / "a").read_text() == r"x\udcff"
