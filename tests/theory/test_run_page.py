"""docs/theory.md: its table is what the program wrote, nothing is missing, every figure is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from efc.theory.experiments import EXPERIMENTS
from efc.theory.run import markdown

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "theory.md").read_text(encoding="utf-8")
FOUND = json.loads((DOCS / "theory" / "theory.json").read_text(encoding="utf-8"))


def test_the_table_is_what_was_written() -> None:
    assert markdown(FOUND) in PAGE


def test_nothing_is_missing() -> None:
    assert [document["experiment"] for document in FOUND] == list(EXPERIMENTS)
    for document in FOUND:
        assert document["scale"]["dataset"] == "mnist"
        assert document["scale"]["seeds"] == 5
        assert document["peak_memory_GiB"] < 6
        assert document["claims"]
    assert sum(document["seconds"] for document in FOUND) < 30 * 60


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_its_figure(name: str) -> None:
    assert f"](theory/{name}.png)" in PAGE
    assert (DOCS / "theory" / f"{name}.png").stat().st_size < 200_000
