"""The table of `efc bench paper`: its columns (data, network, training) and its lines (methods with a head)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from efc.files import Json
from efc.learners import EFC, HEADS

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
    papers: bool = True
    """Whether the paper has such a column, with this encoder and this network."""
    wide: bool = False
    """Whether it asks what width does: other lines, and only when it is named."""

    @property
    def lines(self) -> list[Line]:
        return WIDE if self.wide else LINES


COLUMNS = {
    "mnist": Column("mnist", "none", 5, 2, (100, 100), 10),
    "cifar10-resnet18": Column("cifar10", "resnet18", 5, 2, (100,), 10),
    "cifar10-efficientnet-lite0": Column("cifar10", "efficientnet-lite0", 5, 2, (100,), 10, papers=False),
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
    changes: Mapping[str, Json] = field(default_factory=dict)
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


def _ablation(label: str, head: str = "least_squares", **changes: Json) -> Line:
    """The paper's EFC with its least-squares head's options and one change."""
    return Line(f"EFC: {label}", "efc-paper", head, "efc-paper", changes, CLASS, "least_squares")


def _part(label: str, **changes: Json) -> Line:
    """EFC with remembered activity, one of its two parts taken away."""
    head = "least_squares"
    return Line(f"EFC, {label}, {TOLD[head]}", "efc", head, "efc", changes, CLASS)


def _natural(method: str, head: str) -> Line:
    """Natural steps and the preservation signal do not go together: EFC's go without it."""
    changes = {"step": "natural"} | ({"beta": 0.0} if method == "efc" else {})
    label = f"{REMEMBERING[method]}, natural step, {TOLD[head]}"
    return Line(label, method, head, f"{method}-natural", changes, CLASS)


def _default(method: str, name: str, scenarios: tuple[str, ...] = CLASS) -> Line:
    """As without any search: standardised inputs, the head that is shipped."""
    head = EFC.shipped_head
    return Line(f"{name}, default options, {TOLD[head]}", method, head, scenarios=scenarios, tuned=False)


DEFAULT = _default("efc", "EFC", BOTH)
UNTUNED = Line(
    f"EFC, untuned, {TOLD['least_squares']}", "efc", "least_squares",
    changes={"inputs": "raw", "drift": "trusted", "skip": "off", "readout": "regression"}, tuned=False,
)  # fmt: skip
"""The same rate, pull and beta in the other lines' circumstances: raw inputs, and a head that is trained."""
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
    _default("activity", "activity"),
    _default("frozen", "first task, then frozen"),
    UNTUNED,
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
