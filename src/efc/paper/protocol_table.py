"""The cells of the paper's protocol that are computed, and the table they make: what `paper-protocol.json` holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from efc.files import Json, to_csv, to_json
from efc.paper.lines import BOTH, COLUMNS
from efc.paper.protocol import WIDTHS, Case, cases, config_for
from efc.paper.published import PAPER
from efc.runs.results import Environment, ResultRow, Summary


@dataclass(frozen=True)
class Part:
    """A command that computed some of the cells, and where."""

    command: str
    environment: Environment


@dataclass(frozen=True)
class ProtocolCell:
    """What came of a case."""

    part: Part
    line: str
    column: str
    scenario: str
    protocol: str
    widths: str
    hidden: list[int]
    method: str
    head: str
    accuracy: Summary
    """Over all test samples, as the paper's code counts."""
    task_accuracy: Summary
    """The mean over tasks, as our own tables have it."""
    unsettled: Summary | None
    diverged: list[int]
    seconds: float
    options: Mapping[str, Json]
    seeds: list[int]
    paper: tuple[float, float] | None
    """What the paper reports, mean and deviation."""

    @classmethod
    def of(cls, case: Case, row: ResultRow, part: Part) -> ProtocolCell:
        reported = "efc-paper" if case.method == "reference" else case.method
        return cls(
            part=part,
            line=case.label,
            column=case.column,
            scenario=case.scenario,
            protocol=case.protocol,
            widths=case.widths,
            hidden=list(case.hidden),
            method=row.method,
            head=row.head,
            accuracy=row.measures["sample_accuracy"],
            task_accuracy=row.accuracy,
            unsettled=row.unsettled,
            diverged=row.diverged,
            seconds=row.seconds,
            options=row.options,
            seeds=row.seeds,
            paper=PAPER.get((COLUMNS[case.column].dataset, case.scenario, reported)),
        )

    @classmethod
    def from_json(cls, document: Mapping[str, Any], parts: Sequence[Part]) -> ProtocolCell:
        given = {item.name: document[item.name] for item in fields(cls)} | {"part": parts[document["part"]]}
        for name in ("accuracy", "task_accuracy", "unsettled"):
            given[name] = None if given[name] is None else Summary(**given[name])
        given["paper"] = None if given["paper"] is None else tuple(given["paper"])
        return cls(**given)

    def __str__(self) -> str:
        return f"{self.accuracy.mean:.1f} ± {self.accuracy.std:.1f}"

    @property
    def key(self) -> tuple[str, ...]:
        """That of its case."""
        return self.line, self.column, self.scenario, self.protocol, self.widths

    def fits(self, case: Case) -> bool:
        """Whether it was computed with the network and the options that the case has today."""
        [row] = config_for([case], None, {}).rows
        options = json.loads(to_json(row.options.to_mapping()))
        return self.hidden == list(case.hidden) and json.loads(to_json(self.options)) == options

    @property
    def agrees(self) -> bool:
        """Whether the paper's mean lies within two standard deviations (both together), or a point."""
        if self.paper is None:
            return True
        spread = 2 * float((self.accuracy.std**2 + self.paper[1] ** 2) ** 0.5)
        return abs(self.accuracy.mean - self.paper[0]) <= max(1.0, spread)


COLUMN_TITLES = ("", "paper", "paper's protocol, widths of the text", "widths of the code", "fair protocol")


@dataclass(frozen=True)
class ProtocolTable:
    """The cells there are, maybe of several commands."""

    cells: list[ProtocolCell]

    def to_json(self) -> dict[str, Json]:
        parts: list[Part] = []
        for cell in self.cells:
            if cell.part not in parts:
                parts.append(cell.part)
        rows = [asdict(cell) | {"part": parts.index(cell.part)} for cell in self.cells]
        return {"protocol": "paper", "rows": rows, "parts": [asdict(part) for part in parts]}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ProtocolTable:
        parts = [Part(**part) for part in document["parts"]]
        return cls([ProtocolCell.from_json(row, parts) for row in document["rows"]])

    def joined(self, new: ProtocolTable) -> tuple[ProtocolTable, int]:
        """These cells with the new ones, in the order of the whole table, and how many of these were left out.

        A new cell replaces an old one. An old one is left out if it has other seeds than the new ones, or is none of
        today's table, with today's options.
        """
        today = {case.key: case for group in cases(list(WIDTHS), BOTH) for case in group}
        mine, theirs = ({cell.key: cell for cell in table.cells} for table in (self, new))
        seeds = [cell.seeds for cell in new.cells]
        old = {key: cell for key, cell in mine.items() if key not in theirs}
        kept = {k: c for k, c in old.items() if k in today and c.seeds in seeds and c.fits(today[k])}
        place = {key: at for at, key in enumerate(today)}
        found = sorted((kept | theirs).values(), key=lambda cell: place[cell.key])
        return ProtocolTable(found), len(old) - len(kept)

    def names(self, what: Callable[[ProtocolCell], str]) -> list[str]:
        """Columns, scenarios or lines, each once, in their order."""
        return list(dict.fromkeys(what(cell) for cell in self.cells))

    @property
    def places(self) -> list[tuple[str, str]]:
        """Columns with scenarios, each once, in their order."""
        return list(dict.fromkeys((cell.column, cell.scenario) for cell in self.cells))

    def find(self, line: str, column: str, scenario: str, protocol: str, widths: str = "text") -> ProtocolCell | None:
        wanted = (line, column, scenario, protocol, widths)
        return next((cell for cell in self.cells if cell.key == wanted), None)

    def lines(self, column: str, scenario: str) -> list[list[str]]:
        """Row by row: the name, the paper's figure, ours by its protocol in both widths, ours by our own."""
        found = []
        for line in self.names(lambda cell: cell.line):
            each = [
                self.find(line, column, scenario, protocol, widths)
                for protocol, widths in (("paper", "text"), ("paper", "code"), ("fair", "text"))
            ]
            there = next((cell for cell in each if cell is not None), None)
            if there is not None:
                paper = "" if there.paper is None else f"{there.paper[0]:.1f} ± {there.paper[1]:.1f}"
                found.append([line, paper, *("" if cell is None else str(cell) for cell in each)])
        return found

    def markdown(self, column: str, scenario: str) -> str:
        """One column in one scenario as a table for a page."""
        rows = [list(COLUMN_TITLES), ["---"] * len(COLUMN_TITLES), *self.lines(column, scenario)]
        return "".join(f"| {' | '.join(row)} |\n" for row in rows)

    def to_csv(self) -> str:
        """One line per cell."""
        names = ("line", "column", "scenario", "protocol", "hidden", "accuracy", "std", "task_accuracy", "paper")
        rows: list[list[object]] = [list(names)]
        for c in self.cells:
            paper = "" if c.paper is None else c.paper[0]
            numbers = [f"{c.accuracy.mean:.2f}", f"{c.accuracy.std:.2f}", f"{c.task_accuracy.mean:.2f}"]
            rows.append([c.line, c.column, c.scenario, c.protocol, "-".join(map(str, c.hidden)), *numbers, paper])
        return to_csv(rows)
