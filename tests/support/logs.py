"""What the loggers should hold, worked out from the store's files; and a reader for each, the tool's own."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from efc.learners import EWCOptions
from efc.runs.identity import Run
from efc.runs.results import Epoch, RunResult
from support.records import a_result, a_run

Numbers = dict[str, dict[tuple[str, int], float]]
"""By run: (name, step) -> value."""


# SQLAlchemy's newest release finds fault with how MLflow's tables are declared.
mlflow_warns = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")


def documents(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted((folder / "runs").glob("*.json"))]


def expected(given: dict[str, Any] | RunResult) -> dict[tuple[str, int], float]:
    result: Any = given.to_json() if isinstance(given, RunResult) else given
    A = result["accuracy_matrix"]
    found = {(name, len(A)): value for name, value in result["metrics"].items()}
    found["seconds", len(A)] = result["seconds"]
    found["diverged", len(A)] = float(result["diverged"])
    if result["unsettled"] is not None:
        found["unsettled", len(A)] = result["unsettled"]
    for t in range(len(A)):
        found["accuracy/seen", t + 1] = sum(A[t][: t + 1]) / (t + 1)
        for j in range(t + 1):
            found[f"accuracy/task_{j + 1}", t + 1] = A[t][j]
    for at, entry in enumerate(result.get("trace") or [], 1):
        for kind in ("psi", "gamma"):
            for layer, value in enumerate(entry[kind], 1):
                found[f"effort/{kind}_{layer}", at] = value
        found["effort/unsettled", at] = entry["unsettled"]
    return {key: value for key, value in found.items() if value is not None}


def read_csv(logs: Path) -> tuple[Numbers, dict[str, dict[str, str]]]:
    numbers: Numbers = defaultdict(dict)
    with (logs / "csv" / "metrics.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            key = (row["name"], int(row["step"]))
            assert key not in numbers[row["run"]], "logged twice"
            numbers[row["run"]][key] = float(row["value"])
    params: dict[str, dict[str, str]] = defaultdict(dict)
    with (logs / "csv" / "params.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            assert row["name"] not in params[row["run"]], "logged twice"
            params[row["run"]][row["name"]] = row["value"]
    return numbers, params


def read_tensorboard(logs: Path) -> tuple[Numbers, dict[str, dict[str, str]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    numbers: Numbers = {}
    params = {}
    for folder in (logs / "tensorboard").iterdir():
        events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
        run = folder.name.rpartition("-")[2]
        assert run not in numbers, "logged twice"
        numbers[run] = {(t, e.step): e.value for t in events.Tags()["scalars"] for e in events.Scalars(t)}
        assert len(numbers[run]) == sum(len(events.Scalars(t)) for t in events.Tags()["scalars"])
        content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
        given = HParamsPluginData.FromString(content).session_start_info.hparams
        params[run] = {k: str(getattr(v, str(v.WhichOneof("kind")))) for k, v in given.items()}
    return numbers, params


def read_mlflow(logs: Path) -> tuple[Numbers, dict[str, dict[str, str]]]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{logs / 'mlflow' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("efc")
    assert experiment is not None
    numbers: Numbers = {}
    params = {}
    for found in client.search_runs([experiment.experiment_id]):
        run = found.data.tags["efc.run"]
        assert run not in numbers, "logged twice"
        assert found.info.status == "FINISHED"
        histories = [client.get_metric_history(found.info.run_id, name) for name in found.data.metrics]
        numbers[run] = {(m.key, m.step): m.value for history in histories for m in history}
        assert len(numbers[run]) == sum(map(len, histories))
        params[run] = dict(found.data.params)
    return numbers, params


def read_wandb(logs: Path) -> tuple[Numbers, dict[str, dict[str, str]]]:
    numbers: Numbers = {}
    params = {}
    for file in (logs / "wandb").glob("offline-run-*/*.wandb"):
        command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"WANDB_MODE": "offline"})
        assert done.returncode == 0, done.stderr
        records = [json.loads(line) for line in done.stdout.splitlines()]
        (about,) = [record["run"] for record in records if record["type"] == "run"]
        assert about["run_id"] not in numbers, "logged twice"
        mine = numbers[about["run_id"]] = {}
        params[about["run_id"]] = {k: str(v) for k, v in about["config"]["update"].items() if k != "_wandb"}
        axes = {r["metric"]["name"]: r["metric"].get("step_metric") for r in records if r["type"] == "metric"}
        for record in records:
            item = record["history"]["item"] if record["type"] == "history" else {}
            for name in item:
                if not name.startswith("_") and name not in ("tasks_learned", "epoch"):
                    assert (name, item[axes[name]]) not in mine, "logged twice"
                    mine[name, item[axes[name]]] = item[name]
    return numbers, params


READERS: dict[str, Callable[[Path], tuple[Numbers, dict[str, dict[str, str]]]]] = {
    "csv": read_csv, "tensorboard": read_tensorboard, "mlflow": read_mlflow, "wandb": read_wandb,
}  # fmt: skip


def same(numbers: Numbers, wanted: Numbers) -> None:
    """TensorBoard keeps single precision."""
    assert numbers.keys() == wanted.keys()
    for run, values in wanted.items():
        assert numbers[run] == pytest.approx(values, rel=1e-6)


def by_hand(seed: int = 0) -> tuple[Run, RunResult]:
    """A run with a trace of the control effort: two tasks of three epochs, two layers."""
    options = EWCOptions(lr=0.1, strength=float("inf"))
    run = a_run(seed, method="ewc", dataset="npz:my, data.npz", options=options)
    trace = [
        Epoch(task, epoch, [task + 0.25, epoch + 0.5], [0.125 * task, 0.5 * epoch], 0.0625 * epoch)
        for task in (1, 2) for epoch in (1, 2, 3)
    ]  # fmt: skip
    trace[4] = replace(trace[4], psi=[None, 2.5])  # what could not be measured is left out
    metrics = {"accuracy": 75.0, "forgetting": 25.0}
    return run, a_result(metrics=metrics, unsettled=0.125, seconds=1.5, trace=trace)
