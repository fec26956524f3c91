"""Results for people and programs: runs that differ in their seed alone become one row, mean and spread over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from efc.environment import code_version
from efc.learners import find_learner
from efc.metrics import Array
from efc.runs.identity import Run


def row_document(runs: Sequence[Run], results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One row: what was run, the measures over seeds, and what each seed did."""
    settings = runs[0].settings
    options = settings["options"]
    first = results[0]
    unsettled = [result["unsettled"] for result in results]
    document = {
        "method": find_learner(settings["method"]).name,
        "variant": options.get("variant", options.get("preset", "none")),  # its old name
        "head": settings["head"],
        "dataset": settings["dataset"],
        "encoder": settings["encoder"],
        "scenario": settings["scenario"],
        "seeds": [run.seed for run in runs],
        "runs": [run.id for run in runs],
        "evaluated_on": settings["evaluate"],
        "tasks": first["tasks"],
        **{name: summary(np.array([result["metrics"][name] for result in results])) for name in first["metrics"]},
        "accuracy_matrix": [result["accuracy_matrix"] for result in results],
        "confusion": [result["confusion"] for result in results],
        "prediction_share": _each(results, "prediction_share"),
        "unsettled": None if unsettled[0] is None else summary(np.array(unsettled)),
        "trace": _each(results, "trace"),
        "diverged": [run.seed for run, result in zip(runs, results, strict=True) if result["diverged"]],
        "seconds": sum(result["seconds"] for result in results),
        "config": {key: value for key, value in settings.items() if key != "seed"},
        "environment": first["environment"],
    }
    alignment = _each(results, "feedback_alignment")
    return document if alignment is None else document | {"feedback_alignment": alignment}


def results_document(rows: list[dict[str, Any]], command: str) -> dict[str, Any]:
    """All rows, with the command that gives them again."""
    environment = rows[0]["environment"] if rows else {"efc": code_version()}
    return {"rows": rows, "environment": environment, "command": command}


def summary(values: Array) -> Mapping[str, Any]:
    """Mean and standard deviation over seeds (n - 1 in the denominator), and the values themselves."""
    std = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return {"mean": float(values.mean()), "std": std, "per_seed": values.tolist()}


def _each(results: Sequence[dict[str, Any]], name: str) -> list[Any] | None:
    found = [result.get(name) for result in results]
    return None if found[0] is None else found
