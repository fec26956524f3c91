"""The paper as printed: its own settings beside its numbers, row by row (`efc bench paper --protocol paper`).

Where the text says how something was done, it is done so; where it is silent, as the authors' published code does.
docs/departures.md says what differs from our own protocol, and what each difference is worth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from efc.errors import EFCError, choose
from efc.files import Json, to_csv
from efc.learners import find_learner
from efc.paper.lines import BOTH, COLUMNS, PAPERS, TOLD
from efc.paper.published import PAPER
from efc.paper.table import config_of, entries
from efc.runs.config import RunConfig, make_config
from efc.runs.results import Environment, ResultRow, Summary

PROTOCOLS = ("fair", "paper")
SOURCES = ("text", "code")
EPOCHS, BATCH = 20, 256
WIDTHS: dict[str, dict[str, tuple[int, ...]]] = {
    "mnist": {"text": (100, 100), "code": (100, 100)},
    "cifar10-resnet18": {"text": (100,), "code": (100, 100)},
    "tiny-imagenet-resnet18": {"text": (1000,), "code": (1000, 1000)},
}
"""The hidden layers as the text states them, and as the configurations of the authors' code do."""
WIDER: dict[tuple[str, str], tuple[int, ...]] = {("mnist", "class"): (1000, 1000)}
"""Where the code's configuration for EFC has other hidden layers than those for the rest."""
NAMES = {
    "joint": "JOINT", "sgd": "SGD", "ewc": "EWC", "online_ewc": "online EWC", "si": "SI", "efc-paper": "EFC",
    "derpp": "DER++ (200)", "reference": "EFC, as the authors' code",
}  # fmt: skip
"""The rows of the paper's table, in its order, and one more: the behaviour of the code instead of the equations."""
FAIR = {
    "joint": "JOINT (upper bound)", "sgd": "SGD", "ewc": "EWC", "online_ewc": "online EWC", "si": "SI",
    "efc-paper": PAPERS, "derpp": "DER++ (200)",
}  # fmt: skip
"""The same methods in our own table, there with the least-squares head (JOINT: none)."""

Given = Mapping[str, Json]
EFC: dict[tuple[str, str], Given] = {
    ("mnist", "class"): {"lr": 3e-5, "beta": 1.0, "lam": 0.01},
    ("cifar10-resnet18", "class"): {"lr": 3e-5, "beta": 10.0, "lam": 0.1},
    ("tiny-imagenet-resnet18", "class"): {"lr": 1e-5, "beta": 1.0, "lam": 0.1},
    ("mnist", "task"): {"lr": 1e-4, "beta": 0.1, "lam": 0.1},
    ("cifar10-resnet18", "task"): {"lr": 3e-4, "beta": 1.0, "lam": 1.0},
    ("tiny-imagenet-resnet18", "task"): {"lr": 1e-4, "beta": 0.1, "lam": 0.1},
}
"""EFC's rate, strength and distance of the target, as the authors' configurations have them."""
EQUATIONS: Given = {
    "variant": "paper", "normalise": "neuron", "head_beta": 1.0, "kappa": 2.0, "k_p": 2.0, "head_rule": "rates",
    "solver_options": {"max_steps": 16},
}  # fmt: skip
"""The paper's equations, with the gain and the unit of beta that its configurations are for."""
SILENT: Given = {"schedule": "constant", "initial": "uniform_biases"}
"""What the text does not say: as the code does it, for every method."""
HEADS: dict[str, Given] = {"class": {"first_head": "drawn"}, "task": {"first_head": "set", "head_scale": 0.5}}
"""The head's new rows. ``reference`` has Class-IL's, so that Task-IL's are said in full."""
PIXELS: Given = {"inputs": "scaled", "input_mean": 0.1307, "input_deviation": 0.3081}
OTHERS: dict[str, Given] = {
    "joint": {"lr": 1e-3},
    "sgd": {"optimiser": "sgd", "momentum": 0.0},
    "ewc": {},
    "online_ewc": {"decay": 0.95},
    "si": {},
    "derpp": {"alpha": 0.5, "beta": 0.5, "buffer": 200},
}
"""What the other methods have everywhere: the text's optimiser and buffer, the decay and factors of the authors'
configurations. JOINT's rate is ours: theirs has none."""
PLACES = tuple((column, scenario) for column in WIDTHS for scenario in BOTH)
SWEPT: dict[str, tuple[tuple[str, ...], tuple[tuple[float, ...], ...]]] = {
    "sgd": (("lr",), ((3e-3,), (3e-3,), (3e-3,), (3e-3,), (1e-4,), (1e-4,))),
    "ewc": (
        ("lr", "strength"),
        ((1e-3, 10.0), (1e-4, 10.0), (1e-3, 10.0), (1e-4, 10.0), (1e-4, 0.1), (1e-4, 10.0)),
    ),
    "online_ewc": (
        ("lr", "strength"),
        ((1e-3, 10.0), (1e-3, 10.0), (1e-3, 10.0), (3e-3, 10.0), (1e-4, 0.1), (1e-4, 0.1)),
    ),
    "si": (
        ("lr", "strength", "damping"),
        (
            (3e-3, 0.1, 0.01), (1e-3, 0.1, 1.0), (1e-3, 1.0, 0.01),
            (1e-4, 1.0, 1.0), (1e-4, 0.1, 0.01), (1e-4, 0.1, 0.01),
        ),
    ),
    "derpp": (("lr",), ((1e-3,), (1e-4,), (1e-3,), (1e-4,), (1e-2,), (1e-2,))),
}  # fmt: skip
"""The other methods' rates, strengths and damping: MNIST, CIFAR-10, Tiny-ImageNet, each Class-IL, then Task-IL.

Of ``sgd``, ``ewc``, ``online_ewc`` and ``si`` they are the best settings that the authors' notebook
``deprecated/sweep_all_methods_analysis.ipynb`` prints (commit cbe0274: 1056 runs, rates 1e-4, 1e-3 and 3e-3, two seeds,
chosen by test accuracy). Its penalties are ``strength * sum Omega (theta - theta*)^2``, as ours are. ``derpp``: MNIST's
from ``confusion_matrix_analysis.ipynb``, Tiny-ImageNet's from ``final_configs/derpp``; CIFAR-10's is not to be had, and
is MNIST's here.
"""


