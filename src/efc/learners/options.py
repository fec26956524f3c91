"""Hyper-parameters of a learner as a dataclass that checks itself: names, kinds, ranges, one sentence per mistake."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from efc.core.axis import PerRun
from efc.core.network import INITIAL
from efc.errors import EFCError, choose, shown, suggest
from efc.plugins import name_of

Values = Mapping[str, Any]
"""Named values as files and users give them: checked by who takes them."""
Number = TypeVar("Number", bound=float)
SCHEDULES = ("cosine", "constant")
"""How the learning rate goes over a task."""
ALIASES = {"lambda": "lam", "preset": "variant"}
"""Other keys that are read: the paper's name for what is a word of Python, and the old name of ``variant``."""


@dataclass(frozen=True)
class Rule:
    """What an option may be, and what may be done with it."""

    doc: str = ""
    search: Sequence[float] | Sequence[str] | None = None
    per_run: bool = False
    changeable: bool = False

    def check(self, name: str, value: object) -> None:
        """Refuse a value that is not allowed."""


@dataclass(frozen=True)
class NumberRule(Rule):
    """A number, or one per run, in a range."""

    low: float = 0.0
    inclusive: bool = False
    high: float = math.inf
    whole: bool = False

    def check(self, name: str, value: object) -> None:
        if isinstance(value, str):
            raise EFCError(f"{name}: expected a number, got {value!r}")
        entries = _plain(value)
        for entry in entries if isinstance(entries, list) else [entries]:
            if isinstance(entry, bool) or not isinstance(entry, int | float):
                raise EFCError(f"{name}: expected a number or one per run, got {entry!r}")
            if isinstance(entry, int) and abs(entry) >= 2**63:
                raise EFCError(f"{name}: the number is too large: {shown(entry)}")
            if self.whole and (isinstance(entries, list) or not math.isfinite(entry) or entry != int(entry)):
                raise EFCError(f"{name}: must be a whole number, got {entries!r}")
            if not (entry > self.low or (self.inclusive and entry == self.low)) or entry > self.high:
                bound = f"{'at least' if self.inclusive else 'above'} {self.low:g}"
                bound += f" and at most {self.high:g}" if self.high != math.inf else ""
                raise EFCError(f"{name}: must be {bound}, got {entry:g}")


@dataclass(frozen=True)
class ChoiceRule(Rule):
    """One of a few names, or, where that is allowed, a function."""

    choices: tuple[str, ...] = ()
    function: bool = False

    def check(self, name: str, value: object) -> None:
        if self.function and (callable(value) or (isinstance(value, str) and ":" in value)):
            return
        if not isinstance(value, str):
            raise EFCError(f"{name}: expected one of {', '.join(self.choices)}, got {value!r}")
        choose(name, value, self.choices)


@dataclass(frozen=True)
class MappingRule(Rule):
    """Named options of something else."""

    def check(self, name: str, value: object) -> None:
        if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
            raise EFCError(f"{name}: expected named values, got {shown(value)}")


def number(
    default: Number,
    low: float = 0.0,
    inclusive: bool = False,
    high: float = math.inf,
    search: tuple[float, float] | None = None,
    doc: str = "",
    per_run: bool = True,
    whole: bool = False,
    changeable: bool = False,
) -> Number:
    """A number, or one per run.

    Args:
        default: its value if none is given.
        low: it must be above this,
        inclusive: or may be equal to it.
        high: the most it may be.
        search: the range a search for good values covers, evenly in the logarithm.
        doc: what it is, in a few words.
        per_run: whether runs that are trained side by side may differ in it.
        whole: whether it is one whole number for all of them.
        changeable: whether it may be changed between two tasks, because nothing that is kept depends on it.
    """
    rule = NumberRule(doc, search, per_run, changeable, low, inclusive, high, whole)
    return field(default=default, metadata={"rule": rule})


def learning_rate(default: float) -> float:
    """The learning rate, searched for in the same range for every method."""
    doc = "learning rate at a task's start"
    return number(default, search=(1e-6, 1e-2), doc=doc, changeable=True)


def choice(default: str, options: Sequence[str], search: Sequence[str] | None = None, doc: str = "") -> str:
    """One of a few names; ``search`` are those a search tries."""
    return field(default=default, metadata={"rule": ChoiceRule(doc, search, choices=tuple(options))})


def mapping(doc: str = "") -> Values:
    """Named options handed on to something else, which checks them."""
    return field(default_factory=dict, metadata={"rule": MappingRule(doc)})


