"""Configuration of `efc run`: defaults, presets, a YAML file, flags and ``--set``, in this order."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from efc.core.activations import ACTIVATIONS
from efc.data import check_name, usual_tasks
from efc.encoders import ENCODERS
from efc.errors import EFCError, choose, suggest
from efc.files import Json
from efc.learners import HEADS, LEARNERS, Learner, Options, find_learner
from efc.learners.options import merged
from efc.presets import fitting_preset, training_preset
from efc.streams import SCENARIOS
from efc.training.evaluation import EVALUATED


@dataclass(frozen=True)
class Row:
    """One row of the table: a method with a head policy in a scenario, and its complete options."""

    method: str
    head: str
    scenario: str
    options: Options

    def to_json(self) -> dict[str, Json]:
        return {
            "method": self.method, "head": self.head, "scenario": self.scenario, "options": self.options.to_mapping(),
        }  # fmt: skip


@dataclass(frozen=True)
class RunConfig:
    """Everything that determines the results of a run."""

    rows: tuple[Row, ...]
    dataset: str = "digits"
    encoder: str = "none"
    encoder_weights: str | None = None
    data_dir: str | None = None
    image_size: int = 32
    tasks: int = 5
    classes_per_task: int = 2
    order_seed: int | None = None
    validation: float = 0.1
    evaluate: str = "test"
    seeds: int = 5
    epochs: int = 10
    batch_size: int = 64
    hidden: tuple[int, ...] = (100, 100)
    activation: str = "relu"
    device: str = "auto"

    def __post_init__(self) -> None:
        check_name(self.dataset)
        choose("encoder", self.encoder, ENCODERS)
        choose("activation", self.activation, ACTIVATIONS)
        choose("evaluate", self.evaluate, EVALUATED)
        for name in ("image_size", "tasks", "classes_per_task", "seeds", "epochs", "batch_size"):
            _whole(name, getattr(self, name))
        for width in self.hidden:
            _whole("hidden", width)
        if self.order_seed is not None:
            _whole("order_seed", self.order_seed, least=0)
        if not isinstance(self.validation, int | float) or not 0 <= self.validation < 1:
            raise EFCError(f"validation: must be at least 0 and below 1, got {self.validation!r}")
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", str(self.device)):
            raise EFCError(f"device: expected auto, cpu, cuda or cuda:N, got {self.device!r}")
        if not self.rows:
            raise EFCError("methods: at least one is needed")

    def digest(self) -> str:
        """Hexadecimal digits that stand for the settings."""
        return hashlib.sha256(self.to_yaml().encode()).hexdigest()

    def to_yaml(self) -> str:
        """A complete configuration that `efc run --config` takes as it is."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        plain |= {"rows": [row.to_json() for row in self.rows], "hidden": list(self.hidden)}
        return str(yaml.safe_dump(plain, sort_keys=False, default_flow_style=None, width=120))


DEFAULT_METHODS = ("efc", "ewc", "sgd")
_PLAIN = tuple(f.name for f in fields(RunConfig) if f.name != "rows")
_LISTS = {"scenario": SCENARIOS, "head": HEADS}
_KEYS = (*_PLAIN, *_LISTS, "methods", "solver", "preset_file", "rows", *LEARNERS)


def make_config(*layers: Mapping[str, object], shipped: bool = True) -> RunConfig:
    """Merge layers of settings, later ones first in rank, over defaults and presets, and check the whole.

    ``shipped=False`` leaves the shipped presets out: a search starts from the methods' defaults.

    Keys are those of :class:`RunConfig`, ``scenario``, ``methods`` and ``head`` (one or several), ``solver`` (for EFC),
    and a section per method, as in ``{"efc": {"beta": 0.1}}``; one's own method's section has its ``name``. ``rows``
    spells the rows out, as a saved one does.
    """
    settings: dict[str, object] = {}
    sections = {*LEARNERS, *(find_learner(spec).name for layer in layers for spec in _own_methods(layer))}
    keys = (*_KEYS, *sorted(sections - set(LEARNERS)))
    for layer in layers:
        for key, value in layer.items():
            if key not in keys:
                raise EFCError(f"{key}: no such setting{suggest(key, keys)}; there are {', '.join(keys)}")
            if key in sections:
                settings[key] = merged(_section(settings, key), _sections(key, value))
            else:
                settings[key] = value
    if "solver" in settings:
        for name, learner in LEARNERS.items():
            if "solver" in learner.options_type.__dataclass_fields__:
                settings[name] = merged(_section(settings, name), {"solver": settings["solver"]})
    dataset = check_name(str(settings.get("dataset", "digits")))
    tasks, classes = usual_tasks(dataset)
    plain: dict[str, Any] = {"tasks": tasks, "classes_per_task": classes} | training_preset(dataset)
    plain |= {key: settings[key] for key in _PLAIN if key in settings}
    encoder = settings.get("encoder", "none")
    if "hidden" in plain:
        plain["hidden"] = _widths(plain["hidden"])
    preset = (dataset if encoder == "none" else f"{dataset}-{encoder}") if shipped else ""
    return RunConfig(rows=tuple(_rows(settings, preset)), **plain)


