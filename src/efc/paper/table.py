"""`efc bench paper`: the paper's table on fair terms, its lines and columns, and what is written of it."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from efc.errors import EFCError, choose
from efc.learners import EFC, HEADS, find_learner
from efc.paper.published import PAPER
from efc.presets import fitting_preset
from efc.runs.config import Row, RunConfig, make_config
from efc.runs.identity import Run
from efc.runs.results import row_document

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

    @property
    def lines(self) -> list[Line]:
        return WIDE if self.wide else LINES


COLUMNS = {
    "mnist": Column("mnist", "none", 5, 2, (100, 100), 10),
    "cifar10-resnet18": Column("cifar10", "resnet18", 5, 2, (100,), 10),
    "cifar10-efficientnet-lite0": Column("cifar10", "efficientnet-lite0", 5, 2, (100,), 10),
    "tiny-imagenet-resnet18": Column("tiny-imagenet", "resnet18", 10, 20, (1000,), 5),
    "mnist-wide": Column("mnist", "none", 5, 2, (1000,), 10, wide=True),
    "cifar10-resnet18-wide": Column("cifar10", "resnet18", 5, 2, (2000,), 10, "softplus", wide=True),
    "tiny-imagenet-resnet18-wide": Column("tiny-imagenet", "resnet18", 10, 20, (3000,), 5, "softplus", wide=True),
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
    tuned: bool = True
    """Whether its options were chosen for the column; if not, they are the method's defaults."""


PAPERS = "EFC as in the paper"
PLAIN = {"sgd": "SGD", "ewc": "EWC", "online_ewc": "online EWC", "si": "SI", "mas": "MAS", "derpp": "DER++ (200)"}
REMEMBERING = {"efc": "EFC", "activity": "activity", "activity_ewc": "activity + EWC"}
TOLD = {head: f"{head.replace('_', '-')} head" for head in HEADS}


def _lines(names: Mapping[str, str], head: str, scenarios: tuple[str, ...] = BOTH) -> list[Line]:
    """Methods by name, with one head."""
    return [Line(f"{name}, {TOLD[head]}", method, head, scenarios=scenarios) for method, name in names.items()]


def _main(head: str) -> list[Line]:
    return [
        *_lines(PLAIN | {"frozen": "first task, then frozen", "efc-paper": PAPERS}, head),
        Line(f"{PAPERS} + anchor, {TOLD[head]}", "efc-paper", head, "efc-anchor"),
    ]


def _levers() -> list[Line]:
    """Class-IL: what was tried to lift the paper's EFC, and the penalties with the one thing of it they can have."""
    names = {
        "ewc-head": "EWC, head apart", "mas-head": "MAS, head apart", "efc-mas": f"{PAPERS}, MAS + anchor",
        "efc-additive": f"{PAPERS}, additive + anchor", "efc-additive-mas": f"{PAPERS}, additive, MAS + anchor",
    }  # fmt: skip
    methods, head = {"ewc": "ewc", "mas": "mas", "efc": "efc-paper"}, "least_squares"
    return [
        Line(f"{name}, {TOLD[head]}", methods[preset.split("-")[0]], head, preset, scenarios=CLASS)
        for preset, name in names.items()
    ]


def _ablation(label: str, head: str = "least_squares", **changes: Any) -> Line:
    """The paper's EFC with its least-squares head's options and one change."""
    return Line(f"EFC: {label}", "efc-paper", head, "efc-paper", changes, CLASS, "least_squares")


def _part(label: str, **changes: Any) -> Line:
    """EFC with remembered activity, one of its two parts taken away."""
    head = "least_squares"
    return Line(f"EFC, {label}, {TOLD[head]}", "efc", head, "efc", changes, CLASS)


def _natural(method: str, head: str) -> Line:
    """Natural steps and the preservation signal do not go together: EFC's go without it."""
    changes = {"step": "natural"} | ({"beta": 0.0} if method == "efc" else {})
    label = f"{REMEMBERING[method]}, natural step, {TOLD[head]}"
    return Line(label, method, head, f"{method}-natural", changes, CLASS)


DEFAULT = Line(f"EFC, default options, {TOLD[EFC.shipped_head]}", "efc", EFC.shipped_head, tuned=False)
FOLLOWED = {"sgd": "SGD", "ewc": "EWC", "mas": "MAS", "efc-paper": PAPERS}
LINES = [
    Line("JOINT (upper bound)", "joint", "random"),
    Line("ridge on the features", "analytic", "analytic"),
    *_lines(REMEMBERING, "zero"),
    *_lines(REMEMBERING, "least_squares"),
    *_lines(REMEMBERING, "analytic", CLASS),
    *_lines(REMEMBERING, "compensated", CLASS),
    *_lines(REMEMBERING, "input_compensated", CLASS),
    *(_natural(method, head) for method in ("efc", "activity") for head in ("zero", "least_squares")),
    DEFAULT,
    _part("gamma off", beta=0.0),
    _part("pull off", pull=0.0),
    *_lines(PLAIN | {"frozen": "first task, then frozen"}, "zero"),
    *_main("least_squares"),
    *_levers(),
    *_main("analytic"),
    *_lines(FOLLOWED, "compensated", CLASS),
    Line(f"{PAPERS}, additive + anchor, compensated head", "efc-paper", "compensated", "efc-additive", scenarios=CLASS),
    *_lines(FOLLOWED, "input_compensated", CLASS),
    *(line for head in ("compensated", "input_compensated") for line in _lines({"derpp": "DER++ (200)"}, head, CLASS)),
    _ablation("beta = 0", beta=0.0, pull=0.0),
    _ablation("random head", "random"),
    _ablation("frozen head", head_rule="frozen"),
    _ablation("head by its rates", head_rule="rates"),
    _ablation("least-control feedback", feedback="least_control"),
    _ablation("learned feedback", feedback="learned"),
    _ablation("neuron-normalised Fisher", normalise="neuron"),
    _ablation("linear output", output="linear"),
    _ablation("additive control", form="additive", feedback="jacobian"),
    _ablation("as the authors' code", variant="reference"),
]

WIDE = [
    Line("JOINT (upper bound)", "joint", "random", scenarios=CLASS),
    Line("ridge on the features", "analytic", "analytic", scenarios=CLASS),
    Line("nothing trained, analytic head", "frozen", "analytic", "untrained", {"lr": 0.0}, CLASS),
    *_lines({"frozen": "first task, then frozen"}, "analytic", CLASS),
    *_lines({"sgd": "SGD"}, "compensated", CLASS),
    *_lines({"efc": "EFC", "activity": "activity"}, "least_squares", CLASS),
    *_lines({"efc": "EFC", "activity": "activity"}, "input_compensated", CLASS),
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
    options = find_learner(line.method).options_type.layered(entry.chosen() or {}, line.changes)
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
    return plain and entry.column != "cifar10-efficientnet-lite0" and not COLUMNS[entry.column].wide


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
