"""Records of runs: what a run is given, what comes of it, and the rows of results that tables and pages read.

On disk and on stdout they are JSON; inside the package they are these dataclasses, and everyone reads attributes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from efc.environment import code_version
from efc.files import Json, finite
from efc.learners import Options
from efc.metrics import Array
from efc.runs.diagnosed import read_diagnosis, read_finding, read_further
from efc.runs.reading import counts, flag, listed, mapping, matrix, maybe, number, numbers, over_samples, text, whole
from efc.training.diagnosis import DIVERGED, Finding, summary
from efc.training.examination import Diagnosis

MEASURES = ("accuracy", "sample_accuracy", "average_incremental", "forgetting", "bwt", "fwt")
"""The measures of a run, as they are called in results; ``efc.metrics`` has their equations."""
Matrix = list[list[float | None]]
"""Accuracy on task j (columns) after task i (rows); None for tasks not yet met."""
LEAST = dict.fromkeys(MEASURES, -100.0) | {"accuracy": 0.0, "sample_accuracy": 0.0, "average_incremental": 0.0}
"""The least that a measure can be, per cent or points; the most is 100."""
Environment = Mapping[str, str | int]
TELLING = ("torch", "device", "python")
"""What of an environment may change a number; seeds that differ in it are told apart."""
DONE, SPLIT, FAILED = "done", "diverged", "failed"
"""How a run may have ended: with numbers, with weights or answers that are not finite, or with an error."""


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
    class_weight: str
    data: str
    """The checksum of the data: it stands for where and how they were found."""
    method: str
    head: str
    scenario: str
    options: Options
    code: str
    """The version of the code that computes the method."""
    seed: int
    diagnose: bool = False
    """Whether features and head are looked at when it has been trained; named only if so."""
    stream: str = "none"
    """How samples arrive where there are no tasks; named only if so."""

    def to_json(self) -> dict[str, Json]:
        usual = {"diagnose": False, "stream": "none"}
        every = {item.name: getattr(self, item.name) for item in fields(self)}
        plain = {name: value for name, value in every.items() if name not in usual or value != usual[name]}
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
    warnings: list[Finding] = field(default_factory=list)
    """What looks wrong with it."""
    method: str = ""
    """What the method calls itself. Who looks at results does not import it to ask; early versions do not say."""
    further: dict[str, Json] = field(default_factory=dict)
    """What the method reports of itself, by name (``feedback_alignment``); beside the rest in JSON."""
    diagnosis: Diagnosis | None = None

    @property
    def status(self) -> str:
        return SPLIT if self.diverged else DONE

    def to_json(self) -> dict[str, Json]:
        """Plain JSON: what is not finite is null in it."""
        plain: dict[str, Json] = asdict(self)
        del plain["further"]
        return {name: finite(value) for name, value in (plain | self.further).items()}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> RunResult:
        """Raises ``ValueError`` or ``KeyError`` for what cannot be the result of a run."""
        known = [item.name for item in fields(cls) if item.name != "further"]
        tasks = listed(document["tasks"], lambda task: listed(task, text))
        told = [DIVERGED] if document["diverged"] else []
        confusion = counts(document["confusion"])
        measures = {"sample_accuracy": over_samples(confusion), **mapping(document["metrics"])}
        if not measures.keys() >= set(MEASURES):
            raise ValueError(f"expected the measures {', '.join(MEASURES)}")
        return cls(
            metrics={name: number(value, LEAST.get(name, -math.inf), 100.0) for name, value in measures.items()},
            accuracy_matrix=matrix(document["accuracy_matrix"], len(tasks), 0.0, 100.0),
            confusion=confusion,
            prediction_share=maybe(document["prediction_share"], numbers),
            unsettled=maybe(document["unsettled"], lambda share: number(share, 0.0, 1.0)),
            trace=_epochs(document.get("trace")),  # results of early versions have none
            diverged=flag(document["diverged"]),
            seconds=number(document["seconds"], 0.0),
            tasks=tasks,
            environment=_environment(document["environment"]),
            warnings=listed(document["warnings"], read_finding) if "warnings" in document else told,
            method=text(document.get("method", "")),
            further=read_further({name: value for name, value in document.items() if name not in known}),
            diagnosis=maybe(document.get("diagnosis"), read_diagnosis),
        )


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

    @classmethod
    def from_json(cls, value: object, seeds: int, low: float, high: float) -> Summary:
        document = mapping(value)
        each = numbers(document["per_seed"], low, high)
        if len(each) != seeds:
            raise ValueError(f"expected a value for each of {seeds} seeds, got {len(each)}")
        return cls(number(document["mean"], low, high), number(document["std"], 0.0, high - low), each)


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
    """That of its first run."""
    environments: list[Mapping[str, Json]] = field(default_factory=list)
    """Where its runs were computed, if in places that may give other numbers: torch, device, Python, and the seeds."""
    failed: list[int] = field(default_factory=list)
    """Seeds that were asked for and ended in an error; the others are in ``seeds``."""
    warnings: list[str] = field(default_factory=list)
    """What looks wrong with its runs, a sentence for each kind."""
    further: dict[str, Json] = field(default_factory=dict)
    """As in :class:`RunResult`, one entry per seed."""
    diagnosis: list[Diagnosis] | None = None
    """One per seed, if asked for."""

    @property
    def status(self) -> list[str]:
        """How each of its runs ended."""
        return [SPLIT if seed in self.diverged else DONE for seed in self.seeds]

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
    def of(
        cls,
        settings: Sequence[Mapping[str, Any]],
        ids: Sequence[str],
        results: Sequence[RunResult],
        failed: Sequence[int] = (),
    ) -> ResultRow:
        """A row of runs, given as their settings in JSON, which a store may hold of an older version."""
        first, s = results[0], settings[0]
        seeds = [int(own["seed"]) for own in settings]
        options = s["options"]
        shares = [r.prediction_share for r in results if r.prediction_share is not None]
        unsettled = [r.unsettled for r in results if r.unsettled is not None]
        traces = [r.trace for r in results if r.trace is not None]
        diagnoses = [r.diagnosis for r in results if r.diagnosis is not None]
        return cls(
            method=first.method or _label(s["method"]),
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
            environments=_environments(seeds, results),
            failed=list(failed),
            warnings=summary([r.warnings for r in results]),
            further={name: [r.further.get(name) for r in results] for name in first.further},
            diagnosis=diagnoses or None,
        )

    def to_json(self) -> dict[str, Json]:
        plain: dict[str, Json] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in ("measures", "further"):
                plain |= {name: asdict(each) if isinstance(each, Summary) else each for name, each in value.items()}
            elif item.name == "trace":
                plain["trace"] = None if value is None else [[asdict(epoch) for epoch in run] for run in value]
            elif item.name == "diagnosis":
                plain["diagnosis"] = None if value is None else [asdict(one) for one in value]
            else:
                plain[item.name] = asdict(value) if isinstance(value, Summary) else value
        return plain | {"status": self.status}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ResultRow:
        """Raises ``ValueError`` or ``KeyError`` for what cannot be a row."""
        own = [item.name for item in fields(cls) if item.name not in ("measures", "further")]
        seeds, tasks = listed(document["seeds"], whole), listed(document["tasks"], lambda task: listed(task, text))
        if not seeds or not tasks:
            raise ValueError("a row has no seeds or no tasks")

        def each(value: object) -> list[object]:
            found = listed(value, lambda entry: entry)
            if len(found) != len(seeds):
                raise ValueError(f"expected an entry for each of {len(seeds)} seeds, got {len(found)}")
            return found

        mapping(mapping(document["config"])["options"])
        names = ("method", "variant", "head", "dataset", "encoder", "scenario", "evaluated_on")
        shares, traces = document["prediction_share"], document.get("trace")
        told = [DIVERGED.text] if document["diverged"] else []
        confusion = listed(each(document["confusion"]), counts)
        early = {"sample_accuracy": asdict(Summary.of([*map(over_samples, confusion)]))}
        measures = {m: Summary.from_json({**early, **document}[m], len(seeds), LEAST[m], 100.0) for m in MEASURES}
        return cls(
            **{name: text(document[name]) for name in names},
            seeds=seeds,
            runs=listed(each(document["runs"]), text),
            tasks=tasks,
            measures=measures,
            accuracy_matrix=[matrix(one, len(tasks), 0.0, 100.0) for one in each(document["accuracy_matrix"])],
            confusion=confusion,
            prediction_share=maybe(shares, lambda value: listed(value, numbers)),
            unsettled=maybe(document["unsettled"], lambda value: Summary.from_json(value, len(seeds), 0.0, 1.0)),
            trace=maybe(traces, lambda value: [_epochs(trace) or [] for trace in listed(value, lambda one: one)]),
            diverged=listed(document["diverged"], whole),
            seconds=number(document["seconds"], 0.0),
            config=document["config"],
            environment=_environment(document["environment"]),
            environments=listed(document.get("environments", []), lambda one: dict(document_of(one))),
            failed=listed(document.get("failed", []), whole),
            warnings=listed(document.get("warnings", told), text),
            further=read_further(
                {k: v for k, v in document.items() if k not in own and k not in MEASURES and k != "status"}, len(seeds)
            ),
            diagnosis=maybe(document.get("diagnosis"), lambda found: listed(found, read_diagnosis)),
        )


@dataclass(frozen=True)
class Failure:
    """A run that ended in an error."""

    run: str
    dataset: str
    scenario: str
    method: str
    head: str
    seed: int
    message: str
    """One sentence."""


@dataclass(frozen=True)
class Results:
    """All rows, with the command that gives them again: what `results.json` holds."""

    rows: list[ResultRow]
    command: str = ""
    failed: list[Failure] = field(default_factory=list)
    """Runs that were asked for and ended in an error."""

    @property
    def environment(self) -> Environment:
        return self.rows[0].environment if self.rows else {"efc": code_version()}

    def to_json(self) -> dict[str, Json]:
        rows = [row.to_json() for row in self.rows]
        failed: list[Json] = [asdict(failure) for failure in self.failed]
        return {"rows": rows, "environment": self.environment, "command": self.command, "failed": failed}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Results:
        failed = listed(document.get("failed", []), lambda one: Failure(**document_of(one)))
        rows = listed(document["rows"], lambda row: ResultRow.from_json(mapping(row)))
        return cls(rows, text(document.get("command", "")), failed)


def _label(method: str) -> str:
    """What a method is usually called: the class's name in small letters where it is someone's own."""
    return str(method).rpartition(":")[2].lower() if ":" in str(method) else str(method)


def document_of(value: object) -> dict[str, Any]:
    return dict(mapping(value))


def _epochs(trace: object) -> list[Epoch] | None:
    return maybe(trace, lambda value: listed(value, _epoch))


def _epoch(value: object) -> Epoch:
    entry = mapping(value)

    def norms(name: str) -> list[float | None]:
        return listed(entry[name], lambda norm: maybe(norm, number))

    unsettled = maybe(entry["unsettled"], lambda share: number(share, 0.0, 1.0))
    return Epoch(whole(entry["task"]), whole(entry["epoch"]), norms("psi"), norms("gamma"), unsettled)


def _environment(value: object) -> Environment:
    found = mapping(value)
    return {name: v if isinstance(v, int) else text(v) for name, v in found.items()}


def _environments(seeds: Sequence[int], results: Sequence[RunResult]) -> list[Mapping[str, Json]]:
    """Which seeds were computed where; empty where it was all the same."""
    found: dict[tuple[Json, ...], list[int]] = {}
    for seed, result in zip(seeds, results, strict=True):
        found.setdefault(tuple(result.environment.get(name) for name in TELLING), []).append(seed)
    if len(found) < 2:
        return []
    return [dict(zip(TELLING, key, strict=True)) | {"seeds": own} for key, own in found.items()]