def swept(method: str, column: str, scenario: str) -> Given:
    """What the authors' sweep found for a method in a column and a scenario."""
    if method not in SWEPT:
        return {}
    names, values = SWEPT[method]
    return dict(zip(names, values[PLACES.index((column, scenario))], strict=True))


def network(method: str, column: str, scenario: str, widths: str) -> tuple[int, ...]:
    """The hidden layers as the ``text`` or the ``code`` states them."""
    if widths == "code" and method in ("efc-paper", "reference"):
        return WIDER.get((column, scenario), WIDTHS[column]["code"])
    return WIDTHS[column][widths]


@dataclass(frozen=True)
class Case:
    """One cell to be computed: a method in a column and a scenario, by one of the protocols."""

    method: str
    column: str
    scenario: str
    protocol: str
    widths: str = "text"

    @property
    def label(self) -> str:
        return NAMES[self.method]

    @property
    def hidden(self) -> tuple[int, ...]:
        if self.protocol == "fair":
            return COLUMNS[self.column].hidden
        return network(self.method, self.column, self.scenario, self.widths)

    @property
    def stated(self) -> bool:
        """Whether it is a cell of its own: the code states no network for JOINT, and sometimes the text's."""
        return self.widths == "text" or (self.method != "joint" and self.hidden != WIDTHS[self.column]["text"])

    def options(self) -> dict[str, Json]:
        """All of it, by the paper's protocol."""
        pixels = PIXELS if COLUMNS[self.column].encoder == "none" else {"inputs": "raw"}
        found = {**SILENT, **HEADS[self.scenario], **pixels}
        efc = EFC[self.column, self.scenario]
        if self.method == "reference":
            return {"variant": "reference", **found, **efc}
        if self.method == "efc-paper":
            return {**EQUATIONS, **found, **efc}
        return {**found, **OTHERS[self.method], **swept(self.method, self.column, self.scenario)}

    def row(self) -> dict[str, object]:
        """As a configuration spells it."""
        method = "efc-paper" if self.method == "reference" else self.method
        head = "random" if method == "joint" else "least_squares"
        options = find_learner(method).options_type.layered({}, self.options())
        return {"method": method, "head": head, "scenario": self.scenario, "options": options}


