"""`efc theory` as a user meets it: files, resuming, mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from efc.cli import app
from efc.errors import EFCError
from efc.theory.experiments import EXPERIMENTS
from efc.theory.run import markdown, peak_memory
from support.command import efc


def test_findings_are_written_and_not_measured_twice(tmp_path: Path) -> None:
    out = tmp_path / "found"
    common = ("--quick", "--seeds", "1", "--out", str(out))
    first = efc("theory", "curvature", *common)
    assert first.returncode == 0, first.stderr
    document = json.loads((out / "curvature.json").read_text())
    assert document["scale"]["dataset"] == "digits"
    assert document["command"].startswith("efc theory curvature")
    assert 0 < document["peak_memory_GiB"] < 6
    assert 0 < document["numbers"]["products"]["diagonal"][0][0] < 1
    assert len(document["claims"]) == 4
    assert (out / "curvature.png").read_bytes()[1:4] == b"PNG"
    assert "<svg" in (out / "curvature.svg").read_text()[:400]
    assert (out / "theory.md").read_text().count("\n| curvature |") == 4
    document["numbers"]["products"]["diagonal"] = [[0.9] for _ in document["numbers"]["steps"]]
    (out / "curvature.json").write_text(json.dumps(document))
    again = CliRunner().invoke(app, ["theory", "curvature", *common])
    assert "already in" in again.stderr
    redone = json.loads((out / "curvature.json").read_text())
    assert redone["claims"][1]["measured"].startswith("0.9")  # judged from the numbers that are there
    other = CliRunner().invoke(app, ["theory", "curvature", "--quick", "--seeds", "2", "--out", str(out)])
    assert isinstance(other.exception, EFCError)
    assert "another scale" in str(other.exception)


def test_there_are_ten_and_they_are_listed() -> None:
    shown = CliRunner().invoke(app, ["theory"])
    assert shown.exit_code == 0
    assert all(name in shown.output for name in EXPERIMENTS)
    assert len(EXPERIMENTS) == 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["curvatur", "--quick"], "curvature"),
        (["curvature", "--dataset", "minst"], "mnist"),
        (["bounds", "--device", "cuda:9"], "cuda:9"),
    ],
)
def test_mistakes(arguments: list[str], said: str, tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["theory", *arguments, "--out", str(tmp_path / "x")])
    assert isinstance(shown.exception, EFCError)
    assert said in str(shown.exception)


def test_the_table_survives_bars() -> None:
    claim = {"statement": "|a|", "paper": "b", "measured": "c", "verdict": "holds"}
    assert "\\|a\\|" in markdown([{"experiment": "e", "claims": [claim]}])
    assert peak_memory() > 0.01
