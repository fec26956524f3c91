"""What a results folder gets."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from efc.errors import EFCError
from efc.report import write_results
from efc.report.folder import newest_results
from support.records import typed


def test_a_plain_installation_says_in_one_line_how_to_get_picture_and_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: dict[str, Any]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "plotly", None)
    told: list[str] = []
    write_results(tmp_path, typed(small), told.append)
    remedy = "install them with: pip install 'equilibrium-fisher-control[plots,report]'"
    assert told == [f"No picture and no report: matplotlib and plotly are missing; {remedy}"]
    monkeypatch.undo()
    again: list[str] = []
    write_results(tmp_path, typed(small), again.append)  # what was missing is there: the same command makes both
    assert again == []
    assert {"results.json", "matrices.png", "report.html"} == {path.name for path in tmp_path.iterdir()}


def test_the_newest_results_are_those_written_last(tmp_path: Path) -> None:
    with pytest.raises(EFCError, match=r"there are no results in .*; name a folder"):
        newest_results(tmp_path / "results")
    for at, name in ((300, "old"), (500, "new"), (400, "middle")):
        (tmp_path / "results" / name).mkdir(parents=True)
        file = tmp_path / "results" / name / ("efc.sqlite" if name == "new" else "results.json")
        file.touch()
        os.utime(file, (at, at))
    (tmp_path / "results" / "empty").mkdir()
    assert newest_results(tmp_path / "results").name == "new"
