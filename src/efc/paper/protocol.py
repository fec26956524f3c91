"""The paper as printed: its own settings beside its numbers, row by row (`efc bench paper --protocol paper`).

Where the text says how something was done, it is done so; where it is silent, as the authors' published code does.
docs/departures.md says what differs from our own protocol, and what each difference is worth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from efc.errors import EFCError, choose
from efc.files import Json
from efc.learners import find_learner
from efc.paper.lines import BOTH, COLUMNS, PAPERS, TOLD
from efc.paper.table import config_of, entries
from efc.runs.config import RunConfig, make_config

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

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from the other cells."""
        return self.label, self.column, self.scenario, self.protocol, self.widths

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
    columns: Sequence[str],
    scenarios: Sequence[str],
    labels: str = "",
    widths: Sequence[str] = SOURCES,
    methods: Sequence[str] = (),
) -> list[list[Case]]:
    """The cells, in groups that share a configuration: each column by the paper's protocol, in both widths, and ours.

    Where the code's network is the text's, or the code has none, there is no second cell. ``labels`` leaves only the
    rows whose name contains one of its parts, divided by semicolons; ``methods`` only these of ``NAMES``; ``widths``
    only the networks of the ``text`` or of the ``code``.
    """
    for name in methods:
        choose("--methods", name, NAMES)
    for name in widths:
        choose("--widths", name, SOURCES)
    for name in columns:
        choose("--datasets", name, WIDTHS)
    for name in scenarios:
        choose("--scenarios", name, BOTH)
    parts = [part.strip() for part in labels.split(";") if part.strip()]
    named = [m for m, name in NAMES.items() if not parts or any(part in name for part in parts)]
    asked = [m for m in named if not methods or m in methods]
    if not asked:
        which = f" of {', '.join(methods)}" if methods else ""
        raise EFCError(f"--lines: no row{which} contains {labels!r}; the paper's are {', '.join(NAMES.values())}")
    groups = []
    for column in columns:
        each = [(m, s) for m in asked for s in scenarios]
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
