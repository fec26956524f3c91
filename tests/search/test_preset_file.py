"""The file that a search adds to: what is wrong with it is told before the search, and nothing in it is lost."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
import yaml

from efc.errors import EFCError
from efc.runs.config import RunConfig, make_config
from efc.search.preset_file import preset_text, read_presets
from support.command import efc
from support.mutate import mutations

CASES = int(os.environ.get("EFC_FUZZ", "50"))

SWEEP = ("sweep", "--method", "sgd", "--trials", "1", "--epochs", "1", "--hidden", "8", "--out", "s")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"class: [1", "is not valid YAML"),
        (b"\xff\xfe", "is not valid YAML"),
        (b"- 1", "expected named settings"),
        (b"class: 3", ": class: expected named settings (key: value), got 3"),
        (b"class: {sgd: [1]}", ": class: sgd: expected named settings (key: value), got [1]"),
        (b"a: &a [1]\nb: *a", "it has an alias"),
        (None, "cannot read p.yaml: Is a directory"),
    ],
)
def test_a_damaged_file_is_told_before_anything_is_searched(content: bytes | None, says: str, tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    done = efc(*SWEEP, "--preset", "p.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert "efc: --preset" in done.stderr
    assert says in done.stderr
    assert done.stderr.count("\n") == 1, "nothing was searched"
    assert not (tmp_path / "s").exists()
    assert content is None or file.read_bytes() == content


def test_mutated_presets_are_read_or_refused_in_a_sentence(tmp_path: Path) -> None:
    """Before a search, and by who uses them; what a search adds can be written into all that were read."""
    base = make_config({"methods": "sgd", "head": "zero", "seeds": 1}, shipped=False)
    whole = preset_text({}, base, [(50.0, {"lr": 0.125})], "efc sweep", "random", {"lr": (0.1, 1.0)})
    file, read, sentences = tmp_path / "p.yaml", 0, list[str]()
    for damaged in mutations(whole.encode(), random.Random(19), CASES):
        file.write_bytes(damaged)
        for use in (lambda: _searched(file, base), lambda: make_config({"methods": "sgd", "preset_file": str(file)})):
            try:
                use()
                read += 1
            except EFCError as problem:
                sentences.append(str(problem))
    assert read
    assert max(map(len, sentences)) < 2000
    assert not any("\n" in said for said in sentences)


def _searched(file: Path, base: RunConfig) -> None:
    found = read_presets(file, base.rows)
    yaml.safe_load(preset_text(found, base, [(50.0, {"lr": 0.125})], "efc sweep", "random", {"lr": (0.1, 1.0)}))


def test_a_place_that_cannot_be_written_to_is_told_first(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = efc(*SWEEP, "--preset", "file/p.yaml", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "efc: --preset: cannot write to file: File exists\n")


def test_what_is_in_the_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("task: {ewc: {zero: {options: {lr: 0.5}}}}\nclass: {sgd: {random: {options: {lr: 0.25}}}}\n")
    base = make_config({"methods": "sgd", "head": "zero", "seeds": 1}, shipped=False)
    found = read_presets(file, base.rows)
    text = preset_text(found, base, [(50.0, {"lr": 0.125})], "efc sweep", "random", {"lr": (0.1, 1.0)})
    after = yaml.safe_load(text)
    assert after["task"]["ewc"]["zero"]["options"] == {"lr": 0.5}
    assert after["class"]["sgd"]["random"]["options"] == {"lr": 0.25}
    assert after["class"]["sgd"]["zero"]["options"] == {"lr": 0.125}
