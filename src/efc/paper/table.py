"""`efc bench paper`: the paper's table on fair terms, its cells, and what is written of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from efc.errors import EFCError, choose
from efc.files import Json, to_csv
from efc.learners import find_learner
from efc.paper.lines import BOTH, COLUMNS, Line
from efc.paper.published import PAPER
from efc.presets import fitting_preset
from efc.runs.config import RunConfig, make_config
from efc.runs.results import Environment, ResultRow, Summary


@dataclass(frozen=True)
class Entry:
    """One cell of the table, to be computed."""

    line: Line
    column: str
    scenario: str

    def chosen(self) -> dict[str, Json] | None:
        """The options chosen by a search (if need be with the head that this one refines); None if there was none."""
        if not self.line.tuned:
            return {}
        name, head = self.line.preset or self.line.method, self.line.preset_head or self.line.head
        return fitting_preset(self.column, self.scenario, name, head) or None


def entries(columns: Sequence[str], scenarios: Sequence[str], labels: str = "") -> tuple[list[Entry], list[Entry]]:
    """The cells of the table, and those that cannot be computed: no options have been chosen for them yet.

    ``labels`` leaves only the lines whose label contains one of its parts, divided by semicolons.
    """
    for name in columns:
        choose("--datasets", name, COLUMNS)
    for name in scenarios:
        choose("--scenarios", name, BOTH)
    parts = [part.strip() for part in labels.split(";") if part.strip()]
    every = [
        Entry(line, column, scenario)
        for column in columns
        for line in COLUMNS[column].lines
        for scenario in scenarios
        if scenario in line.scenarios and (not parts or any(part in line.label for part in parts))
    ]
    if not every:
        where = f"{', '.join(columns)} has in {', '.join(f'{s}-IL' for s in scenarios)}"
        wanted = f" that contains {labels!r}" if parts else ""
        raise EFCError(f"--lines: there is no line{wanted} among those {where}; docs/tables.md lists them")
    return [e for e in every if e.chosen() is not None], [e for e in every if e.chosen() is None]


def told(missing: Sequence[Entry]) -> list[str]:
    """One line per column on what cannot be computed."""
    columns: dict[str, dict[str, list[str]]] = {}
    for entry in missing:
        columns.setdefault(entry.column, {}).setdefault(entry.line.label, []).append(f"{entry.scenario}-IL")
    return [
        f"Left out of {column}, no options chosen yet: "
        + "; ".join(f"{label} ({', '.join(scenarios)})" for label, scenarios in lines.items())
        for column, lines in columns.items()
    ]


def config_of(column: str, wanted: Sequence[Entry], stand_in: str | None, settings: Mapping[str, object]) -> RunConfig:
    """The runs of one column; ``stand_in`` names features to be taken for those the column's encoder would make."""
    c = COLUMNS[column]
    data = {"dataset": c.dataset, "encoder": c.encoder} if stand_in is None else {"dataset": stand_in}
    training = {"tasks": c.tasks, "classes_per_task": c.classes_per_task, "hidden": list(c.hidden), "epochs": c.epochs}
    training |= {"activation": c.activation}
    rows = [_row(entry) for entry in wanted]
    return make_config(data, training, {"batch_size": 256, "rows": rows}, settings)


def _row(entry: Entry) -> dict[str, object]:
    line = entry.line
    options = find_learner(line.method).options_type.layered(entry.chosen() or {}, line.changes)
    return {"method": line.method, "head": line.head, "scenario": entry.scenario, "options": options}


