"""The paper's table: presets that load, searches that did not end on a border, validation and test data apart."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from efc import presets
from efc.cli.bench_paper import shown
from efc.learners import find_learner
from efc.paper.lines import COLUMNS, LINES, USUAL, WIDE, Line
from efc.paper.table import Cell, Entry, PaperTable, config_of, entries, told
from efc.runs.config import make_config
from efc.runs.plan import Pack, expand, place_of
from efc.runs.results import Summary
from efc.runs.worker import prepare
from efc.search.space import on_border
from efc.search.sweep import trial_config
from support.command import efc

_tool = importlib.util.spec_from_file_location("results_page", Path(__file__).parents[2] / "tools" / "results_page.py")
assert _tool is not None
assert _tool.loader is not None
results_page: Any = importlib.util.module_from_spec(_tool)
_tool.loader.exec_module(results_page)

PRESETS = sorted(Path(presets.__file__).parent.glob("*.yaml"))
assert PRESETS
VARIANTS = {
    "efc-anchor": "efc", "efc-mas": "efc", "efc-additive": "efc", "efc-additive-mas": "efc", "ewc-head": "ewc",
    "mas-head": "mas", "untrained": "frozen", "efc-natural": "efc", "activity-natural": "activity",
}  # fmt: skip
MEMORY = ("efc", "activity", "activity_ewc", "efc-natural", "activity-natural")
"""Names that remember activity; they were searched with higher rates, and so was the zero head."""
"""Names in preset files that are not methods."""

TELLS = 0.2
"""Points of validation accuracy below which seven seeds do not tell two settings apart."""
BORDERS = {
    ("cifar10-efficientnet-lite0", "class", "mas", "analytic", "strength"): "frozen is best",
    ("cifar10-efficientnet-lite0", "class", "sgd", "analytic", "lr"): "the less it trains, the better",
    ("cifar10-resnet18", "class", "derpp", "analytic", "lr"): "the less it trains, the better",
    ("cifar10-resnet18", "class", "efc-anchor", "analytic", "anchor"): "frozen is best",
    ("cifar10-resnet18", "class", "online_ewc", "analytic", "ridge"): "to be searched wider",
    ("cifar10-resnet18", "class", "online_ewc", "analytic", "strength"): "frozen is best",
    ("cifar10-resnet18", "class", "sgd", "analytic", "lr"): "the less it trains, the better",
    ("cifar10-resnet18", "task", "derpp", "analytic", "ridge"): "to be searched wider",
    ("mnist", "class", "sgd", "analytic", "lr"): "the less it trains, the better",
    ("mnist", "task", "sgd", "analytic", "ridge"): "to be searched wider",
    ("tiny-imagenet-resnet18", "class", "derpp", "analytic", "lr"): "the less it trains, the better",
    ("tiny-imagenet-resnet18", "class", "derpp", "least_squares", "alpha"): "to be searched wider",
    ("tiny-imagenet-resnet18", "class", "derpp", "least_squares", "beta"): "to be searched wider",
    ("tiny-imagenet-resnet18", "class", "derpp", "least_squares", "lr"): "the less it trains, the better",
    ("tiny-imagenet-resnet18", "class", "efc-paper", "least_squares", "lr"): "the less it trains, the better",
    ("tiny-imagenet-resnet18", "class", "efc-additive-mas", "least_squares", "lr"): "the less it trains, the better",
    ("tiny-imagenet-resnet18", "class", "ewc", "least_squares", "lr"): "the less it trains, the better",
    ("tiny-imagenet-resnet18", "class", "frozen", "analytic", "ridge"): "flat",
    ("tiny-imagenet-resnet18", "class", "frozen", "least_squares", "lr"): "the less it trains, the better",
    ("tiny-imagenet-resnet18", "class", "mas-head", "least_squares", "lr"): "the less it trains, the better",
    ("tiny-imagenet-resnet18", "class", "sgd", "analytic", "lr"): "the less it trains, the better",
    ("tiny-imagenet-resnet18", "class", "sgd", "least_squares", "lr"): "the less it trains, the better",
    ("tiny-imagenet-resnet18", "task", "derpp", "analytic", "lr"): "the less it trains, the better",
    ("tiny-imagenet-resnet18", "task", "ewc", "analytic", "strength"): "frozen is best",
    ("tiny-imagenet-resnet18", "task", "online_ewc", "analytic", "strength"): "frozen is best",
    ("tiny-imagenet-resnet18", "task", "sgd", "analytic", "lr"): "the less it trains, the better",
    ("cifar10-resnet18-wide", "class", "sgd", "compensated", "lr"): "the less it trains, the better",
    ("digits", "class", "activity-natural", "least_squares", "mu"): "hardly natural is best",
    ("digits", "class", "activity_ewc", "analytic", "strength"): "without EWC it is best",
    ("digits", "class", "derpp", "compensated", "lr"): "the less it trains, the better",
    ("digits", "class", "efc-natural", "least_squares", "mu"): "hardly natural is best",
    ("digits", "class", "kfac", "zero", "strength"): "nothing protects new outputs: one class is all it learns",
    ("digits", "class", "lwf", "least_squares", "distil"): "to be searched wider",
    ("mnist", "class", "activity_ewc", "least_squares", "strength"): "without EWC it is best",
    ("mnist-wide", "class", "sgd", "compensated", "lr"): "the less it trains, the better",
}
"""Every best value that lies on the border of its search where none inside is as good, and why."""


RIVALS = ("kfac", "ncl", "owm", "gpm", "lwf")


def searches() -> list[tuple[str, str, str, str, dict[str, Any]]]:
    found = []
    for file in PRESETS:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
        for scenario in ("class", "task", "domain"):
            for method, heads in document.get(scenario, {}).items():
                found += [(file.stem, scenario, method, head, entry) for head, entry in heads.items()]
    return found


@pytest.mark.parametrize(
    ("column", "scenario", "method", "head", "entry"), searches(), ids=lambda v: v if isinstance(v, str) else ""
)
def test_a_preset_is_a_valid_set_of_options(column: str, scenario: str, method: str, head: str, entry: Any) -> None:
    learner = find_learner(VARIANTS.get(method, method))
    assert head in learner.heads
    assert learner.options_type.from_mapping(entry["options"])
    assert 0 < entry["validation_accuracy"] <= 100


def is_wide(column: str) -> bool:
    return column in COLUMNS and COLUMNS[column].wide


def test_every_search_of_the_table_had_the_same_budget_and_range() -> None:
    mine = [found for found in searches() if "searched" in found[-1] and not is_wide(found[0])]
    assert len(mine) > 190
    for column, scenario, method, head, entry in mine:
        where = (column, scenario, method, head)
        assert entry["settings_tried"] == (12 if method == "joint" else 48), where
        later = method in (*MEMORY, *RIVALS) or head == "zero" or (method == "derpp" and "compensated" in head)
        if "lr" in entry["searched"]:
            usual = [1e-6, 1e-1 if method == "joint" else 1e-2]
            wide = [1e-4, 1e0] if method == "ncl" else [1e-5, 1e-1]  # ncl's is a share of the whole way
            assert entry["searched"]["lr"] == (wide if later else usual), where
        if later:
            assert "best 5 again on 5 further" in " ".join(entry["how"].split()), where
        if "pull" in entry["searched"]:
            assert entry["searched"]["pull"] == [1e-3, 1e1], where
        for name in ("strength", "beta", "anchor"):
            if name in entry["searched"] and method != "derpp":
                low, high = entry["searched"][name]
                assert high / low >= 0.99e6, (where, name)


def test_every_search_of_a_wide_column_had_the_same_budget_and_range() -> None:
    mine = [found for found in searches() if is_wide(found[0])]
    assert {column for column, *_ in mine} == set(COLUMNS) - set(USUAL)
    for column, scenario, method, head, entry in mine:
        where = (column, method, head)
        assert scenario == "class"
        assert entry["settings_tried"] == (12 if method == "joint" else 48), where
        if method in ("efc", "activity", "sgd", "frozen"):
            assert entry["searched"]["lr"] == [1e-5, 1e-1], where
        if method in ("efc", "activity"):
            assert entry["searched"].keys() - {"ridge", "beta"} == {"lr", "pull"}, where
            assert entry["searched"]["pull"] == [1e-3, 1e1], where


def as_good_inside(entry: Any, axis: str) -> bool:
    """Whether one of the best five settings has a value off the border and scores as the best, to what can be told."""
    space = {axis: tuple(entry["searched"][axis])}
    inside = [score for score, options in entry.get("best", []) if not on_border(space, options)]
    return any(score >= entry["validation_accuracy"] - TELLS for score in inside)


def test_no_best_value_lies_on_a_border_but_those_that_are_explained() -> None:
    found = set()
    for column, scenario, method, head, entry in searches():
        if "searched" in entry:
            space = {axis: tuple(values) for axis, values in entry["searched"].items()}
            names = on_border(space, entry["options"])
            assert names == entry["on_border"]
            found |= {(column, scenario, method, head, name) for name in names if not as_good_inside(entry, name)}
    assert found == set(BORDERS)


def test_the_best_of_a_search_is_what_was_chosen() -> None:
    mine = [entry for *_, entry in searches() if "best" in entry]
    assert len(mine) > 150
    assert all(entry["best"][0] == [entry["validation_accuracy"], entry["options"]] for entry in mine)


def test_validation_and_test_data_never_meet_in_a_sweep() -> None:
    """A trial is scored on a part of the training data that it does not train on."""
    base = make_config(
        {"dataset": "digits", "methods": "sgd", "sgd": {"inputs": "raw"}, "validation": 0.25, "device": "cpu"},
        shipped=False,
    )
    config = trial_config(base, [{"lr": 1e-3}], seeds=1, epochs=1)
    assert config.evaluate == "validation"
    [[run]] = expand(config, "data", seeds=[100])
    training = prepare(Pack((run,), place_of(config)))
    assert training.part == "validation"
    rows: dict[str, set[bytes]] = {}
    for task in training.stream.tasks:
        for part, data in task.parts.items():
            rows.setdefault(part, set()).update(np.ascontiguousarray(row).tobytes() for row in data.x.numpy())
    assert len(rows["validation"]) > 300
    assert not rows["validation"] & rows["train"]
    assert not rows["validation"] & rows["test"]
    seen: set[bytes] = set()
    descent = training.learner.descent

    def watched(x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        seen.update(row.tobytes() for row in x.reshape(-1, x.shape[-1]).numpy())
        return descent(x, y)

    training.learner.descent = watched  # type: ignore[method-assign]
    training.run()
    assert seen
    assert seen <= rows["train"]


def test_the_table_is_complete() -> None:
    wanted, missing = entries(USUAL, ["class", "task"])
    assert not missing
    assert {entry.line.label for entry in wanted} == {line.label for line in LINES}
    config = config_of("mnist", [e for e in wanted if e.column == "mnist"], None, {"seeds": 5, "device": "cpu"})
    assert (config.hidden, config.epochs, config.batch_size, config.evaluate) == ((100, 100), 10, 256, "test")
    ablation = next(e for e in wanted if e.line.label == "EFC: beta = 0" and e.column == "mnist")
    row = config.rows[[e for e in wanted if e.column == "mnist"].index(ablation)]
    assert row.options.beta == 0
    assert row.options.lr == ablation.chosen()["lr"]  # type: ignore[index]


def test_what_is_left_out_is_told_in_one_line_per_column() -> None:
    joint, ridge = LINES[:2]
    missing = [Entry(joint, "mnist", "class"), Entry(joint, "mnist", "task"), Entry(ridge, "mnist", "task")]
    assert told([*missing, Entry(joint, "mnist-wide", "class")]) == [
        f"Left out of mnist, no options chosen yet: {joint.label} (class-IL, task-IL); {ridge.label} (task-IL)",
        f"Left out of mnist-wide, no options chosen yet: {joint.label} (class-IL)",
    ]
    assert told([]) == []


def test_wide_columns_have_their_own_lines_and_come_when_they_are_named() -> None:
    wide = [name for name in COLUMNS if name not in USUAL]
    assert wide == ["mnist-wide", "cifar10-resnet18-wide", "tiny-imagenet-resnet18-wide"]
    wanted, missing = entries(wide, ["class", "task"])
    assert not missing
    for column in wide:
        mine = [entry for entry in wanted if entry.column == column]
        assert [entry.line for entry in mine] == COLUMNS[column].lines
        assert {entry.scenario for entry in mine} == {"class"}
        config = config_of(column, mine, None, {"seeds": 5})
        assert config.hidden[0] >= 1000
        assert config.activation == COLUMNS[column].activation
        [untrained] = [row for row in config.rows if row.options.lr == 0]
        assert (untrained.method, untrained.head) == ("frozen", "analytic")


def test_the_pages_show_the_committed_numbers() -> None:
    """The tables and the head table are what the tool makes of the numbers, and the numbers are those of every line."""
    found, wide = results_page.committed("paper"), results_page.committed("paper-wide")
    whole = {(e.column, e.line.label, e.scenario) for e in entries(USUAL, ["class", "task"])[0]}
    assert {(cell.column, cell.line, cell.scenario) for cell in found.cells} == whole
    assert len(wide.cells) == 27
    for name, written in results_page.pages().items():
        page = (results_page.DOCS / f"{name}.md").read_text(encoding="utf-8")
        assert results_page.between(page, written) == page
    for cell in (*found.cells, *wide.cells):
        assert cell.accuracy.mean == pytest.approx(np.mean(cell.accuracy.per_seed), abs=1e-3)
        assert cell.seeds == [0, 1, 2, 3, 4]


def test_the_readme_shows_the_committed_numbers() -> None:
    cells = {(c.column, c.line, c.scenario): c.accuracy for c in results_page.committed("paper").cells}
    text = (results_page.DOCS.parent / "README.md").read_text(encoding="utf-8")
    columns = ("mnist", "cifar10-resnet18", "tiny-imagenet-resnet18")
    for start, label in {
        "| **EFC, default": "**EFC, default options**",
        "| the same defaults": "first task, then frozen, default options",
        "| **EFC, untuned": "**EFC**, untuned, least-squares head", "| **EFC, tuned": "**EFC**, tuned, best",
        "| EFC as in the paper": "EFC as in the paper (`efc-paper`), least-squares head",
        "| best diagonal": "best diagonal penalty, head without moments", "| DER++": "DER++, 200 stored samples, best",
        "| `activity_ewc`:": "the same and EWC (`activity_ewc`), best",
        "| `activity`:": "back-propagation with the same memory (`activity`), best",
    }.items():  # fmt: skip
        [line] = [line for line in text.splitlines() if line.startswith(start)]
        for column, cell in zip(columns, line.split("|")[2:5], strict=True):
            found = cells[column, results_page.chosen(column, results_page.HEADLINE[label]), "class"]
            assert cell.strip() == f"{found.mean:.1f} ± {found.std:.1f}", (column, label)


def test_lines_are_chosen_by_parts_of_their_names() -> None:
    found, _ = entries(["mnist", "mnist-wide"], ["class", "task"], "activity, zero; SGD, compensated;")
    assert [(e.column, e.line.label, e.scenario) for e in found] == [
        ("mnist", "activity, zero head", "class"),
        ("mnist", "activity, zero head", "task"),
        ("mnist", "SGD, compensated head", "class"),
        ("mnist-wide", "SGD, compensated head", "class"),
    ]
    assert len(entries(["mnist"], ["class"], " ; ")[0]) == len(entries(["mnist"], ["class"])[0])


def test_tables_for_people_and_programs() -> None:
    measure = Summary(60.0, 1.0, [59.0, 61.0])
    cell = Cell(
        "EFC, x", "mnist", "class", "efc", "random", measure, measure, None, None, [], 2.0, {}, [0, 1], (51.4, 4.8)
    )
    found = PaperTable([cell, replace(cell, scenario="task", paper=None)])
    assert "| EFC, x | 60.0 ± 1.0 (51.4) | 60.0 ± 1.0 | 60.0 |" in found.markdown("mnist")
    assert shown(found).row_count == 1
    assert PaperTable.from_json(json.loads(json.dumps(found.to_json()))) == found
    lines = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert lines[0]["accuracy"] == "60.00"
    assert lines[0]["paper"] == "51.4"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["papers"], "bench: unknown value 'papers'"),
        (["paper", "--datasets", "mnits"], "--datasets: unknown value 'mnits'"),
        (["paper", "--scenarios", "domain"], "--scenarios: unknown value 'domain'"),
        (["paper", "--features", "mnist"], "--features: expected COLUMN=npz:FILE"),
        (["paper", "--epochs", "3"], "--epochs: the paper's table is fixed"),
        (["paper", "--lines", "EFX"], "--lines: there is no line that contains 'EFX' among those mnist, "),
        (
            ["paper", "--datasets", "mnist-wide", "--scenarios", "task"],
            "--lines: there is no line among those mnist-wide",
        ),
        (["--lines", "EFC"], "--lines: belongs to the paper's table"),
    ],
)
def test_mistakes(arguments: list[str], says: str, tmp_path: Path) -> None:
    done = efc("bench", *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert f"efc: {says}" in done.stderr


@pytest.mark.parametrize(
    ("column", "lines"), [("cifar10-resnet18", LINES), pytest.param("mnist-wide", WIDE, marks=pytest.mark.slow)]
)
def test_the_paper_bench_runs_from_presets_alone(column: str, lines: list[Line], tmp_path: Path) -> None:
    """A column on a small stand-in for its features, class-IL alone."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 10
    x = rng.random((10, 512))[y] + 0.3 * rng.random((300, 512))
    np.savez(tmp_path / "f.npz", x_train=x[:200], y_train=y[:200], x_test=x[200:], y_test=y[200:])
    command = ["bench", "paper", "--datasets", column, "--scenarios", "class",
               "--features", f"{column}=npz:f.npz", "--seeds", "1", "--device", "cpu", "--workers", "1",
               "--out", "p"]  # fmt: skip
    done = efc(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = list(csv.DictReader(io.StringIO((tmp_path / "p" / "paper.csv").read_text())))
    assert {line["line"] for line in found} == {line.label for line in lines}
    assert lines[0].label in done.stdout
    assert "Left out" not in done.stderr
    assert (tmp_path / "p" / "paper.md").read_text().startswith(f"## {column}\n")
