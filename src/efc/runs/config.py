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
from efc.data import check_name, count_classes, usual_classes
from efc.encoders import check_encoder
from efc.environment import check_device
from efc.errors import EFCError, choose, shown, suggest, visible
from efc.files import Json
from efc.learners import HEADS, LEARNERS, Learner, Options, find_learner
from efc.learners.options import merged
from efc.presets import fitting_preset, training_preset
from efc.runs.settings_file import Plain, load_yaml, named_settings, parse
from efc.runs.trust import NOTHING, Trust
from efc.streams import SCENARIOS, Arrival, tasks_for
from efc.training.evaluation import EVALUATED
from efc.training.loop import BATCH_SIZE, CLASS_WEIGHTS, EPOCHS, HIDDEN

MOST = {
    "image_size": 4096, "tasks": 10_000, "classes_per_task": 10_000, "seeds": 10_000, "epochs": 1_000_000,
    "batch_size": 10_000_000,
}  # fmt: skip
"""What can be asked for at most: beyond lies a slip of the finger, told before anything is allocated."""
LAYERS, WIDTH = 100, 1_000_000


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
    epochs: int = EPOCHS
    batch_size: int = BATCH_SIZE
    hidden: tuple[int, ...] = HIDDEN
    activation: str = "relu"
    class_weight: str = "none"
    device: str = "auto"
    stream: str = "none"
    diagnose: bool = False

    def __post_init__(self) -> None:
        check_name(self.dataset)
        check_encoder(self.encoder)
        choose("activation", self.activation, ACTIVATIONS)
        choose("evaluate", self.evaluate, EVALUATED)
        choose("class_weight", self.class_weight, CLASS_WEIGHTS)
        for name, most in MOST.items():
            _whole(name, getattr(self, name), most=most)
        if len(self.hidden) > LAYERS:
            raise EFCError(f"hidden: at most {LAYERS} layers, got {len(self.hidden)}")
        for width in self.hidden:
            _whole("hidden", width, most=WIDTH)
        if self.order_seed is not None:
            _whole("order_seed", self.order_seed, least=0, most=2**63 - 1)
        if (
            isinstance(self.validation, bool)
            or not isinstance(self.validation, int | float)
            or not 0 <= self.validation < 1
        ):
            raise EFCError(f"validation: must be at least 0 and below 1, got {self.validation!r}")
        self._check_stream()
        check_device(self.device)
        if not isinstance(self.diagnose, bool):
            raise EFCError(f"diagnose: must be true or false, got {shown(self.diagnose)}")
        for name in ("dataset", "encoder", "encoder_weights", "data_dir"):
            _name(name, getattr(self, name))
        if not self.rows:
            raise EFCError("methods: at least one is needed")

    def _check_stream(self) -> None:
        """What has no tasks is learned once, and asked about all classes seen."""
        if self.stream == NO_STREAM:
            return
        Arrival.parse(self.stream)
        wrong = {row.scenario for row in self.rows} - {"class"}
        if wrong:
            raise EFCError(
                f"scenario: a stream without boundaries asks about all classes seen (class), not {wrong.pop()}"
            )
        if self.epochs != 1:
            raise EFCError(f"epochs: a stream without boundaries is gone through once, not {self.epochs} times")
        if self.class_weight != "none":
            raise EFCError(f"class_weight: in a stream every sample counts the same; got {self.class_weight!r}")
        if self.diagnose:
            raise EFCError("diagnose: it looks at tasks, and a stream without boundaries has none")
        for row in self.rows:
            find_learner(row.method).check_streams(row.head)

    def digest(self) -> str:
        """Hexadecimal digits that stand for the settings."""
        return hashlib.sha256(self.to_yaml().encode()).hexdigest()

    def to_yaml(self) -> str:
        """A complete configuration that `efc run --config` takes as it is; what is only asked for at times is only
        said then."""
        plain = {
            item.name: getattr(self, item.name) for item in fields(self) if item.name != "diagnose" or self.diagnose
        }
        plain |= {"rows": [row.to_json() for row in self.rows], "hidden": list(self.hidden)}
        if self.stream == NO_STREAM:
            del plain["stream"]
        return str(yaml.dump(plain, Dumper=Plain, sort_keys=False, default_flow_style=None, width=120))


