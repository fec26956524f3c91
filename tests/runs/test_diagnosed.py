"""A diagnosis on disk: it comes back as it was, older results have none, and a damaged one is refused."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from efc.errors import EFCError
from efc.runs.config import make_config
from efc.runs.results import ResultRow, RunResult
from efc.runs.session import Means, Session
from efc.runs.store import Store
from efc.training.examination import Confused, Diagnosis
from support.records import a_result, a_run

FOUND = Diagnosis(
    accuracy=[90.0, 80.0], oracle=[95.0, 70.0], ridge=[91.0, 81.0], reads="features", l2=1e-3, drift=[130.0, 0.0],
    explained=[80.0, None], confused=[Confused("0", "1", 10.0, 5.0)], newest=10.0, newest_oracle=5.0,
)  # fmt: skip
CLOSED = replace(
    FOUND, oracle=None, ridge=None, drift=None, explained=None, l2=None, newest_oracle=None, note="it has no features"
)


@pytest.mark.parametrize("found", [FOUND, CLOSED, None])
def test_it_comes_back_as_it_was(found: Diagnosis | None, tmp_path: Path) -> None:
    result = a_result(diagnosis=found)
    assert RunResult.from_json(json.loads(json.dumps(result.to_json()))) == result
    run = a_run(diagnose=found is not None)
    with Store(tmp_path / "o") as store:
        store.save([(run, result)])
        assert store.finished([run.id])[run.id].diagnosis == found
    row = ResultRow.of([run.settings.to_json()], [run.id], [result])
    assert row.diagnosis == (None if found is None else [found])
    assert ResultRow.from_json(json.loads(json.dumps(row.to_json()))).diagnosis == row.diagnosis


def test_results_of_before_have_none() -> None:
    old = a_result().to_json()
    del old["diagnosis"]
    assert RunResult.from_json(old) == a_result()
    row = ResultRow.of([a_run().settings.to_json()], ["0"], [a_result()]).to_json()
    del row["diagnosis"]
    assert ResultRow.from_json(row).diagnosis is None


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda told: told.update(oracle=[120.0, 1.0]), "120 is impossible"),
        (lambda told: told.update(drift=[1.0]), "a value of drift for each of 2 tasks, got 1"),
        (lambda told: told.update(confused=[3]), "expected names with values"),
        (lambda told: told.update(explained=["a", None]), "expected a finite number"),
        (lambda told: told.pop("ridge"), "ridge"),
    ],
)
def test_what_no_examination_can_have_found_is_refused(damage: Callable[[Any], object], says: str) -> None:
    document = copy.deepcopy(a_result(diagnosis=FOUND).to_json())
    damage(document["diagnosis"])
    with pytest.raises((ValueError, KeyError), match=says):
        RunResult.from_json(document)


STREAM = {
    "accuracy": 60.0, "at": [8.0, 16.0], "curve": [40.0, 80.0], "checkpoints": [16], "seen": [80.0, None],
    "adaptation": [3, None], "mean_adaptation": 3.0, "mix": [[4, 4], [8, 0]], "microseconds": 9.0, "bytes": 40,
    "classes": ["a", "b"],
}  # fmt: skip


def test_a_stream_comes_back_as_it_was_and_a_damaged_one_is_refused() -> None:
    result = a_result(further={"stream": STREAM, "feedback_alignment": [1.0]})
    assert RunResult.from_json(json.loads(json.dumps(result.to_json()))) == result
    row = ResultRow.of([a_run().settings.to_json()] * 2, ["0", "1"], [result, result])
    assert ResultRow.from_json(json.loads(json.dumps(row.to_json()))).further == row.further
    half = ResultRow.of([a_run().settings.to_json()] * 2, ["0", "1"], [result, a_result()]).to_json()
    with pytest.raises(ValueError, match="expected names with values"):
        ResultRow.from_json(half)
    for name, value in (
        ("curve", [40.0]), ("curve", [40.0, 180.0]), ("curve", "ab"), ("at", [16.0, 8.0]), ("at", []),
        ("mix", [[4, 4], [8]]),
        ("mix", [[4, 4], [8, -1]]), ("mix", [[4, 4]]), ("classes", ["a", 2]), ("accuracy", None), ("bytes", -1),
        ("microseconds", float("inf")), ("mean_adaptation", "3"), ("seen", 3), ("adaptation", ["a"]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"expected|impossible"):
            RunResult.from_json(a_result(further={"stream": STREAM | {name: value}}).to_json())
    for name in ("curve", "at", "mix", "classes", "accuracy", "bytes", "mean_adaptation"):
        with pytest.raises(KeyError, match=name):
            RunResult.from_json(a_result(further={"stream": {k: v for k, v in STREAM.items() if k != name}}).to_json())


def test_a_run_that_was_not_diagnosed_is_another_one(tmp_path: Path) -> None:
    """It has to be trained again: what its features were after each task is lost. Its id is what it always was."""
    assert "diagnose" not in a_run().settings.to_json()
    assert a_run(diagnose=True).id != a_run().id
    settings = {"methods": "sgd", "seeds": 1, "epochs": 1, "hidden": [8], "tasks": 2}
    plain, asked = make_config(settings), make_config(settings, {"diagnose": True})
    assert "diagnose" not in plain.to_yaml()
    assert "diagnose: true" in asked.to_yaml()
    with Session(tmp_path / "o") as session:
        session.plan([plain])
        session.compute()
        session.plan([asked])
        assert [len(pack.runs) for pack in session.packs] == [1]
        session.compute()
        session.plan([plain, asked])
        assert session.packs == []
        session.compute()
        one, other = session.document().rows
    assert one.accuracy_matrix == other.accuracy_matrix
    assert one.diagnosis is None
    assert other.diagnosis is not None
    assert other.diagnosis[0].oracle is not None


def test_asked_for_or_not() -> None:
    with pytest.raises(EFCError, match="diagnose: must be true or false, got 'maybe'"):
        make_config({"diagnose": "maybe"})


def test_it_comes_from_worker_processes_as_from_this_one() -> None:
    config = make_config(
        {"methods": "sgd,analytic", "seeds": 2, "epochs": 1, "hidden": [8], "tasks": 2, "diagnose": True}
    )
    found = []
    for workers in (1, 2):
        with Session(means=Means(workers=workers)) as session:
            session.plan([config])
            session.compute()
            assert not session.failures
            found.append([row.diagnosis for row in session.document().rows])
    assert found[0] == found[1]
    assert [len(each or []) for each in found[0]] == [2, 2]
