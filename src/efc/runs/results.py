"""Records of runs: what a run is given, what comes of it, and the rows of results that tables and pages read.

On disk and on stdout they are JSON; inside the package they are these dataclasses, and everyone reads attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from efc.environment import code_version
from efc.files import Json
from efc.learners import Options, find_learner
from efc.metrics import Array

MEASURES = ("accuracy", "average_incremental", "forgetting", "bwt", "fwt")
"""The measures of a run, as they are called in results; :mod:`efc.metrics` has their equations."""
Matrix = list[list[float | None]]
"""Accuracy on task j (columns) after task i (rows); None for tasks not yet met."""
Environment = Mapping[str, str | int]


@dataclass(frozen=True)
class RunSettings:
    """Everything that determines the result of one run: one method, one setting, one seed."""

    dataset: str
    encoder: str
    tasks: int
    classes_per_task: int
    order_seed: int | None
    validation: float
    evaluate: str
    epochs: int
    batch_size: int
    hidden: tuple[int, ...]
    activation: str
    data: str
    """The checksum of the data: it stands for where and how they were found."""
    method: str
    head: str
    scenario: str
    options: Options
    code: str
    """The version of the code that computes the method."""
    seed: int

    def to_json(self) -> dict[str, Json]:
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        return plain | {"hidden": list(self.hidden), "options": self.options.to_mapping()}


@dataclass(frozen=True)
class Epoch:
    """What control did in one epoch of a task, both counted from 1: means over the samples, norms by layer."""

    task: int
    epoch: int
    psi: list[float | None]
    gamma: list[float | None]
    unsettled: float | None


@dataclass(frozen=True)
class RunResult:
    """What came of one run."""

    metrics: dict[str, float]
    accuracy_matrix: Matrix
    confusion: list[list[int]]
    prediction_share: list[float] | None
    """The share of answers on each task's outputs, per cent; None where all tasks share theirs."""
    unsettled: float | None
    """The share of samples whose equilibrium was not found; None without equilibrium, as is ``trace``."""
    trace: list[Epoch] | None
    diverged: bool
    seconds: float
    tasks: list[list[str]]
    """The names of each task's classes."""
    environment: Environment
    further: dict[str, list[float]] = field(default_factory=dict)
    """What the method reports of itself, by name (``feedback_alignment``); beside the rest in JSON."""

    def to_json(self) -> dict[str, Json]:
        plain: dict[str, Json] = asdict(self)
        del plain["further"]
        return plain | self.further

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunResult:
        known = [item.name for item in fields(cls) if item.name != "further"]
        given = {name: document[name] for name in known if name != "trace"}
        given["trace"] = _epochs(document.get("trace"))  # results of early versions have none
        further = {name: value for name, value in document.items() if name not in known}
        return cls(**given, further=further)


@dataclass(frozen=True)
class Summary:
    """Mean and standard deviation over seeds (n - 1 in the denominator), and the values themselves."""

    mean: float
    std: float
    per_seed: list[float]

    @classmethod
    def of(cls, values: Sequence[float] | Array) -> Summary:
        found = np.asarray(values, dtype=float)
        return cls(float(found.mean()), float(found.std(ddof=1)) if len(found) > 1 else 0.0, found.tolist())