@dataclass(frozen=True)
class Cell:
    """What came of an entry, without what only a single run's file needs."""

    line: str
    column: str
    scenario: str
    method: str
    head: str
    accuracy: Summary
    forgetting: Summary
    unsettled: Summary | None
    prediction_share: list[list[float]] | None
    diverged: list[int]
    seconds: float
    options: Mapping[str, Json]
    seeds: list[int]
    paper: tuple[float, float] | None
    """What the paper reports, mean and deviation, where it has this cell."""

    @classmethod
    def of(cls, entry: Entry, row: ResultRow) -> Cell:
        theirs = PAPER.get((COLUMNS[entry.column].dataset, entry.scenario, row.method))
        return cls(
            line=entry.line.label,
            column=entry.column,
            scenario=entry.scenario,
            method=row.method,
            head=row.head,
            accuracy=row.accuracy,
            forgetting=row.forgetting,
            unsettled=row.unsettled,
            prediction_share=row.prediction_share,
            diverged=row.diverged,
            seconds=row.seconds,
            options=row.options,
            seeds=row.seeds,
            paper=theirs if _is_papers(entry) else None,
        )

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Cell:
        given = {item.name: document[item.name] for item in fields(cls)}
        for name in ("accuracy", "forgetting", "unsettled"):
            given[name] = None if given[name] is None else Summary(**given[name])
        given["paper"] = None if given["paper"] is None else tuple(given["paper"])
        return cls(**given)

    def __str__(self) -> str:
        """Ours, with the paper's in brackets."""
        paper = "" if self.paper is None else f" ({self.paper[0]:.1f})"
        return f"{self.accuracy.mean:.1f} ± {self.accuracy.std:.1f}{paper}"


def _is_papers(entry: Entry) -> bool:
    """Whether the paper has this cell: its methods, its encoder, no head of ours, no variants."""
    plain = not entry.line.preset and not entry.line.changes and entry.line.head in ("random", "least_squares")
    return plain and COLUMNS[entry.column].papers and not COLUMNS[entry.column].wide


@dataclass(frozen=True)
class PaperTable:
    """The cells there are: what `paper.json` holds."""

    cells: list[Cell]
    environment: Environment | None = None
    command: str = ""

    def to_json(self) -> dict[str, Json]:
        rows = [asdict(cell) for cell in self.cells]
        return {"rows": rows, "environment": self.environment, "command": self.command}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> PaperTable:
        return cls([Cell.from_json(row) for row in document["rows"]], document["environment"], document["command"])

    def find(self, line: str, column: str, scenario: str) -> Cell | None:
        return next((c for c in self.cells if (c.line, c.column, c.scenario) == (line, column, scenario)), None)

    def names(self, what: Callable[[Cell], str]) -> list[str]:
        """Lines, columns or scenarios, each once, in their order."""
        return list(dict.fromkeys(what(cell) for cell in self.cells))

    def markdown(self, column: str) -> str:
        """One column's lines as a table for a page."""
        mine = PaperTable([cell for cell in self.cells if cell.column == column])
        scenarios = mine.names(lambda cell: cell.scenario)
        lines = [
            f"| | {' | '.join(f'{s.capitalize()}-IL %' for s in scenarios)} | forgetting |",
            "|---" * (len(scenarios) + 2) + "|",
        ]
        for line in mine.names(lambda cell: cell.line):
            each = [mine.find(line, column, s) for s in scenarios]
            forgets = "" if each[0] is None else f"{each[0].forgetting.mean:.1f}"
            lines.append(f"| {line} | {' | '.join(str(cell or '') for cell in each)} | {forgets} |")
        return "\n".join(lines) + "\n"

    def to_csv(self) -> str:
        """One line per cell."""
        names = ("line", "column", "scenario", "accuracy", "std", "forgetting", "unsettled", "seconds", "paper")
        rows: list[list[object]] = [list(names)]
        for c in self.cells:
            unsettled = "" if c.unsettled is None else f"{c.unsettled.mean:.5f}"
            paper = "" if c.paper is None else c.paper[0]
            numbers = [f"{c.accuracy.mean:.2f}", f"{c.accuracy.std:.2f}", f"{c.forgetting.mean:.2f}"]
            rows.append([c.line, c.column, c.scenario, *numbers, unsettled, f"{c.seconds:.1f}", paper])
        return to_csv(rows)