def cases(
    columns: Sequence[str], scenarios: Sequence[str], labels: str = "", widths: Sequence[str] = SOURCES
) -> list[list[Case]]:
    """The cells, in groups that share a configuration: each column by the paper's protocol, in both widths, and ours.

    Where the code's network is the text's, or the code has none, there is no second cell. ``labels`` leaves only the
    rows whose name contains one of its parts, divided by semicolons; ``widths`` only the networks of the ``text`` or
    of the ``code``.
    """
    for name in widths:
        choose("--widths", name, SOURCES)
    for name in columns:
        choose("--datasets", name, WIDTHS)
    for name in scenarios:
        choose("--scenarios", name, BOTH)
    parts = [part.strip() for part in labels.split(";") if part.strip()]
    methods = [m for m, name in NAMES.items() if not parts or any(part in name for part in parts)]
    if not methods:
        raise EFCError(f"--lines: no row contains {labels!r}; the paper's are {', '.join(NAMES.values())}")
    groups = []
    for column in columns:
        each = [(m, s) for m in methods for s in scenarios]
        for source in widths:
            every = [Case(m, column, s, "paper", source) for m, s in each]
            groups += [
                [case for case in every if case.stated and case.hidden == hidden]
                for hidden in dict.fromkeys(case.hidden for case in every)
            ]
        groups.append([Case(m, column, s, "fair") for m, s in each if m in FAIR])
    return [group for group in groups if group]


def config_for(group: Sequence[Case], stand_in: str | None, settings: Mapping[str, object]) -> RunConfig:
    """The runs of one group; ``stand_in`` names features to be taken for those the column's encoder would make."""
    first, column = group[0], COLUMNS[group[0].column]
    if first.protocol == "fair":
        found = {(e.line.label, e.scenario): e for e in entries([first.column], BOTH)[0]}
        return config_of(
            first.column, [found[fair_label(case.method), case.scenario] for case in group], stand_in, settings
        )
    data = {"dataset": column.dataset, "encoder": column.encoder} if stand_in is None else {"dataset": stand_in}
    training = {
        "tasks": column.tasks, "classes_per_task": column.classes_per_task, "epochs": EPOCHS, "batch_size": BATCH,
        "hidden": list(first.hidden), "activation": "relu", "validation": 0.0,
    }  # fmt: skip
    return make_config(data, training, {"rows": [case.row() for case in group]}, settings)


def fair_label(method: str) -> str:
    """The line of our own table."""
    return FAIR[method] if method == "joint" else f"{FAIR[method]}, {TOLD['least_squares']}"


@dataclass(frozen=True)
class ProtocolCell:
    """What came of a case."""

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
    options: Given
    seeds: list[int]
    paper: tuple[float, float] | None
    """What the paper reports, mean and deviation."""

    @classmethod
    def of(cls, case: Case, row: ResultRow) -> ProtocolCell:
        reported = "efc-paper" if case.method == "reference" else case.method
        return cls(
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
    def from_json(cls, document: Mapping[str, Any]) -> ProtocolCell:
        given = {item.name: document[item.name] for item in fields(cls)}
        for name in ("accuracy", "task_accuracy", "unsettled"):
            given[name] = None if given[name] is None else Summary(**given[name])
        given["paper"] = None if given["paper"] is None else tuple(given["paper"])
        return cls(**given)

    def __str__(self) -> str:
        return f"{self.accuracy.mean:.1f} ± {self.accuracy.std:.1f}"

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
    """The cells there are: what `paper-protocol.json` holds."""

    cells: list[ProtocolCell]
    environment: Environment | None = None
    command: str = ""

    def to_json(self) -> dict[str, Json]:
        rows = [asdict(cell) for cell in self.cells]
        return {"protocol": "paper", "rows": rows, "environment": self.environment, "command": self.command}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ProtocolTable:
        cells = [ProtocolCell.from_json(row) for row in document["rows"]]
        return cls(cells, document["environment"], document["command"])

    def names(self, what: Callable[[ProtocolCell], str]) -> list[str]:
        """Columns, scenarios or lines, each once, in their order."""
        return list(dict.fromkeys(what(cell) for cell in self.cells))

    @property
    def places(self) -> list[tuple[str, str]]:
        """Columns with scenarios, each once, in their order."""
        return list(dict.fromkeys((cell.column, cell.scenario) for cell in self.cells))

    def find(self, line: str, column: str, scenario: str, protocol: str, widths: str = "text") -> ProtocolCell | None:
        wanted = (line, column, scenario, protocol, widths)
        every = ((c.line, c.column, c.scenario, c.protocol, c.widths) for c in self.cells)
        return next((cell for cell, key in zip(self.cells, every, strict=True) if key == wanted), None)

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
