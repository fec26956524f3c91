"""What the page is told: the rows of a results document, averaged over seeds and rounded to what can be seen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from efc.environment import code_version
from efc.files import Json
from efc.metrics import Array, true_share
from efc.paper.published import reported
from efc.report.course import Curves, course
from efc.report.diagnosed import confusions, diagnosed, mean, notes, old_tasks
from efc.report.labels import differences, flat, method_label, status, warnings
from efc.report.streamed import streamed
from efc.report.verdict import ranked, verdict
from efc.runs.results import MEASURES, ResultRow, Results

EPOCHS = 100
"""Epochs shown of a training; of a longer one, every second or third."""
Nested: TypeAlias = "float | list[Nested] | None"
"""Numbers in lists, as deep as you like."""


@dataclass
class PageData:
    """What the page is told; it goes into it as JSON."""

    version: str
    command: str
    verdict: list[str]
    """What happened, first of all."""
    notes: list[str]
    environment: dict[str, str]
    common: dict[str, str]
    """The settings that all rows share."""
    rows: list[dict[str, Json]]


def page_data(results: Results, protocol: str = "") -> PageData:
    """The page's data: plain JSON, nothing in it that is not finite. The notes begin with the ``protocol``, if any."""
    rows = ranked(results.rows)
    settings = [flat(row.config) for row in rows]
    environments = [flat(row.environment) for row in rows]
    common, environment = _common(settings), _common(environments)
    return PageData(
        version=code_version(),
        command=results.command,
        verdict=verdict(rows),
        notes=[*([protocol] if protocol else []), *warnings(results)],
        environment=environment,
        common=common,
        rows=[
            _row(row) | {"differs": text, "settings": _rest(own, common), "environment": _rest(where, environment)}
            for row, own, where, text in zip(rows, settings, environments, differences(rows), strict=True)
        ],
    )


def _row(row: ResultRow) -> dict[str, Json]:
    A = np.array(row.accuracy_matrix, dtype=float)
    unsettled = row.unsettled
    seen = np.tril(np.ones(A.shape[1:], dtype=bool))
    streams = streamed(row)
    curves = np.nanmean(A, 2) if streams else np.where(seen, A, 0.0).sum(2) / seen.sum(1)
    theirs = reported(row)
    return {
        "method": method_label(row),
        "head": row.head,
        "dataset": row.dataset if row.encoder == "none" else f"{row.dataset} ({row.encoder})",
        "scenario": row.scenario,
        "part": row.evaluated_on,
        "seeds": row.seeds,
        "runs": row.runs,
        "diverged": row.diverged,
        "status": status(row),
        "tasks": row.tasks,
        **{name: _spread(np.array(row.measures[name].per_seed, dtype=float)) for name in MEASURES},
        "unsettled": None if unsettled is None else _spread(100 * np.array(unsettled.per_seed, dtype=float), 3),
        "seconds": rounded(row.seconds, 2),
        "paper": None if theirs is None else list(theirs),
        "curve": {"mean": rounded(curves.mean(0), 4), "std": rounded(_std(curves), 4), "per_seed": rounded(curves, 4)},
        "matrix": rounded(A.mean(0), 4),
        "matrix_std": rounded(_std(A), 4),
        **_confusion(row),
        "effort": _effort(row),
        "prequential": _prequential(streams),
        "diagnosis": _diagnosis(row),
    }


def _prequential(seeds: Sequence[Mapping[str, Any]]) -> dict[str, Json] | None:
    """How a stream was answered on the way, and what it cost: means over seeds."""
    if not seeds:
        return None
    adapted = [one["mean_adaptation"] for one in seeds if one["mean_adaptation"] is not None]
    return {
        "at": rounded(np.array(seeds[0]["at"], dtype=float), 0),
        "mean": rounded(np.array([one["curve"] for one in seeds], dtype=float).mean(0)),
        "accuracy": rounded(float(np.mean([one["accuracy"] for one in seeds]))),
        "adaptation": rounded(float(np.mean(adapted)), 1) if adapted else None,
        "microseconds": rounded(float(np.mean([one["microseconds"] for one in seeds])), 0),
        "megabytes": rounded(float(np.mean([one["bytes"] for one in seeds])) / 2**20, 1),
    }


