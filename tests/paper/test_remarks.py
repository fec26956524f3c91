"""Sentences for rows that do not agree, and the pages on the paper's protocol and on what departs from it."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from efc.learners import LEARNERS
from efc.paper.protocol import NAMES, WIDTHS
from efc.paper.protocol_table import Part, ProtocolCell, ProtocolTable
from efc.paper.remarks import page, reason, remarks
from efc.runs.config import RunConfig, make_config
from efc.runs.results import Summary

ROOT = Path(__file__).parents[2]


def tool(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    found = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses ask there
    spec.loader.exec_module(found)
    return found


results_page = tool("tools/results_page.py")
DEPARTURES = (ROOT / "docs" / "departures.md").read_text(encoding="utf-8")
TABLES = [line for line in DEPARTURES.splitlines() if line.startswith("| ")]


def a_cell(line: str, mean: float, paper: tuple[float, float], column: str = "mnist") -> ProtocolCell:
    measure = Summary(mean, 1.0, [mean - 1, mean + 1])
    return ProtocolCell(
        part=Part("", {}), line=line, column=column, scenario="class", protocol="paper", widths="text", hidden=[100],
        method="x", head="random", accuracy=measure, task_accuracy=measure, unsettled=None, diverged=[], seconds=1.0,
        options={}, seeds=[0, 1], paper=paper,
    )  # fmt: skip


def test_each_row_that_does_not_agree_has_a_sentence_and_no_other() -> None:
    found = ProtocolTable([a_cell("EFC", 40.0, (51.4, 0.5)), a_cell("SGD", 19.0, (19.3, 0.0)),
                           a_cell("JOINT", 87.0, (92.2, 0.2), "cifar10-resnet18")])  # fmt: skip
    [told] = remarks(found, "mnist", "class")
    assert told.startswith("**EFC** is 11.4 points below the paper: ")
    [told] = remarks(found, "cifar10-resnet18", "class")
    assert told.startswith(
        "**JOINT** is 5.2 points below the paper: the paper's figure is that of a ResNet18 trained end"
    )
    text = page(found, {"mnist": "Split-MNIST"})
    assert text.startswith("## Split-MNIST, Class-IL: the paper's protocol and ours\n")
    assert text.count("- **") == 2


@pytest.mark.parametrize("line", NAMES.values())
@pytest.mark.parametrize("column", WIDTHS)
def test_there_is_a_reason_for_every_row_whichever_way_it_is_off(line: str, column: str) -> None:
    for mean in (1.0, 99.0):
        told = reason(a_cell(line, mean, (50.0, 0.1), column))
        assert told
        assert not told.endswith(".")


@pytest.mark.parametrize("column", WIDTHS)
def test_a_reason_fits_the_direction(column: str) -> None:
    """A larger buffer can only be why theirs is better, plain training why theirs is worse, and so on."""
    up, down = ({line: reason(a_cell(line, m, (50.0, 0.1), column)) for line in NAMES.values()} for m in (99.0, 1.0))
    assert "buffer holds 500" in down["DER++ (200)"]
    assert "buffer" not in up["DER++ (200)"]
    assert up["SGD"].endswith("so that less is forgotten")
    assert down["SGD"].endswith("so that less is learned")
    assert "never chosen" in down["SI"]
    assert "never chosen" not in up["SI"]


def options_named() -> list[str]:
    cells = [cell for line in TABLES for cell in re.findall(r"`([^`]+)`", line)]
    return sorted({part for cell in cells for part in re.findall(r"[a-z_]+=[^\s]*[^\s,]", cell)})


@pytest.mark.parametrize("text", options_named())
def test_every_option_that_the_page_names_exists_and_takes_the_value(text: str) -> None:
    name, _, value = text.partition("=")
    if name == "head" or name in {item.name for item in fields(RunConfig)}:
        assert make_config({"methods": "efc-paper", name: yaml.safe_load(value) if name != "hidden" else value})
        return
    given = yaml.safe_load(value)
    method = {"optimiser": "sgd", "momentum": "sgd", "buffer": "derpp", "strength": "si"}.get(name, "efc-paper")
    assert LEARNERS[method].options_type.from_mapping({name: float(given) if re.match(r"\d", value) else given})


def test_the_page_names_every_change_that_is_measured() -> None:
    changes = tool("benchmarks/departures.py").CHANGES
    named = [cell.strip("`") for line in TABLES for cell in line.split(" | ")[-2].split("; ")]
    wanted = {change.name for change in changes} - {change.base for change in changes}
    assert wanted <= set(named)
    assert {name for name in named if "=" in name or "sign" in name} <= wanted


def test_every_change_is_one_of_settings_that_are_taken() -> None:
    """Each differs from what it is compared with, and none of the bases is changed."""
    script = tool("benchmarks/departures.py")
    found = {change.name: script.config_of(change, {}) for change in script.CHANGES}
    assert len(found) == len(script.CHANGES)
    for change in script.CHANGES:
        base = change.base or "base"
        assert base in script.BASES
        assert (found[change.name] == found[base]) == (change.name == base), change.name
    assert found["DER++: 200 samples"].rows[0].options.buffer == 200
    assert found["SI: as searched"].rows[0].options.strength > 0


def test_a_figure_is_put_into_the_last_cell_of_the_row_that_names_its_change() -> None:
    measured = {"mean": -2.0, "std": 0.5, "per_seed": [-2.5, -1.5]}
    own = {
        "accuracy": {"mean": 60.0, "std": 1.0, "per_seed": [60.0, 61.0]},
        "sample_accuracy": {"per_seed": [61.0, 61.0]},
    }
    rows = [{"name": n, "base": "base", "difference": measured, **own} for n in ("base", "a=1", "b=2")]
    text = "words | of\n| x | `base` | |\n| y | `a=1`; `b=2` | old |\n| z | `c=3` | old |\n| m | `sample_accuracy` | |"
    filled = results_page.departures(text, {"rows": rows})
    assert filled.splitlines() == [
        "words | of", "| x | `base` | 60.0 ± 1.0 |", "| y | `a=1`; `b=2` | -2.0 ± 0.5; -2.0 ± 0.5 |",
        "| z | `c=3` | old |", "| m | `sample_accuracy` | +0.5 ± 0.7 |",
    ]  # fmt: skip
    assert results_page.departures(filled, {"rows": rows}) == filled