def function_or(default: str, options: Sequence[str], doc: str = "") -> str:
    """One of a few names, or a function (in files and on the command line: ``module:name``)."""
    return field(default=default, metadata={"rule": ChoiceRule(doc, choices=tuple(options), function=True)})


@dataclass(frozen=True)
class Options:
    """What every learner has. Numbers may be given once or once per run.

    The defaults are one setting for data of any kind, the same for every method and for everyone who makes a learner:
    `efc run`, the classifiers, or a program of one's own.

    A subclass may name variants in ``variants`` and have a field ``variant``: the named variant's values then stand in
    for the options that are not given. What is given counts, also where it is equal to the default; so a complete set
    of options (one that was saved, or that ``dataclasses.replace`` has changed) stays as it is, whatever its variant.

    Args:
        lr: the learning rate at a task's start.
        schedule: ``cosine``: it falls to zero over the task along a cosine; or ``constant``.
        optimiser: ``adam``, or ``sgd``.
        momentum: of ``sgd``.
        initial: ``he``: weights of deviation ``sqrt(2/d)``, the head's ``1/sqrt(d)``, no biases; ``uniform_biases``:
            the head's weights like the others', biases uniform in ``+- 1/sqrt(d)``.
        inputs: ``standardised``: by a running mean and deviation, which what is kept follows; ``raw``; or ``scaled``:
            ``(x - input_mean) / input_deviation``, two constants.
        input_mean: of ``scaled`` inputs.
        input_deviation: of ``scaled`` inputs.
        step: ``plain``, or ``natural``: steps avoid the directions in which old tasks were active.
        mu: the activity from which a natural step avoids a direction.
        moments: ``relative``: busy layers are pulled per hundred of their inputs' rates; ``plain``: as they are.
        rank: leading directions of a layer's activity that are remembered; 0: all.
        first_head: ``set``: the ``zero`` and ``least_squares`` heads set the first task's rows like all others; or
            ``drawn``: those stay as they were drawn.
        head_scale: factor of the rows that the ``least_squares`` head sets.
        ridge: of the heads that are solved for, per sample; 0: by generalised cross-validation where the moments of all
            tasks are kept, 1e-4 in the ``least_squares`` head.
        drift: ``checked``: the features that a task has trained are kept only if the head errs less with them on
            samples that were held out (compensated heads); or ``trusted``: always.
        readout: how the heads that keep moments are solved for when a task has ended: ``discriminant``: Gaussian
            classes that share a covariance; ``regression``: ridge regression on zeros and ones.
        skip: ``on``: the head reads the inputs beside the features (``input_compensated``); or ``off``.
        drift_ridge: of the features' drift, per sample (compensated heads).
    """

    variants: ClassVar[Mapping[str, Values]] = {}

    lr: PerRun = learning_rate(1e-3)
    schedule: str = choice("cosine", SCHEDULES, doc="cosine: the rate falls to zero over a task; or constant")
    optimiser: str = choice("adam", ("adam", "sgd"), doc="adam, or sgd with momentum")
    momentum: float = number(0.9, inclusive=True, high=0.9999, per_run=False, doc="momentum of sgd; adam has its own")
    initial: str = choice(
        "he", INITIAL, doc="he: no biases, head weights 1/sqrt(d); uniform_biases: +- 1/sqrt(d), head sqrt(2/d)"
    )
    inputs: str = choice(
        "standardised",
        ("standardised", "raw", "scaled"),
        doc="standardised: by a running mean and deviation; scaled: by two constants",
    )
    input_mean: float = number(0.0, low=-math.inf, per_run=False, doc="what is subtracted from scaled inputs")
    input_deviation: float = number(1.0, per_run=False, doc="what scaled inputs are divided by")
    step: str = choice(
        "plain", ("plain", "natural"), doc="natural: steps avoid the directions in which old tasks were active"
    )
    mu: PerRun = number(
        100.0,
        low=1e-9,
        doc="activity from which a natural step avoids a direction: mu (mu I + A)^-1",
        changeable=True,
    )
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
    first_head: str = choice(
        "set", ("set", "drawn"), doc="drawn: the first task's rows stay random (least_squares, zero)"
    )
    head_scale: PerRun = number(1.0, doc="factor of the rows that the least_squares head sets")
    ridge: PerRun = number(0.0, inclusive=True, doc="ridge of the heads that are solved for, per sample; 0: chosen")
    drift: str = choice(
        "checked",
        ("checked", "trusted"),
        doc="checked: a task's features are kept if held-out samples vouch for them",
    )
    readout: str = choice(
        "discriminant",
        ("discriminant", "regression"),
        doc="how heads that keep moments are solved for: as Gaussian classes, or by ridge regression",
    )
    skip: str = choice("on", ("on", "off"), doc="on: the head reads the inputs, too (input_compensated)")
    drift_ridge: PerRun = number(1e-3, doc="ridge of the features' drift, per sample (compensated heads)")

    def __new__(cls, *args: object, **given: object) -> Self:
        """Note which options are given: the dataclass's own ``__init__`` no longer knows."""
        made = super().__new__(cls)
        if args or given:  # a copy is made without any
            in_order = zip(fields(cls), args, strict=False)
            made.__dict__["_given"] = {*(item.name for item, _ in in_order), *given}
        return made

    def __post_init__(self) -> None:
        given, variant = self.__dict__.pop("_given", ()), getattr(self, "variant", "none")
        for name, value in self.variants.get(str(variant), {}).items():
            if name not in given:
                object.__setattr__(self, name, value)
        for item in fields(self):
            rule = _rule(item)
            if isinstance(getattr(self, item.name), bool) and isinstance(rule, ChoiceRule) and "on" in rule.choices:
                # YAML reads on and off as true and false
                object.__setattr__(self, item.name, "on" if getattr(self, item.name) else "off")
            if rule is not None:
                rule.check(item.name, getattr(self, item.name))

    @property
    def pulls(self) -> bool:
        """Whether weights are pulled by what is remembered of old activity, in any run."""
        return bool(np.any(np.asarray(_plain(getattr(self, "pull", 0.0))) > 0))

    @property
    def remembers(self) -> bool:
        """Whether the moments of old activity are kept: for a pull, or for natural steps."""
        return self.pulls or self.step == "natural"

    @classmethod
    def from_mapping(cls, values: Values) -> Self:
        """Build from a mapping; a key that does not exist is refused, with the nearest one that does."""
        known, given = [f.name for f in fields(cls)], cls.named(values)
        for key in given:
            if key not in known:
                raise EFCError(f"{key}: no such option{suggest(key, known)}; there are {', '.join(known)}")
        return cls(**given)

    @classmethod
    def layered(cls, base: Values, section: Values) -> dict[str, Any]:
        """``base``, under the variant that ``section`` names, under ``section``: for :meth:`from_mapping`."""
        top = cls.named(section)
        return merged(merged(cls.named(base), cls.variants.get(str(top.get("variant")), {})), top)

    @classmethod
    def together(cls, each: Sequence[Options]) -> Self:
        """The options of runs side by side: one value where all agree, one per run where they differ.

        Each has its variant behind it; none is looked at again.
        """
        found: dict[str, Any] = {}
        for item in fields(cls):
            values = [getattr(options, item.name) for options in each]
            found[item.name] = values[0] if _agree(values) else values
        return cls(**found)

    @classmethod
    def named(cls, values: Values) -> dict[str, Any]:
        """The same under the options' present names."""
        known = cls.__dataclass_fields__
        return {(ALIASES[key] if ALIASES.get(key) in known else key): value for key, value in values.items()}

    @classmethod
    def space(cls) -> dict[str, Sequence[float] | Sequence[str]]:
        """What a search varies: (low, high) of a number, the names of a choice."""
        searched = {name: rule.search for name, rule in cls._rules().items()}
        return {name: values for name, values in searched.items() if values}

    @classmethod
    def per_run(cls) -> frozenset[str]:
        """The options in which runs trained side by side may differ."""
        return frozenset(name for name, rule in cls._rules().items() if rule.per_run)

    @classmethod
    def changeable(cls) -> frozenset[str]:
        """The options that may be changed between two tasks: nothing that is kept depends on them."""
        return frozenset(name for name, rule in cls._rules().items() if rule.changeable)

    @classmethod
    def _rules(cls) -> dict[str, Rule]:
        return {item.name: rule for item in fields(cls) if (rule := _rule(item)) is not None}

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, fit for YAML and JSON."""
        return {key: _plain(value) for key, value in asdict(self).items()}


def merged(base: Values, top: Values) -> dict[str, Any]:
    """``top`` over ``base``, mappings inside merged likewise."""
    found = dict(base)
    for key, value in top.items():
        old = found.get(key)
        found[key] = merged(old, value) if isinstance(value, Mapping) and isinstance(old, Mapping) else value
    return found


def _rule(item: Field[Any]) -> Rule | None:
    rule = item.metadata.get("rule")
    return rule if isinstance(rule, Rule) else None


def _agree(values: Sequence[object]) -> bool:
    plain = [value if callable(value) else _plain(value) for value in values]
    return all(value == plain[0] for value in plain)


def _plain(value: object) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if callable(value):
        return name_of(value)
    return list(value) if isinstance(value, tuple) else value