def _rows(settings: Mapping[str, object], preset_name: str) -> list[Row]:
    if "rows" in settings:
        clash = [key for key in _LISTS if key in settings]
        if clash:
            raise EFCError(f"{clash[0]}: the configuration spells its rows out; drop its `rows` or this setting")
        return [_given_row(index, row, settings) for index, row in enumerate(_list(settings["rows"]))]
    rows = []
    file = settings.get("preset_file")
    own = None if file is None else load_yaml(Path(str(file)), "--preset")
    for scenario in _names("scenario", settings, ("class",)):
        for method in _methods(settings):
            learner = find_learner(method)
            wanted = [h for h in _names("head", settings, (learner.shipped_head,)) if h in learner.heads]
            for head in wanted or [learner.shipped_head]:
                preset = fitting_preset(preset_name, scenario, method, head, own)
                options = learner.options_type.layered(preset, _section(settings, learner.name))
                rows.append(_row(method, head, scenario, options))
    return rows


def _methods(settings: Mapping[str, object]) -> list[str]:
    """The methods asked for, without repetition; ``all`` stands for every method of the package."""
    given = [str(name) for name in _list(settings.get("methods", DEFAULT_METHODS))]
    names = [each for name in given for each in (LEARNERS if name == "all" else [name])]
    if not names:
        raise EFCError(f"methods: at least one is needed of all, {', '.join(LEARNERS)}, or your own as module:Class")
    for name in names:
        find_learner(name)
    return list(dict.fromkeys(names))


def _own_methods(layer: Mapping[str, object]) -> list[str]:
    """Methods a layer names as ``module:Class``."""
    rows = layer.get("rows", [])
    named = [row.get("method") for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    return [str(name) for name in (*_list(layer.get("methods", [])), *named) if ":" in str(name)]


def _given_row(index: int, row: object, settings: Mapping[str, object]) -> Row:
    """A row of a saved configuration, with the method's section (from ``--set``, say) on top."""
    names = [f.name for f in fields(Row)]
    if not isinstance(row, Mapping) or sorted(row) != sorted(names):
        raise EFCError(f"rows[{index}]: expected the keys {', '.join(names)}, got {row!r}")
    options = _sections(f"rows[{index}].options", row["options"])
    method, learner = str(row["method"]), find_learner(str(row["method"]))
    layered = learner.options_type.layered(options, _section(settings, learner.name))
    return _row(method, str(row["head"]), str(row["scenario"]), layered)


def _row(method: str, head: str, scenario: str, options: Mapping[str, object]) -> Row:
    learner = find_learner(method)
    choose("head", head, learner.heads)
    choose("scenario", scenario, SCENARIOS)
    complete = parse_options(learner, options)
    for key, value in complete.to_mapping().items():
        if isinstance(value, list):
            told = f"one value, please, for all seeds of a row; lists per run are for Python, got {value}"
            raise EFCError(f"{learner.name}.{key}: {told}")
    return Row(method, head, scenario, complete)


def parse_options(learner: type[Learner], options: Mapping[str, object]) -> Options:
    """A method's options; a mistake in them is told with the method's name."""
    try:
        return learner.options_type.from_mapping(options)
    except EFCError as mistake:
        raise EFCError(f"{learner.name}.{mistake}") from None


def load_yaml(path: Path, argument: str = "--config") -> dict[str, object]:
    """Read a configuration file."""
    try:
        content = parse(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise EFCError(f"{argument}: cannot read {path}: {problem.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as problem:
        raise EFCError(f"{argument}: {path} is not valid YAML: {' '.join(str(problem).split())}") from None
    return _sections(f"{argument} {path}", {} if content is None else content)


def parse_set(text: str) -> dict[str, object]:
    """``"efc.beta=0.1"`` as ``{"efc": {"beta": 0.1}}``; the value is read as YAML."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise EFCError(f"--set: expected KEY=VALUE, such as efc.beta=0.1, got {text!r}")
    try:
        result = parse(value)
    except yaml.YAMLError:
        raise EFCError(f"--set: cannot read the value in {text!r}") from None
    first, *inner = path.strip().split(".")
    for key in reversed(inner):
        result = {key: result}
    return {first: result}


class _Loader(yaml.SafeLoader):
    """YAML 1.1 as PyYAML reads it takes ``1e-3`` and ``inf`` for strings; here they are the numbers everyone means."""


def _construct_float(loader: _Loader, node: yaml.ScalarNode) -> float:
    return float(str(loader.construct_scalar(node)).replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))


_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+0123456789.")
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^\+?\.?inf$"), list("+.i"))


def parse(text: str) -> object:
    """A YAML value."""
    return yaml.load(text, Loader=_Loader)


def _section(settings: Mapping[str, object], name: str) -> dict[str, object]:
    """A method's section of settings that were checked; empty where there is none."""
    found = settings.get(name, {})
    return dict(found) if isinstance(found, Mapping) else {}


def _sections(name: str, value: object) -> dict[str, object]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise EFCError(f"{name}: expected named settings (key: value), got {value!r}")
    return dict(value)


def _list(value: object) -> list[object]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return list(value) if isinstance(value, Sequence) else [value]


def _names(key: str, settings: Mapping[str, object], default: Sequence[str]) -> list[str]:
    """One or several of the names allowed for ``key``, without repetition."""
    names = [choose(key, str(name), _LISTS[key]) for name in _list(settings.get(key, default))]
    if not names:
        raise EFCError(f"{key}: at least one is needed of {', '.join(_LISTS[key])}")
    return list(dict.fromkeys(names))


def _widths(value: object) -> tuple[int, ...]:
    try:
        return tuple(int(str(width)) for width in _list(value))
    except (TypeError, ValueError):
        raise EFCError(f"hidden: expected layer widths such as 100,100, got {value!r}") from None


def _whole(name: str, value: object, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise EFCError(f"{name}: must be a whole number of at least {least}, got {value!r}")