@dataclass(frozen=True)
class ResultRow:
    """Runs that differ in their seed alone: what was run, the measures over seeds, and what each seed did."""

    method: str
    variant: str
    head: str
    dataset: str
    encoder: str
    scenario: str
    seeds: list[int]
    runs: list[str]
    evaluated_on: str
    tasks: list[list[str]]
    measures: dict[str, Summary]
    """By the names of ``MEASURES``; in JSON they stand beside the rest."""
    accuracy_matrix: list[Matrix]
    confusion: list[list[list[int]]]
    prediction_share: list[list[float]] | None
    unsettled: Summary | None
    trace: list[list[Epoch]] | None
    diverged: list[int]
    """The seeds whose weights or answers are no longer finite."""
    seconds: float
    config: Mapping[str, Json]
    """The settings of its runs, as in JSON, without the seed."""
    environment: Environment
    further: dict[str, Json] = field(default_factory=dict)
    """As in :class:`RunResult`, one entry per seed."""

    @property
    def accuracy(self) -> Summary:
        return self.measures["accuracy"]

    @property
    def forgetting(self) -> Summary:
        return self.measures["forgetting"]

    @property
    def options(self) -> Mapping[str, Json]:
        found = self.config["options"]
        assert isinstance(found, Mapping)
        return found

    @classmethod
    def of(cls, settings: Sequence[Mapping[str, Any]], ids: Sequence[str], results: Sequence[RunResult]) -> ResultRow:
        """A row of runs, given as their settings in JSON, which a store may hold of an older version."""
        first, s = results[0], settings[0]
        seeds = [int(own["seed"]) for own in settings]
        options = s["options"]
        shares = [r.prediction_share for r in results if r.prediction_share is not None]
        unsettled = [r.unsettled for r in results if r.unsettled is not None]
        traces = [r.trace for r in results if r.trace is not None]
        return cls(
            method=find_learner(s["method"]).name,
            variant=options.get("variant", options.get("preset", "none")),
            head=s["head"],
            dataset=s["dataset"],
            encoder=s["encoder"],
            scenario=s["scenario"],
            seeds=seeds,
            runs=list(ids),
            evaluated_on=s["evaluate"],
            tasks=first.tasks,
            measures={name: Summary.of([r.metrics[name] for r in results]) for name in first.metrics},
            accuracy_matrix=[r.accuracy_matrix for r in results],
            confusion=[r.confusion for r in results],
            prediction_share=shares or None,
            unsettled=Summary.of(unsettled) if unsettled else None,
            trace=traces or None,
            diverged=[seed for seed, r in zip(seeds, results, strict=True) if r.diverged],
            seconds=sum(r.seconds for r in results),
            config={key: value for key, value in s.items() if key != "seed"},
            environment=first.environment,
            further={name: [r.further[name] for r in results] for name in first.further},
        )

    def to_json(self) -> dict[str, Json]:
        plain: dict[str, Json] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in ("measures", "further"):
                plain |= {name: asdict(each) if isinstance(each, Summary) else each for name, each in value.items()}
            elif item.name == "unsettled":
                plain["unsettled"] = None if value is None else asdict(value)
            elif item.name == "trace":
                plain["trace"] = None if value is None else [[asdict(epoch) for epoch in run] for run in value]
            else:
                plain[item.name] = value
        return plain

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ResultRow:
        own = [item.name for item in fields(cls) if item.name not in ("measures", "further")]
        given = {name: document[name] for name in own if name != "trace"}
        measures = {name: Summary(**document[name]) for name in MEASURES}
        given["unsettled"] = None if document["unsettled"] is None else Summary(**document["unsettled"])
        traces = document.get("trace")
        found = None if traces is None else [_epochs(trace) or [] for trace in traces]
        further = {name: value for name, value in document.items() if name not in own and name not in MEASURES}
        return cls(**given, measures=measures, trace=found, further=further)


@dataclass(frozen=True)
class Results:
    """All rows, with the command that gives them again: what `results.json` holds."""

    rows: list[ResultRow]
    command: str = ""

    @property
    def environment(self) -> Environment:
        return self.rows[0].environment if self.rows else {"efc": code_version()}

    def to_json(self) -> dict[str, Json]:
        rows = [row.to_json() for row in self.rows]
        return {"rows": rows, "environment": self.environment, "command": self.command}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Results:
        return cls([ResultRow.from_json(row) for row in document["rows"]], str(document.get("command", "")))


def _epochs(trace: Sequence[Mapping[str, Any]] | None) -> list[Epoch] | None:
    return None if trace is None else [Epoch(**entry) for entry in trace]
