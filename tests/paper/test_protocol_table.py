"""The table of the paper's protocol: when a row agrees with the paper, what is written of it, tables put together."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace

from efc.paper.lines import BOTH
from efc.paper.protocol import WIDTHS, Case, cases, config_for
from efc.paper.protocol_table import Part, ProtocolCell, ProtocolTable
from efc.runs.results import Summary

PART = Part("efc bench paper", {"torch": "2"})


def a_cell(mean: float, std: float = 1.0, paper: tuple[float, float] | None = (51.4, 4.8)) -> ProtocolCell:
    measure = Summary(mean, std, [mean - 1, mean + 1])
    return ProtocolCell(
        part=PART, line="EFC", column="mnist", scenario="class", protocol="paper", widths="text", hidden=[100, 100],
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


def computed(case: Case, seeds: Sequence[int] = (0, 1), **changed: object) -> ProtocolCell:
    """A cell as the case asks for it, its accuracy invented."""
    [row] = config_for([case], None, {}).rows
    cell = replace(
        a_cell(50.0), line=case.label, column=case.column, scenario=case.scenario, protocol=case.protocol,
        widths=case.widths, hidden=list(case.hidden), options=row.options.to_mapping(), seeds=list(seeds),
    )  # fmt: skip
    return replace(cell, **changed)  # type: ignore[arg-type]


def test_tables_are_joined_in_the_order_of_the_whole() -> None:
    every = [case for group in cases(list(WIDTHS), BOTH) for case in group]
    first, second = ProtocolTable([computed(c) for c in every[::2]]), ProtocolTable([computed(c) for c in every[1::2]])
    for one, other in ((first, second), (second, first)):
        found, left = one.joined(other)
        assert [cell.key for cell in found.cells] == [case.key for case in every]
        assert left == 0


def test_a_new_cell_replaces_an_old_one_and_what_is_no_longer_the_tables_is_left_out() -> None:
    ewc, sgd, si = (Case(method, "mnist", "class", "paper") for method in ("ewc", "sgd", "si"))
    old = ProtocolTable([computed(ewc), computed(sgd), computed(si)])
    better = computed(ewc, accuracy=Summary(99.0, 0.0, [99.0, 99.0]))
    found, left = old.joined(ProtocolTable([better]))
    assert [cell.line for cell in found.cells] == ["SGD", "EWC", "SI"]
    assert found.cells[1].accuracy.mean == 99.0
    assert left == 0
    for stale in (
        computed(sgd, seeds=[0, 1, 2]),
        computed(sgd, hidden=[7]),
        computed(sgd, options={**computed(sgd).options, "lr": 0.5}),
        computed(sgd, line="SGT"),
    ):
        found, left = ProtocolTable([stale, computed(si)]).joined(ProtocolTable([better]))
        assert [cell.line for cell in found.cells] == ["EWC", "SI"]
        assert left == 1


def test_cells_keep_the_command_that_computed_them() -> None:
    here, there = Part("one", {"device": "cpu"}), Part("two", {"device": "gpu"})
    cells = [computed(Case(m, "mnist", "class", "paper"), part=p) for m, p in (("sgd", here), ("ewc", there))]
    document = json.loads(json.dumps(ProtocolTable(cells).to_json()))
    assert [part["command"] for part in document["parts"]] == ["one", "two"]
    assert [row["part"] for row in document["rows"]] == [0, 1]
    assert ProtocolTable.from_json(document) == ProtocolTable(cells)
