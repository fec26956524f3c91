"""Checkpoints: what is written comes back; what is damaged is named, set aside, and the one before is used."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from efc.runs.checkpoint import Checkpoints
from efc.runs.plan import interrupted
from support.mutate import mutations

CASES = int(os.environ.get("EFC_FUZZ", "50"))


def state(n: float) -> dict[str, torch.Tensor]:
    return {
        "a": torch.full((3, 2), n), "b": torch.tensor([1, 2, 3]), "c": torch.tensor(n, dtype=torch.float64),
        "empty": torch.zeros(2, 0), "bytes": torch.arange(5, dtype=torch.uint8), "flag": torch.tensor([True, False]),
    }  # fmt: skip


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(
        torch.equal(value, other[key]) and value.dtype == other[key].dtype for key, value in one.items()
    )


def test_round_trip_and_two_generations(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path / "p")
    assert kept.load() is None
    for n in range(5):
        kept.save(state(n), {"task": n})
        found = kept.load()
        assert found is not None
        assert same(found[0], state(n))
        assert found[1]["task"] == n
    assert len(list((tmp_path / "p").glob("*.safetensors"))) == 2
    kept.remove()
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize("kind", ["safetensors", "json"])
def test_truncated_at_every_tenth_byte(tmp_path: Path, kind: str) -> None:
    """Whatever is left of the newest, the one before it comes back, and the message names the file."""
    whole = Checkpoints(tmp_path / "whole")
    whole.save(state(1), {"task": 1})
    whole.save(state(2), {"task": 2})
    newest = max((tmp_path / "whole").glob(f"*.{kind}"))
    size = newest.stat().st_size
    for length in range(0, size, 10):
        folder = tmp_path / f"cut-{length}"
        folder.mkdir()
        for file in (tmp_path / "whole").iterdir():
            content = file.read_bytes()
            (folder / file.name).write_bytes(content[:length] if file == newest else content)
        told: list[str] = []
        found = Checkpoints(folder, told.append).load()
        assert found is not None
        assert same(found[0], state(1)), length
        assert len(told) == 1
        assert newest.with_suffix(".safetensors").name in told[0]
        assert (folder / f"{newest.name}.damaged").exists()


@given(position=st.integers(0, 10_000), bit=st.integers(0, 7))
@settings(max_examples=60, deadline=None)
def test_a_flipped_bit_is_found(tmp_path_factory: pytest.TempPathFactory, position: int, bit: int) -> None:
    folder = tmp_path_factory.mktemp("flip")
    kept = Checkpoints(folder)
    kept.save(state(1), {})
    kept.save(state(2), {})
    newest = max(folder.glob("*.safetensors"))
    content = bytearray(newest.read_bytes())
    content[position % len(content)] ^= 1 << bit
    newest.write_bytes(content)
    found = kept.load()
    assert found is not None
    assert same(found[0], state(1))


def test_mutated_checkpoints(tmp_path: Path) -> None:
    """State and note: the newest, the one before where that is damaged, never anything else."""
    rng, kept = random.Random(19), Checkpoints(tmp_path / "p")
    for n in (1.0, 2.0):
        kept.save(state(n), {"runs": ["a"], "method": "sgd", "code": "c"})
    whole = {file: file.read_bytes() for file in (tmp_path / "p").iterdir()}
    ended = {1.0: 0, 2.0: 0}
    for _ in range(CASES):
        shutil.rmtree(tmp_path / "p")
        (tmp_path / "p").mkdir()
        for file, content in whole.items():
            file.write_bytes(content)
        file = rng.choice([file for file in whole if "2" in file.name])
        file.write_bytes(next(mutations(whole[file], rng, 1)))
        interrupted(tmp_path)
        told: list[str] = []
        faults = kept.faults()
        found = Checkpoints(tmp_path / "p", told.append).load()
        assert found is not None
        (number,) = (n for n in ended if same(found[0], state(n)))
        ended[number] += 1
        assert len(told) == len(faults) == (number == 1)
    assert all(ended.values())


def test_both_damaged_is_as_if_there_were_none_and_a_new_one_works(tmp_path: Path) -> None:
    told: list[str] = []
    kept = Checkpoints(tmp_path, told.append)
    kept.save(state(1), {})
    kept.save(state(2), {})
    for file in tmp_path.glob("*.safetensors"):
        file.write_bytes(b"")
    assert kept.load() is None
    assert len(told) == 2
    kept.save(state(3), {})
    found = kept.load()
    assert found is not None
    assert same(found[0], state(3))


def test_a_leftover_temporary_file_is_no_checkpoint(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path)
    kept.save(state(1), {"runs": ["x"]})
    (tmp_path / ".000002.safetensors.abc").write_bytes(b"half")
    (tmp_path / "000002.safetensors").write_bytes(b"renamed, but its note was never written")
    found = kept.load()
    assert found is not None
    assert json.loads((tmp_path / "000001.json").read_text())["runs"] == ["x"]
