"""Hyper-parameters of a learner as a dataclass that checks itself: names, kinds, ranges, one sentence per mistake."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, ClassVar, Self

import numpy as np

from efc.core.axis import PerRun
from efc.errors import EFCError, choose, suggest
from efc.plugins import name_of


def number(
    default: float,
    low: float = 0.0,
    inclusive: bool = False,
    high: float = float("inf"),
    search: tuple[float, float] | None = None,
    doc: str = "",
    per_run: bool = True,
    whole: bool = False,
) -> Any:
    """A number, or one per run, above ``low`` (or equal to it, if ``inclusive``) and at most ``high``.

    ``search`` is the range a search for good values covers, evenly in the logarithm; ``per_run`` says whether runs that
    are trained side by side may differ in it; ``whole``, that it is one whole number for all of them.
    """
    rule = {"low": low, "inclusive": inclusive, "high": high, "search": search, "doc": doc, "per_run": per_run}
    return field(default=default, metadata=rule | {"whole": whole})


def learning_rate(default: float) -> Any:
    """The learning rate, searched for in the same range for every method."""
    return number(default, search=(1e-6, 1e-2), doc="learning rate at a task's start; falls to zero along a cosine")


def choice(default: str, options: Sequence[str], search: Sequence[str] | None = None, doc: str = "") -> Any:
    """One of a few names; ``search`` are those a search tries."""
    return field(default=default, metadata={"choices": tuple(options), "search": search, "doc": doc})


def mapping(doc: str = "") -> Any:
    """Named options handed on to something else, which checks them."""
    return field(default_factory=dict, metadata={"mapping": True, "doc": doc})


def function_or(default: str, options: Sequence[str], doc: str = "") -> Any:
    """One of a few names, or a function (in files and on the command line: ``module:name``)."""
    return field(default=default, metadata={"choices": tuple(options), "function": True, "doc": doc})


@dataclass(frozen=True)
class Options:
    """What every learner has. Numbers may be given once or once per run.

    A subclass may name variants in ``presets`` and have a field ``preset``: the variant's values then stand in for
    options that are not given (or, in the constructor, that have their default value).
    """

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    lr: PerRun = learning_rate(1e-3)
    optimiser: str = choice("adam", ("adam", "sgd"), doc="adam, or sgd with momentum 0.9")
    step: str = choice(
        "plain", ("plain", "natural"), doc="natural: steps avoid the directions in which old tasks were active"
    )
    mu: PerRun = number(100.0, low=1e-9, doc="activity from which a natural step avoids a direction: mu (mu I + A)^-1")
    moments: str = choice(
        "relative", ("relative", "plain"), doc="relative: busy layers are pulled per hundred of their inputs' rates"
    )
    rank: int = number(
        0,
        inclusive=True,
        per_run=False,
        whole=True,
        doc="leading directions of a layer's activity that are remembered; 0: all",
    )
    ridge: PerRun = number(1e-4, doc="ridge of the least-squares head, per sample")
    drift_ridge: PerRun = number(1e-3, doc="ridge of the features' drift, per sample (compensated heads)")

    def __post_init__(self) -> None:
        for item in fields(self):
            _check(item.name, getattr(self, item.name), item.metadata)
        for name, value in self.presets.get(getattr(self, "preset", "none"), {}).items():
            if _plain(getattr(self, name)) == self.__dataclass_fields__[name].default:
                object.__setattr__(self, name, value)

    @property
    def pulls(self) -> bool:
        """Whether weights are pulled by what is remembered of old activity, in any run."""
        return bool(np.any(np.asarray(_plain(getattr(self, "pull", 0.0))) > 0))

    @property
    def remembers(self) -> bool:
        """Whether the moments of old activity are kept: for a pull, or for natural steps."""
        return self.pulls or self.step == "natural"

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Build from a mapping; a key that does not exist is refused, with the nearest one that does."""
        known = [f.name for f in fields(cls)]
        given = {("lam" if key == "lambda" else key): value for key, value in values.items()}
        for key in given:
            if key not in known:
                raise EFCError(f"{key}: no such option{suggest(key, known)}; there are {', '.join(known)}")
        if "preset" not in given:
            return cls(**given)
        preset = choose("preset", str(given["preset"]), ("none", *cls.presets))
        made = cls(**{**cls.presets.get(preset, {}), **given, "preset": "none"})
        object.__setattr__(made, "preset", preset)
        return made

    @classmethod
    def space(cls) -> dict[str, Sequence[float] | Sequence[str]]:
        """What a search varies: (low, high) of a number, the names of a choice."""
        searched = {item.name: item.metadata.get("search") for item in fields(cls)}
        return {name: values for name, values in searched.items() if values}

    @classmethod
    def per_run(cls) -> frozenset[str]:
        """The options in which runs trained side by side may differ."""
        return frozenset(item.name for item in fields(cls) if item.metadata.get("per_run"))

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, fit for YAML and JSON."""
        return {key: _plain(value) for key, value in asdict(self).items()}


def _check(name: str, value: Any, rule: Mapping[str, Any]) -> None:
    if "choices" in rule:
        if "function" in rule and (callable(value) or (isinstance(value, str) and ":" in value)):
            return
        if not isinstance(value, str):
            raise EFCError(f"{name}: expected one of {', '.join(rule['choices'])}, got {value!r}")
        choose(name, value, rule["choices"])
    elif "low" in rule:
        _check_numbers(name, value, rule)
    elif "mapping" in rule and not isinstance(value, Mapping):
        raise EFCError(f"{name}: expected named values, got {value!r}")


def _check_numbers(name: str, value: Any, rule: Mapping[str, Any]) -> None:
    low, high = rule["low"], rule["high"]
    if isinstance(value, str):
        raise EFCError(f"{name}: expected a number, got {value!r}")
    entries = _plain(value)
    for entry in entries if isinstance(entries, list) else [entries]:
        if isinstance(entry, bool) or not isinstance(entry, int | float):
            raise EFCError(f"{name}: expected a number or one per run, got {entry!r}")
        if rule.get("whole") and (isinstance(entries, list) or not math.isfinite(entry) or entry != int(entry)):
            raise EFCError(f"{name}: must be a whole number, got {entries!r}")
        if not (entry > low or (rule["inclusive"] and entry == low)) or entry > high:
            bound = f"{'at least' if rule['inclusive'] else 'above'} {low:g}"
            bound += f" and at most {high:g}" if high != float("inf") else ""
            raise EFCError(f"{name}: must be {bound}, got {entry:g}")


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if callable(value):
        return name_of(value)
    return list(value) if isinstance(value, tuple) else value
