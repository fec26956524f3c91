"""Records of runs made by hand, for tests that need one and no training."""

from __future__ import annotations

from dataclasses import replace

from efc.learners import SGD
from efc.runs.identity import Run
from efc.runs.results import Results, RunResult, RunSettings

SETTINGS = RunSettings(
    dataset="digits", encoder="none", tasks=5, classes_per_task=2, order_seed=None, validation=0.1, evaluate="test",
    epochs=3, batch_size=32, hidden=(4,), activation="relu", data="", method="sgd", head="random", scenario="class",
    options=SGD.options_type(lr=0.1), code="", seed=0,
)  # fmt: skip


def a_run(seed: int = 0, **changes: object) -> Run:
    return Run.of(replace(SETTINGS, seed=seed, **changes))  # type: ignore[arg-type]


def a_result(accuracy: float = 50.0, **changes: object) -> RunResult:
    plain = RunResult(
        metrics={"accuracy": accuracy, "forgetting": 3.0}, accuracy_matrix=[[100.0, None], [50.0, 100.0]],
        confusion=[[1, 2], [3, 4]], prediction_share=None, unsettled=None, trace=None, diverged=False, seconds=1.0,
        tasks=[["0"], ["1"]], environment={"efc": "0"},
    )  # fmt: skip
    return replace(plain, **changes)  # type: ignore[arg-type]


def typed(document: dict[str, object]) -> Results:
    """What a results document on disk is inside the package."""
    return Results.from_json(document)