def _diagnosis(row: ResultRow) -> dict[str, Json] | None:
    """How good the features are, what the head loses and how far the features drift; None where nobody asked."""
    found = diagnosed(row)
    if found is None:
        return {"notes": notes(row)} if row.diagnosis else None
    heads = {name: _spread(getattr(found, name).mean(1)) for name in ("accuracy", "oracle", "ridge", "lost")}
    tasks = {f"{name}_by_task": rounded(getattr(found, name).mean(0)) for name in ("accuracy", "oracle", "lost")}
    return {
        "notes": notes(row),
        **heads,
        **tasks,
        "reads": found.reads,
        "drift": rounded(mean(found.drift)),
        "unexplained": rounded(found.unexplained),
        "explained": rounded(mean(found.explained)),
        "moved": rounded([old_tasks(found.drift), old_tasks(found.explained)]),
        "confusions": confusions(found),
    }


def _effort(row: ResultRow) -> dict[str, Json] | None:
    """How control went, by layer and epoch, mean and spread over seeds."""
    found = course(row)
    if found is None:
        return None
    whole, found = len(found.at), found.thinned(EPOCHS)
    curves = {name: _brief_curves(getattr(found, name)) for name in ("psi", "gamma", "unsettled")}
    names = {name: getattr(found, name).tolist() for name in ("at", "task", "epoch")}
    return {"epochs": whole, "layers": found.layers, "borders": found.borders, **names, **curves}


def _brief_curves(curves: Curves) -> dict[str, Json]:
    return {"mean": _brief(curves.mean.tolist()), "std": _brief(curves.std.tolist(), 2)}


def _brief(value: Nested, digits: int = 3) -> Json:
    """Numbers of that many significant digits; what is not finite becomes None."""
    if isinstance(value, list):
        return [_brief(entry, digits) for entry in value]
    return rounded(float(f"{value:.{digits}g}"), 12)


def _confusion(row: ResultRow) -> dict[str, Json]:
    """Counts over all seeds by class and by task, the shares of answers, and the names of the outputs."""
    counts = np.array(row.confusion, dtype=float)
    tasks: list[list[str]] = row.tasks
    if row.scenario == "domain":
        # Output k is the k-th class of every task; there is no telling the tasks apart by their outputs.
        names = [" / ".join(dict.fromkeys(task[k] for task in tasks)) for k in range(counts.shape[1])]
        return {"classes": names, "confusion": _whole(counts.sum(0)), "by_task": None, "share": None}
    outputs, at = [], 0
    for task in tasks:
        outputs.append(slice(at, at + len(task)))
        at += len(task)
    by_task = [[counts[:, a, b].sum() for b in outputs] for a in outputs]
    share = None
    if row.prediction_share is not None:
        found = np.array(row.prediction_share, dtype=float)
        true = true_share(counts, outputs).mean(0)
        share = {"mean": rounded(found.mean(0)), "std": rounded(_std(found)), "true": rounded(true)}
    return {
        "classes": [name for task in tasks for name in task],
        "confusion": _whole(counts.sum(0)),
        "by_task": _whole(np.array(by_task)),
        "share": share,
    }


def _whole(counts: Array) -> list[list[int]]:
    return np.rint(counts).astype(int).tolist()  # type: ignore[no-any-return]


def _spread(values: Array, digits: int = 4) -> dict[str, Json]:
    std = _std(values)
    return {
        # The page rounds them once more, as the terminal does: what it rounds must not be rounded already.
        "mean": rounded(values.mean(), 9),
        "std": rounded(std, 9),
        "per_seed": rounded(values, digits),
    }


def _std(values: Array) -> Array:
    """Over seeds, with n - 1 in the denominator; zero for a single one."""
    return np.asarray(values.std(0, ddof=1)) if len(values) > 1 else np.zeros(values.shape[1:])


def rounded(value: Nested | Array, digits: int = 2) -> Json:
    """Plain numbers of that many digits behind the point; what is not finite becomes None."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list):
        return [rounded(entry, digits) for entry in value]
    if value is None or not math.isfinite(value):
        return None
    short = round(float(value), digits)
    return int(short) if short == int(short) else short


def _common(settings: list[dict[str, str]]) -> dict[str, str]:
    """What all rows have, with the same value."""
    first = settings[0] if settings else {}
    return {key: value for key, value in first.items() if all(own.get(key) == value for own in settings)}


def _rest(settings: dict[str, str], without: Iterable[str]) -> dict[str, str]:
    return {key: value for key, value in settings.items() if key not in without}
