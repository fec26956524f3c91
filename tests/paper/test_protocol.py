"""The paper's own protocol: every row of its table, with settings that parse, and what comes of them."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from efc.errors import EFCError
from efc.learners.options import Options
from efc.paper.lines import BOTH, COLUMNS
from efc.paper.protocol import NAMES, WIDTHS, Case, ProtocolCell, ProtocolTable, cases, config_for
from efc.paper.published import PAPER
from efc.runs.results import Summary
from support.command import efc

EVERY = [case for group in cases(list(WIDTHS), BOTH) for case in group]


def test_every_row_of_the_papers_table_is_planned_by_both_protocols() -> None:
    for protocol in ("paper", "fair"):
        mine = {
            (COLUMNS[c.column].dataset, c.scenario, c.method)
            for c in EVERY
            if (c.protocol, c.widths) == (protocol, "text")
        }
        assert mine >= PAPER.keys()
        assert {method for _, _, method in mine - PAPER.keys()} == ({"reference"} if protocol == "paper" else set())
    assert len(EVERY) == len(set(EVERY))


def test_widths_of_the_code_are_computed_where_a_configuration_states_another_network() -> None:
    """On MNIST EFC's alone, in Class-IL alone; on the others all rows but JOINT's, which has no configuration."""
    code = {(c.column, c.scenario, c.method): c.hidden for c in EVERY if c.widths == "code"}
    mnist = {key[1:]: hidden for key, hidden in code.items() if key[0] == "mnist"}
    assert mnist == {("class", "efc-paper"): (1000, 1000), ("class", "reference"): (1000, 1000)}
    for column, hidden in (("cifar10-resnet18", (100, 100)), ("tiny-imagenet-resnet18", (1000, 1000))):
        mine = {key[1:]: each for key, each in code.items() if key[0] == column}
        assert mine == {(s, m): hidden for s in BOTH for m in NAMES if m != "joint"}
    assert {c.hidden for c in EVERY if (c.column, c.protocol, c.widths) == ("mnist", "paper", "text")} == {(100, 100)}


@pytest.mark.parametrize("group", cases(list(WIDTHS), BOTH), ids=lambda g: "-".join(map(str, vars(g[0]).values())))
def test_a_group_is_a_configuration_in_the_groups_order(group: list[Case]) -> None:
    config = config_for(group, None, {"seeds": 5})
    first = group[0]
    assert [row.scenario for row in config.rows] == [case.scenario for case in group]
    methods = ["efc-paper" if case.method == "reference" else case.method for case in group]
    assert [row.method for row in config.rows] == methods
    assert (config.dataset, config.encoder) == (COLUMNS[first.column].dataset, COLUMNS[first.column].encoder)
    if first.protocol == "fair":
        assert (config.epochs, config.validation) == (COLUMNS[first.column].epochs, 0.1)
        return
    assert (config.epochs, config.batch_size, config.validation) == (20, 256, 0.0)
    assert {config.hidden} == {case.hidden for case in group}
    for row in config.rows:
        assert row.options.schedule == "constant"
        assert (row.options.optimiser, row.options.momentum) == (("sgd", 0.0) if row.method == "sgd" else ("adam", 0.9))
        pixels = ("scaled", 0.1307, 0.3081) if first.column == "mnist" else ("raw", 0.0, 1.0)
        assert (row.options.inputs, row.options.input_mean, row.options.input_deviation)[
            : 1 + 2 * (pixels[0] != "raw")
        ] == (pixels if pixels[0] != "raw" else ("raw",))


def test_efcs_settings_are_those_the_issue_names() -> None:
    """Class-IL on MNIST, CIFAR-10 and Tiny-ImageNet, the equations and the code alike."""
    for method in ("efc-paper", "reference"):
        found = []
        for column in WIDTHS:
            [row] = config_for([Case(method, column, "class", "paper")], None, {}).rows
            found.append([getattr(row.options, name) for name in ("lr", "beta", "lam")])
        assert found == [[3e-5, 1.0, 0.01], [3e-5, 10.0, 0.1], [1e-5, 1.0, 0.1]]


def resolved(method: str, column: str, scenario: str) -> Options:
    """The options of one cell, all defaults and variants filled in."""
    [row] = config_for([Case(method, column, scenario, "paper")], None, {}).rows
    return row.options


@pytest.mark.parametrize("method", NAMES)
@pytest.mark.parametrize("column", WIDTHS)
def test_the_first_head_is_random_in_class_il_and_fitted_and_halved_in_task_il(method: str, column: str) -> None:
    """Also where a variant says otherwise: ``reference`` is made for Class-IL."""
    options = resolved(method, column, "class")
    assert (options.first_head, options.head_scale) == ("drawn", 1.0)
    options = resolved(method, column, "task")
    assert (options.first_head, options.head_scale) == ("set", 0.5)


# MNIST Class-IL, MNIST Task-IL, CIFAR-10 Class-IL, ... as the authors' notebook prints them
SWEEP = {
    ("sgd", "lr"): "3e-3 3e-3 3e-3 3e-3 1e-4 1e-4",
    ("ewc", "lr"): "1e-3 1e-4 1e-3 1e-4 1e-4 1e-4",
    ("ewc", "strength"): "10 10 10 10 .1 10",
    ("online_ewc", "lr"): "1e-3 1e-3 1e-3 3e-3 1e-4 1e-4",
    ("online_ewc", "strength"): "10 10 10 10 .1 .1",
    ("si", "lr"): "3e-3 1e-3 1e-3 1e-4 1e-4 1e-4",
    ("si", "strength"): ".1 .1 1 1 .1 .1",
    ("si", "damping"): ".01 1 .01 1 .01 .01",
    ("derpp", "lr"): "1e-3 1e-4 1e-3 1e-4 1e-2 1e-2",
}


@pytest.mark.parametrize(("method", "name"), SWEEP)
def test_the_other_methods_have_the_settings_of_the_authors_sweep(method: str, name: str) -> None:
    found = [getattr(resolved(method, column, scenario), name) for column in WIDTHS for scenario in BOTH]
    assert found == [float(value) for value in SWEEP[method, name].split()]


def a_cell(mean: float, std: float = 1.0, paper: tuple[float, float] | None = (51.4, 4.8)) -> ProtocolCell:
    measure = Summary(mean, std, [mean - 1, mean + 1])
    return ProtocolCell(
        line="EFC", column="mnist", scenario="class", protocol="paper", widths="text", hidden=[100, 100],
        method="efc-paper", head="least_squares", accuracy=measure, task_accuracy=measure, unsettled=None,
        diverged=[], seconds=1.0, options={}, seeds=[0, 1], paper=paper,
    )  # fmt: skip


def test_a_row_agrees_if_the_papers_mean_lies_within_the_spread() -> None:
    assert a_cell(51.4 - 9.0).agrees
    assert not a_cell(51.4 - 10.0).agrees
    assert not a_cell(98.0, 0.0, (99.2, 0.4)).agrees
    assert a_cell(98.3, 0.0, (99.2, 0.0)).agrees  # within a point
    assert a_cell(3.0, 0.0, None).agrees


def test_tables_for_people_and_programs() -> None:
    cell = a_cell(60.0)
    found = ProtocolTable([cell, replace(cell, protocol="fair"), replace(cell, scenario="task")])
    assert "| EFC | 51.4 ± 4.8 | 60.0 ± 1.0 |  | 60.0 ± 1.0 |" in found.markdown("mnist", "class")
    assert "| EFC | 51.4 ± 4.8 | 60.0 ± 1.0 |  |  |" in found.markdown("mnist", "task")
    assert ProtocolTable.from_json(json.loads(json.dumps(found.to_json()))) == found
    lines = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [line["protocol"] for line in lines] == ["paper", "fair", "paper"]
    assert lines[0]["hidden"] == "100-100"


def test_rows_are_chosen_by_parts_of_their_names() -> None:
    [text, code, fair] = cases(["cifar10-resnet18"], ["class"], "EFC; EWC")
    assert [case.method for case in text] == ["ewc", "online_ewc", "efc-paper", "reference"]
    assert [case.method for case in code] == [case.method for case in text]
    assert [case.method for case in fair] == ["ewc", "online_ewc", "efc-paper"]
    with pytest.raises(EFCError, match="--lines: no row contains 'EFX'"):
        cases(["mnist"], ["class"], "EFX")


def test_one_of_both_widths_may_be_asked_for() -> None:
    [group, fair] = cases(["cifar10-resnet18"], ["class"], "EFC", ["code"])
    assert {case.hidden for case in group} == {(100, 100)}
    assert {case.protocol for case in fair} == {"fair"}
    with pytest.raises(EFCError, match="--widths: unknown value 'table'"):
        cases(["mnist"], ["class"], widths=["table"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["paper", "--widths", "text"], "--widths: belongs to the paper's protocol; add --protocol paper"),
        (["--widths", "text"], "--widths: belongs to the paper's protocol"),
        (["paper", "--protocol", "papers"], "--protocol: unknown value 'papers'"),
        (["paper", "--protocol", "paper", "--datasets", "mnist-wide"], "--datasets: unknown value 'mnist-wide'"),
        (["--protocol", "paper"], "--protocol: belongs to the paper's table"),
    ],
)
def test_mistakes(arguments: list[str], says: str, tmp_path: Path) -> None:
    done = efc("bench", *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert f"efc: {says}" in done.stderr


def test_the_command_computes_both_protocols_and_names_them(tmp_path: Path) -> None:
    """Two rows on a small stand-in for a column's features."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 10
    x = rng.random((10, 8))[y] + 0.1 * rng.random((120, 8))
    np.savez(tmp_path / "f.npz", x_train=x[:80], y_train=y[:80], x_test=x[80:], y_test=y[80:])
    command = ["bench", "paper", "--protocol", "paper", "--datasets", "cifar10-resnet18", "--scenarios", "class",
               "--features", "cifar10-resnet18=npz:f.npz", "--lines", "EFC;SGD", "--seeds", "1", "--device", "cpu",
               "--workers", "1", "--out", "p"]  # fmt: skip
    done = efc(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Protocol: the paper's" in done.stderr
    assert "the paper's protocol and ours" in done.stdout
    found = ProtocolTable.from_json(json.loads((tmp_path / "p" / "paper-protocol.json").read_text()))
    where = [(c.line, c.protocol, c.widths, c.hidden) for c in found.cells]
    assert [w for w in where if w[0] == "SGD"] == [
        ("SGD", "paper", "text", [100]), ("SGD", "paper", "code", [100, 100]), ("SGD", "fair", "text", [100]),
    ]  # fmt: skip
    assert len(where) == 3 + 3 + 2  # the code's behaviour has no fair row
    assert "--protocol paper" in (tmp_path / "p" / "report.html").read_text()
    assert (tmp_path / "p" / "paper-protocol.md").read_text().startswith("## cifar10-resnet18, Class-IL: the paper's")
    again = efc(*command, cwd=tmp_path)
    assert "Nothing to run" in again.stderr
