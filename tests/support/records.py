"""Records of runs made by hand, for tests that need one and no training."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from efc.files import to_json
from efc.learners import SGD
from efc.runs.identity import Run
from efc.runs.results import MEASURES, Results, RunResult, RunSettings

SETTINGS = RunSettings(
    dataset="digits", encoder="none", tasks=5, classes_per_task=2, order_seed=None, validation=0.1, evaluate="test",
    epochs=3, batch_size=32, hidden=(4,), activation="relu", class_weight="none", data="", method="sgd", head="random",
    scenario="class", options=SGD.options_type(lr=0.1), code="", seed=0,
)  # fmt: skip


def a_run(seed: int = 0, **changes: object) -> Run:
    return Run.of(replace(SETTINGS, seed=seed, **changes))  # type: ignore[arg-type]


def a_result(accuracy: float = 50.0, **changes: object) -> RunResult:
    plain = RunResult(
        metrics=dict.fromkeys(MEASURES, 3.0) | {"accuracy": accuracy}, accuracy_matrix=[[100.0, None], [50.0, 100.0]],
        confusion=[[1, 2], [3, 4]], prediction_share=None, unsettled=None, trace=None, diverged=False, seconds=1.0,
        tasks=[["0"], ["1"]], environment={"efc": "0"},
    )  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]


def typed(document: dict[str, object]) -> Results:
    """What a results document on disk is inside the package."""
    return Results.from_json(document)


OLD_SCHEMA = """
create table runs (
  id text primary key, method text, head text, dataset text, scenario text, seed integer, evaluated_on text,
  accuracy real, seconds real, finished text, settings text, result text
);
create table metrics (run text, name text, value real, primary key (run, name));
create table notes (name text primary key, value text);
create table claims (run text primary key, owner text, host text, pid integer, beat real);
"""


def old_store(folder: Path, pairs: Sequence[tuple[Run, RunResult]]) -> None:
    """A results folder as the first version left it: no checksums, no status, no code, no failures."""
    (folder / "runs").mkdir(parents=True)
    database = sqlite3.connect(folder / "efc.sqlite")
    database.executescript(OLD_SCHEMA)
    for run, result in pairs:
        s, finished = run.settings.to_json(), "2026-01-01T00:00:00+00:00"
        document = {"id": run.id, "settings": s, "result": result.to_json(), "finished": finished}
        (folder / "runs" / f"{run.id}.json").write_text(to_json(document))
        columns = [s[name] for name in ("method", "head", "dataset", "scenario", "seed", "evaluate")]
        row = (
            run.id,
            *columns,
            result.metrics["accuracy"],
            result.seconds,
            finished,
            to_json(s),
            to_json(result.to_json()),
        )
        database.execute("insert into runs values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    database.commit()
    database.close()