DEFAULT_METHODS = ("efc", "ewc", "sgd")
STREAM_METHODS = ("efc", "online_ewc", "sgd")
"""Without task boundaries, where `ewc` cannot learn."""
AUTO, NO_STREAM = "auto", "none"
_PLAIN = tuple(f.name for f in fields(RunConfig) if f.name != "rows")
_LISTS = {"scenario": SCENARIOS, "head": HEADS}
_KEYS = (*_PLAIN, *_LISTS, "methods", "solver", "preset_file", "rows", *LEARNERS)


def make_config(*layers: Mapping[str, object], shipped: bool = True, trust: Trust = NOTHING) -> RunConfig:
    """Merge layers of settings, later ones first in rank, over defaults and presets, and check the whole.

    ``shipped=False`` leaves the shipped presets out: a search starts from the methods' defaults.

    Keys are those of :class:`RunConfig`, ``scenario``, ``methods`` and ``head`` (one or several), ``solver`` (for EFC),
    and a section per method, as in ``{"efc": {"beta": 0.1}}``; one's own method's section has its ``name``. ``rows``
    spells the rows out, as a saved one does. Layers may come from files: no code is imported but what ``trust`` allows.
    """
    settings: dict[str, object] = {}
    sections = {*LEARNERS, *(_learner(spec, trust).name for layer in layers for spec in _own_methods(layer))}
    keys = (*_KEYS, *sorted(sections - set(LEARNERS)))
    for layer in layers:
        for key, value in layer.items():
            if key not in keys:
                raise EFCError(f"{key}: no such setting{suggest(key, keys)}; there are {', '.join(keys)}")
            if key in sections:
                settings[key] = merged(_section(settings, key), named_settings(key, value))
            else:
                settings[key] = value
    if "solver" in settings:
        for name, learner in LEARNERS.items():
            if "solver" in learner.options_type.__dataclass_fields__:
                settings[name] = merged(_section(settings, name), {"solver": settings["solver"]})
    dataset = check_name(_name("dataset", settings.get("dataset", "digits")) or "")
    encoder = settings.get("encoder", "none")
    trust.check("encoder", encoder)
    preset = dataset if encoder == "none" else f"{dataset}-{encoder}"
    stream = settings.get("stream", NO_STREAM)
    plain: dict[str, Any] = {"classes_per_task": usual_classes(dataset)}
    if stream == NO_STREAM:
        plain |= training_preset(dataset) | training_preset(preset)
    else:  # what is shipped was chosen for tasks
        plain |= {"epochs": 1, "batch_size": Arrival.parse(str(stream)).batch_size}
        shipped = False
    plain |= {key: settings[key] for key in _PLAIN if key in settings}
    if "hidden" in plain:
        plain["hidden"] = _widths(plain["hidden"])
    rows = _rows(settings, preset if shipped else "", trust)
    plain["tasks"] = _tasks(plain.get("tasks", AUTO), plain["classes_per_task"], dataset, rows)
    return RunConfig(rows=tuple(rows), **plain)


def _tasks(given: object, classes_per_task: object, dataset: str, rows: Sequence[Row]) -> int:
    """The number of tasks; ``auto``: as many as it takes to learn all classes."""
    if given != AUTO:
        if isinstance(given, str) and re.fullmatch(r"\s*\d{1,18}\s*", given):
            given = int(given)
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise EFCError(f"tasks: must be a whole number of at least 1, or auto, got {shown(given)}")
        return given
    if isinstance(classes_per_task, bool) or not isinstance(classes_per_task, int) or classes_per_task < 1:
        raise EFCError(f"classes_per_task: must be a whole number of at least 1, got {shown(classes_per_task)}")
    return min(tasks_for(count_classes(dataset), classes_per_task, row.scenario) for row in rows)


def _learner(method: str, trust: Trust) -> type[Learner]:
    trust.check("methods", method)
    return find_learner(method)


