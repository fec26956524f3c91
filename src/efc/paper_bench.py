"""`efc bench paper`: the paper's table on fair terms, its lines and columns, and what is written of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from efc.config import Row, RunConfig, make_config
from efc.documents import row_document
from efc.errors import choose
from efc.learners import find_learner
from efc.paper import PAPER
from efc.presets import fitting_preset
from efc.runs.identity import Run

BOTH, CLASS = ("class", "task"), ("class",)


@dataclass(frozen=True)
class Column:
    """A data set with the network and the training every method gets on it."""

    dataset: str
    encoder: str
    tasks: int
    classes_per_task: int
    hidden: tuple[int, ...]
    epochs: int
    activation: str = "relu"
    wide: bool = False
    """Whether it asks what width does: other lines, and only when it is named."""


COLUMNS = {
    "mnist": Column("mnist", "none", 5, 2, (100, 100), 10),
    "cifar10-resnet18": Column("cifar10", "resnet18", 5, 2, (100,), 10),
    "cifar10-efficientnet-lite0": Column("cifar10", "efficientnet-lite0", 5, 2, (100,), 10),
    "tiny-imagenet-resnet18": Column("tiny-imagenet", "resnet18", 10, 20, (1000,), 5),
    "mnist-wide": Column("mnist", "none", 5, 2, (1000,), 1, wide=True),
    "cifar10-resnet18-wide": Column("cifar10", "resnet18", 5, 2, (2000,), 1, "softplus", wide=True),
    "tiny-imagenet-resnet18-wide": Column("tiny-imagenet", "resnet18", 10, 20, (3000,), 1, "softplus", wide=True),
}
USUAL = [name for name, column in COLUMNS.items() if not column.wide]
"""The columns of the table unless others are asked for."""


@dataclass(frozen=True)
class Line:
    """A line of the table: a method with a head, its options from the preset ``preset``, some of them changed."""

    label: str
    method: str
    head: str
    preset: str = ""
    changes: Mapping[str, Any] = field(default_factory=dict)
    scenarios: tuple[str, ...] = BOTH
    preset_head: str = ""


def _main(head: str, told: str) -> list[Line]:
    methods = {"sgd": "SGD", "ewc": "EWC", "online_ewc": "online EWC", "si": "SI", "mas": "MAS", "derpp": "DER++ (200)"}
    lines = [Line(f"{name}, {told}", method, head) for method, name in methods.items()]
    return [
        *lines,
        Line(f"first task, then frozen, {told}", "frozen", head),
        Line(f"EFC, {told}", "efc", head),
        Line(f"EFC + anchor, {told}", "efc", head, "efc-anchor"),
    ]


def _compensated(head: str = "compensated") -> list[Line]:
    """Class-IL with a head that follows the features; where nothing moves them it is the analytic one."""
    names, told = {"sgd": "SGD", "ewc": "EWC", "mas": "MAS", "efc": "EFC"}, head.replace("_", "-")
    return [Line(f"{name}, {told} head", method, head, scenarios=CLASS) for method, name in names.items()]


def _levers() -> list[Line]:
    """Class-IL: what was tried to lift EFC, and the penalties with the one thing of it that they can have, too."""
    names = {
        "ewc-head": "EWC, head apart", "mas-head": "MAS, head apart", "efc-mas": "EFC, MAS + anchor",
        "efc-additive": "EFC additive + anchor", "efc-additive-mas": "EFC additive, MAS + anchor",
    }  # fmt: skip
    return [
        Line(f"{name}, least-squares head", preset.split("-")[0], "least_squares", preset, scenarios=CLASS)
        for preset, name in names.items()
    ]


def _ablation(label: str, head: str = "least_squares", **changes: Any) -> Line:
    return Line(f"EFC: {label}", "efc", head, "efc", changes, CLASS, "least_squares")


LINES = [
    Line("JOINT (upper bound)", "joint", "random"),
    Line("ridge on the features", "analytic", "analytic"),
    *_main("least_squares", "least-squares head"),
    *_levers(),
    *_main("analytic", "analytic head"),
    *_compensated(),
    Line("EFC additive + anchor, compensated head", "efc", "compensated", "efc-additive", scenarios=CLASS),
    *_compensated("input_compensated"),
    _ablation("beta = 0", beta=0.0),
    _ablation("random head", "random"),
    _ablation("frozen head", head_rule="frozen"),
    _ablation("head by its rates", head_rule="rates"),
    _ablation("least-control feedback", feedback="least_control"),
    _ablation("learned feedback", feedback="learned"),
    _ablation("neuron-normalised Fisher", normalise="neuron"),
    _ablation("linear output", output="linear"),
    _ablation("additive control", form="additive", feedback="jacobian"),
    _ablation("as the authors' code", preset="reference"),
]

WIDE = [
    Line("ridge on the features", "analytic", "analytic", scenarios=CLASS),
    Line("nothing trained, analytic head", "frozen", "analytic", "untrained", scenarios=CLASS),
    Line("first task, then frozen, analytic head", "frozen", "analytic", scenarios=CLASS),
    Line("EFC, analytic head", "efc", "analytic", scenarios=CLASS),
    *(line for line in _compensated() if line.method in ("sgd", "efc")),
]
"""The lines of the wide columns: what comes from width, from the head, and from learning."""


@dataclass(frozen=True)
class Entry:
    """One cell of the table, to be computed."""

    line: Line
    column: str
    scenario: str

    def chosen(self) -> dict[str, Any] | None:
        """The options chosen by a search (if need be with the head that this one refines); None if there was none."""
        name, head = self.line.preset or self.line.method, self.line.preset_head or self.line.head
        return fitting_preset(self.column, self.scenario, name, head) or None


def entries(columns: Sequence[str], scenarios: Sequence[str]) -> tuple[list[Entry], list[Entry]]:
    """The cells of the table, and those that cannot be computed: no options have been chosen for them yet."""
    for name in columns:
        choose("--datasets", name, COLUMNS)
    for name in scenarios:
        choose("--scenarios", name, BOTH)
    every = [
        Entry(line, column, scenario)
        for column in columns
        for line in (WIDE if COLUMNS[column].wide else LINES)
        for scenario in scenarios
        if scenario in line.scenarios
    ]
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


def config_of(column: str, wanted: Sequence[Entry], stand_in: str | None, settings: Mapping[str, Any]) -> RunConfig:
    """The runs of one column; ``stand_in`` names features to be taken for those the column's encoder would make."""
    c = COLUMNS[column]
    data = {"dataset": c.dataset, "encoder": c.encoder} if stand_in is None else {"dataset": stand_in}
    training = {"tasks": c.tasks, "classes_per_task": c.classes_per_task, "hidden": list(c.hidden), "epochs": c.epochs}
    training |= {"activation": c.activation}
    rows = [_row(entry) for entry in wanted]
    return make_config(data, training, {"batch_size": 256, "rows": rows}, settings)


