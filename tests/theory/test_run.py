"""`efc theory` as a user meets it: files, resuming, mistakes."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save
from typer.testing import CliRunner

from efc.cli import app
from efc.errors import EFCError
from efc.files import to_json
from efc.runs.reading import SEALS, seal
from efc.theory.experiments import EXPERIMENTS
from efc.theory.run import _json, markdown, peak_memory, rounded, together
from efc.theory.situation import QUICK, prepare
from support.command import efc
from support.mutate import check_sentence, mutations


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
    (out / "curvature.json").write_text(to_json(document))
    refused = CliRunner().invoke(app, ["theory", "curvature", *common])
    assert "its checksum is wrong" in str(refused.exception)
    (out / "curvature.json").write_text(seal({key: document[key] for key in document.keys() - SEALS}))
    again = CliRunner().invoke(app, ["theory", "curvature", *common])
    assert "already in" in again.stderr
    redone = json.loads((out / "curvature.json").read_text())
    assert redone["claims"][1]["measured"].startswith("0.9")  # judged from the numbers that are there
    other = CliRunner().invoke(app, ["theory", "curvature", "--quick", "--seeds", "2", "--out", str(out)])
    assert isinstance(other.exception, EFCError)
    assert "another scale" in str(other.exception)


def test_there_are_twelve_and_they_are_listed() -> None:
    shown = CliRunner().invoke(app, ["theory"])
    assert shown.exit_code == 0
    assert all(name in shown.output for name in EXPERIMENTS)
    assert len(EXPERIMENTS) == 12


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


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff\xfe", b"[]", b"{}", b'{"numbers": 3}', b'{"numbers": {"steps": NaN}}', b"[" * 9999, None],
)
@pytest.mark.parametrize("name", ["bounds.json", "scale.json", "theta_A.safetensors"])
def test_damaged_files_are_named(name: str, content: bytes | None, tmp_path: Path) -> None:
    """None: a folder in its place. What is damaged is never overwritten unasked."""
    if name == "theta_A.safetensors":
        (tmp_path / "scale.json").write_text(to_json(QUICK.to_mapping()))
    elif name == "bounds.json":
        (tmp_path / "scale.json").write_text(to_json(QUICK.to_mapping()))
        (tmp_path / "theta_A.safetensors").write_bytes(b"x")
    file = tmp_path / name
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    shown = CliRunner().invoke(app, ["theory", "bounds", "--quick", "--out", str(tmp_path)])
    assert isinstance(shown.exception, EFCError), shown.exception
    if name != "scale.json" or content not in (b"[]", b"{}", b'{"numbers": 3}'):  # valid, but another scale
        assert f"{file} is damaged (" in str(shown.exception)
    if content is not None:
        assert file.read_bytes() == content


def test_mutated_findings_are_what_was_measured_or_damaged(tmp_path: Path) -> None:
    rng, n, file = random.Random(19), int(os.environ.get("EFC_FUZZ", "200")), tmp_path / "bounds.json"
    document = {"numbers": {"steps": [[k, k / 3] for k in range(40)], "note": "é"}, "seconds": 1.5}
    text = seal(document).encode()
    file.write_bytes(text)
    assert _json(file) == document
    for damaged in mutations(text, rng, n):
        file.write_bytes(damaged)
        try:
            assert _json(file) == document
        except EFCError as mistake:
            check_sentence(mistake)


def test_a_changed_bit_of_what_was_learned_is_noticed(tmp_path: Path) -> None:
    """Findings from other weights would look like findings."""
    scale = replace(QUICK, seeds=1, epochs=1)
    first = prepare(scale, "cpu", tmp_path)
    file = tmp_path / "theta_A.safetensors"
    data = bytearray(file.read_bytes())
    assert torch.equal(prepare(scale, "cpu", tmp_path).theta_A, first.theta_A)
    data[-1000] ^= 1
    file.write_bytes(data)
    with pytest.raises(EFCError, match=r"its checksum is wrong\); take it away"):
        prepare(scale, "cpu", tmp_path)
    file.write_bytes(save({"theta_A": first.theta_A}))  # as an early version wrote it
    assert torch.equal(prepare(scale, "cpu", tmp_path).theta_A, first.theta_A)


def test_documents_are_written_compactly_and_read_as_they_were() -> None:
    numbers = rounded({"a": [[1 / 3, 2], [None, 1e-9]], "b": [], "c": "x [1, 2]", "d": (True, 5)})
    assert numbers == {"a": [[0.333333, 2], [None, 1e-9]], "b": [], "c": "x [1, 2]", "d": [True, 5]}
    found = [{"experiment": "e", "numbers": numbers, "claims": [{"measured": "1 [2, 3]"}]}]
    text = together(found)
    assert json.loads(text) == found
    assert "[0.333333, 2]" in text


def test_seeds_may_be_added(tmp_path: Path) -> None:
    """What is asked for is part of the scale: other findings are not mixed with these."""
    common = ("theory", "bounds", "--quick", "--seeds", "1", "--out", str(tmp_path))
    CliRunner().invoke(app, [*common, "--most-seeds", "7"])
    assert json.loads((tmp_path / "scale.json").read_text())["most_seeds"] == 7
    again = CliRunner().invoke(app, [*common, "--most-seeds", "8"])
    assert isinstance(again.exception, EFCError)