def _rows(settings: Mapping[str, object], preset_name: str, trust: Trust) -> list[Row]:
    if "rows" in settings:
        clash = [key for key in _LISTS if key in settings]
        if clash:
            raise EFCError(f"{clash[0]}: the configuration spells its rows out; drop its `rows` or this setting")
        return [_given_row(index, row, settings, trust) for index, row in enumerate(_list(settings["rows"]))]
    rows = []
    file = settings.get("preset_file")
    own = None if file is None else load_yaml(Path(str(file)), "--preset")
    for scenario in _names("scenario", settings, ("class",)):
        for method in _methods(settings, trust):
            learner = _learner(method, trust)
            usual = learner.shipped_head if settings.get("stream", NO_STREAM) == NO_STREAM else learner.stream_head
            wanted = [h for h in _names("head", settings, (usual,)) if h in learner.heads]
            for head in wanted or [usual]:
                preset = fitting_preset(preset_name, scenario, method, head, own)
                options = learner.options_type.layered(preset, _section(settings, learner.name))
                rows.append(_row(method, head, scenario, options, trust))
    return rows


def _methods(settings: Mapping[str, object], trust: Trust) -> list[str]:
    """The methods asked for, without repetition; ``all`` stands for every method of the package."""
    usual = DEFAULT_METHODS if settings.get("stream", NO_STREAM) == NO_STREAM else STREAM_METHODS
    listed = _list(settings.get("methods", usual))
    if any(isinstance(name, Mapping) for name in listed):
        raise EFCError(f"methods: expected names, got {shown(listed)}")
    given = [str(name) for name in listed]
    names = [each for name in given for each in (LEARNERS if name == "all" else [name])]
    if not names:
        raise EFCError(f"methods: at least one is needed of all, {', '.join(LEARNERS)}, or your own as module:Class")
    for name in names:
        _learner(name, trust)
    return list(dict.fromkeys(names))


def _own_methods(layer: Mapping[str, object]) -> list[str]:
    """Methods a layer names as ``module:Class``."""
    rows = layer.get("rows", [])
    named = [row.get("method") for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
    every = (*_list(layer.get("methods", [])), *named)
    return [name for name in every if isinstance(name, str) and ":" in name]


def _given_row(index: int, row: object, settings: Mapping[str, object], trust: Trust) -> Row:
    """A row of a saved configuration, with the method's section (from ``--set``, say) on top."""
    names = [f.name for f in fields(Row)]
    if not isinstance(row, Mapping) or sorted(row) != sorted(names):
        raise EFCError(f"rows[{index}]: expected the keys {', '.join(names)}, got {shown(row)}")
    options = named_settings(f"rows[{index}].options", row["options"])
    method, learner = str(row["method"]), _learner(str(row["method"]), trust)
    layered = learner.options_type.layered(options, _section(settings, learner.name))
    return _row(method, str(row["head"]), str(row["scenario"]), layered, trust)


def _row(method: str, head: str, scenario: str, options: Mapping[str, object], trust: Trust) -> Row:
    learner = _learner(method, trust)
    trust.check(f"{learner.name}'s options", options)
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


def parse_set(text: str) -> dict[str, object]:
    """``"efc.beta=0.1"`` as ``{"efc": {"beta": 0.1}}``; the value is read as YAML."""
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise EFCError(f"--set: expected KEY=VALUE, such as efc.beta=0.1, got {text!r}")
    try:
        result = parse(value)
    except ValueError as problem:
        told = " ".join(str(problem).split())
        raise EFCError(f"--set: cannot read the value in {shown(text)}: {told}") from None
    first, *inner = path.strip().split(".")
    for key in reversed(inner):
        result = {key: result}
    return {first: result}


def _section(settings: Mapping[str, object], name: str) -> dict[str, object]:
    """A method's section of settings that were checked; empty where there is none."""
    found = settings.get(name, {})
    return dict(found) if isinstance(found, Mapping) else {}


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
        raise EFCError(f"hidden: expected layer widths such as 100,100, got {shown(value)}") from None


def _name(setting: str, value: object) -> str | None:
    """A name of a file or a data set that the store and every log can hold; or None."""
    if value is None or (isinstance(value, str) and visible(value, "") == value):
        return value
    raise EFCError(f"{setting}: expected a name without control characters, in UTF-8, got {shown(value)}")


def _whole(name: str, value: object, least: int = 1, most: int = 2**63 - 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise EFCError(f"{name}: must be a whole number of at least {least}, got {shown(value)}")
    if value > most:
        raise EFCError(f"{name}: must be at most {most:,}, got {shown(value)}")
