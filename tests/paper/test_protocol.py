"""The paper's own protocol: every row of its table, with settings that parse, and the command."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from efc.errors import EFCError
from efc.learners.options import Options
from efc.paper.lines import BOTH, COLUMNS
from efc.paper.protocol import NAMES, WIDTHS, Case, cases, config_for
from efc.paper.protocol_table import ProtocolTable
from efc.paper.published import PAPER
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


@pytest.mark.parametrize("method", ["efc-paper", "reference"])
def test_efcs_settings_are_those_of_the_authors_configurations(method: str) -> None:
    """MNIST, CIFAR-10 and Tiny-ImageNet, the equations and the code alike."""
    found = {s: [[getattr(resolved(method, c, s), n) for n in ("lr", "beta", "lam")] for c in WIDTHS] for s in BOTH}
    assert found["class"] == [[3e-5, 1.0, 0.01], [3e-5, 10.0, 0.1], [1e-5, 1.0, 0.1]]
    assert found["task"] == [[1e-4, 0.1, 0.1], [3e-4, 1.0, 1.0], [1e-4, 0.1, 0.1]]


@pytest.mark.parametrize("column", WIDTHS)
@pytest.mark.parametrize("scenario", BOTH)
def test_the_buffer_is_the_texts(column: str, scenario: str) -> None:
    options = resolved("derpp", column, scenario)
    assert (options.buffer, options.alpha, options.beta) == (200, 0.5, 0.5)  # type: ignore[attr-defined]


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


def test_rows_are_chosen_by_parts_of_their_names() -> None:
    [text, code, fair] = cases(["cifar10-resnet18"], ["class"], "EFC; EWC")
    assert [case.method for case in text] == ["ewc", "online_ewc", "efc-paper", "reference"]
    assert [case.method for case in code] == [case.method for case in text]
    assert [case.method for case in fair] == ["ewc", "online_ewc", "efc-paper"]
    with pytest.raises(EFCError, match="--lines: no row contains 'EFX'"):
        cases(["mnist"], ["class"], "EFX")


def test_rows_are_chosen_by_their_methods() -> None:
    """By their names exactly: ``ewc`` is not online EWC, and ``efc-paper`` not the authors' code."""
    [text, code, fair] = cases(["cifar10-resnet18"], ["class"], methods=["ewc", "efc-paper"])
    assert [[case.method for case in group] for group in (text, code, fair)] == [["ewc", "efc-paper"]] * 3
    with pytest.raises(EFCError, match="--methods: unknown value 'ewx'"):
        cases(["mnist"], ["class"], methods=["ewx"])
    with pytest.raises(EFCError, match="--lines: no row of ewc contains 'SGD'"):
        cases(["mnist"], ["class"], "SGD", methods=["ewc"])


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
        (["paper", "--methods", "ewc"], "--methods: the paper's table is fixed; leave it out"),
        (["paper", "--protocol", "papers"], "--protocol: unknown value 'papers'"),
        (["paper", "--protocol", "paper", "--datasets", "mnist-wide"], "--datasets: unknown value 'mnist-wide'"),
        (["--protocol", "paper"], "--protocol: belongs to the paper's table"),
    ],
)
def test_mistakes(arguments: list[str], says: str, tmp_path: Path) -> None:
    done = efc("bench", *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert f"efc: {says}" in done.stderr


def small(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command on a small stand-in for a column's features, one seed."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 10
    x = rng.random((10, 8))[y] + 0.1 * rng.random((120, 8))
    np.savez(folder / "f.npz", x_train=x[:80], y_train=y[:80], x_test=x[80:], y_test=y[80:])
    done = efc("bench", "paper", "--protocol", "paper", "--datasets", "cifar10-resnet18", "--scenarios", "class",
               "--features", "cifar10-resnet18=npz:f.npz", "--device", "cpu", "--workers", "1", "--out", "p",
               *arguments, cwd=folder)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def table(folder: Path) -> ProtocolTable:
    return ProtocolTable.from_json(json.loads((folder / "p" / "paper-protocol.json").read_text()))


def notes(page: str) -> list[str]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return list(json.loads(found.group(1))["notes"])


def test_the_command_computes_both_protocols_and_names_them(tmp_path: Path) -> None:
    done = small(tmp_path, "--lines", "EFC;SGD", "--seeds", "1")
    assert "Protocol: the paper's" in done.stderr
    assert "the paper's protocol and ours" in done.stdout
    where = [(c.line, c.protocol, c.widths, c.hidden) for c in table(tmp_path).cells]
    assert [w for w in where if w[0] == "SGD"] == [
        ("SGD", "paper", "text", [100]), ("SGD", "paper", "code", [100, 100]), ("SGD", "fair", "text", [100]),
    ]  # fmt: skip
    assert len(where) == 3 + 3 + 2  # the code's behaviour has no fair row
    report = (tmp_path / "p" / "report.html").read_text()
    assert notes(report)[0].startswith("Protocol: the paper's, 20 epochs at a constant rate")
    assert (tmp_path / "p" / "paper-protocol.md").read_text().startswith("## cifar10-resnet18, Class-IL: the paper's")
    again = small(tmp_path, "--lines", "EFC;SGD", "--seeds", "1")
    assert "Nothing to run" in again.stderr


def test_the_table_may_be_computed_in_parts(tmp_path: Path) -> None:
    """In any order it is the same table; cells of other seeds do not stay beside the new ones."""
    small(tmp_path, "--methods", "ewc", "--widths", "code", "--seeds", "1")
    small(tmp_path, "--methods", "sgd", "--widths", "text", "--seeds", "1")
    found = table(tmp_path)
    assert [(c.method, c.protocol, c.widths) for c in found.cells] == [
        ("sgd", "paper", "text"), ("ewc", "paper", "code"), ("sgd", "fair", "text"), ("ewc", "fair", "text"),
    ]  # fmt: skip
    commands = [cell.part.command for cell in found.cells]
    assert ["--methods sgd" in command for command in commands] == [True, False, True, False]
    done = small(tmp_path, "--methods", "sgd", "--widths", "text", "--seeds", "2")
    assert "2 older cells left out" in done.stderr
    assert {tuple(cell.seeds) for cell in table(tmp_path).cells} == {(0, 1)}
    (tmp_path / "p" / "paper-protocol.json").write_text('{"rows": []}')  # as an earlier version wrote it
    done = small(tmp_path, "--methods", "sgd", "--widths", "text", "--seeds", "2")
    assert "written anew" in done.stderr
    assert len(table(tmp_path).cells) == 2