def _row(entry: Entry) -> dict[str, Any]:
    line = entry.line
    variant = find_learner(line.method).options_type.presets.get(line.changes.get("preset", ""), {})
    options = (entry.chosen() or {}) | dict(variant) | dict(line.changes)
    return vars(Row(line.method, line.head, entry.scenario, options))


def document(
    wanted: Sequence[Entry], rows: Sequence[Sequence[Run]], results: Mapping[str, dict[str, Any]], command: str
) -> dict[str, Any]:
    """The table as plain data, without what only a single run's file needs."""
    found = []
    environment: Any = None
    for entry, runs in zip(wanted, rows, strict=True):
        if any(run.id not in results for run in runs):
            continue
        row = row_document(runs, [results[run.id] for run in runs])
        environment = environment or row["environment"]
        paper = PAPER.get((COLUMNS[entry.column].dataset, entry.scenario, row["method"]))
        found.append({
            "line": entry.line.label, "column": entry.column, "scenario": entry.scenario, "method": row["method"],
            "head": row["head"], "accuracy": row["accuracy"], "forgetting": row["forgetting"],
            "unsettled": row["unsettled"], "prediction_share": row["prediction_share"], "diverged": row["diverged"],
            "seconds": row["seconds"], "options": row["config"]["options"], "seeds": row["seeds"],
            "paper": list(paper) if paper and _is_papers(entry) else None,
        })  # fmt: skip
    return {"rows": found, "environment": environment, "command": command}


def _is_papers(entry: Entry) -> bool:
    """Whether the paper has this cell: its methods, its encoder, no head of ours, no variants."""
    plain = not entry.line.preset and not entry.line.changes and entry.line.head in ("random", "least_squares")
    return plain and entry.column != "cifar10-efficientnet-lite0"


def table(found: dict[str, Any]) -> Table:
    """Lines by columns, ours with the paper's in brackets."""
    cells = {(r["line"], r["column"], r["scenario"]): r for r in found["rows"]}
    heads = list(dict.fromkeys((r["column"], r["scenario"]) for r in found["rows"]))
    shown = Table("", *(f"{column}\n{scenario}-IL" for column, scenario in heads), box=None, padding=(0, 2, 0, 0))
    for line in dict.fromkeys(r["line"] for r in found["rows"]):
        shown.add_row(line, *(_cell(cells.get((line, *head))) for head in heads))
    return shown


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return ""
    paper = "" if row["paper"] is None else f" ({row['paper'][0]:.1f})"
    return f"{row['accuracy']['mean']:.1f} ± {row['accuracy']['std']:.1f}{paper}"


def markdown(found: dict[str, Any], column: str) -> str:
    """One column's lines as a table for a page."""
    rows = [r for r in found["rows"] if r["column"] == column]
    scenarios = list(dict.fromkeys(r["scenario"] for r in rows))
    cells = {(r["line"], r["scenario"]): r for r in rows}
    lines = [
        f"| | {' | '.join(f'{s.capitalize()}-IL %' for s in scenarios)} | forgetting |",
        "|---" * (len(scenarios) + 2) + "|",
    ]
    for line in dict.fromkeys(r["line"] for r in rows):
        each = [_cell(cells.get((line, s))) for s in scenarios]
        first = cells.get((line, scenarios[0]))
        forgets = "" if first is None else f"{first['forgetting']['mean']:.1f}"
        lines.append(f"| {line} | {' | '.join(each)} | {forgets} |")
    return "\n".join(lines) + "\n"


def to_csv(found: dict[str, Any]) -> str:
    """One line per cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["line", "column", "scenario", "accuracy", "std", "forgetting", "unsettled", "seconds", "paper"])
    for r in found["rows"]:
        unsettled = "" if r["unsettled"] is None else f"{r['unsettled']['mean']:.5f}"
        paper = "" if r["paper"] is None else r["paper"][0]
        numbers = [f"{r['accuracy'][k]:.2f}" for k in ("mean", "std")]
        writer.writerow([r["line"], r["column"], r["scenario"], *numbers, f"{r['forgetting']['mean']:.2f}", unsettled,
                         f"{r['seconds']:.1f}", paper])  # fmt: skip
    return out.getvalue()
