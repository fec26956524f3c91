"""Runs that diverge or fail are marked, stored and tried again; the others go on. What is outdated says why."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from efc.report.folder import write_results
from efc.report.labels import warnings
from efc.report.page_data import page_data
from efc.runs import identity, worker
from efc.runs.checkpoint import Checkpoints
from efc.runs.config import RunConfig, make_config
from efc.runs.documents import read_results_file
from efc.runs.inspection import look
from efc.runs.session import Means, Session, Sinks
from efc.runs.store import Store
from efc.runs.trust import Trust
from support.command import efc
from support.records import a_result, a_run

QUICK = {"dataset": "digits", "seeds": 2, "epochs": 1, "hidden": [8], "device": "cpu"}
DIVERGING = ["--head", "random", "--set", "efc.feedback=learned", "--set", "efc.lr=1e30"]
SHORT = ["--seeds", "2", "--epochs", "1", "--hidden", "16", "--workers", "1"]
BAD = """
from efc.learners import SGD
class Bad(SGD):
    def descent(self, x, y):
        raise ZeroDivisionError('oops')
class Unmade(SGD):
    def __init__(self, *args, **options):
        raise IndexError('no such thing')
class Odd(SGD):
    def measures(self, x):
        return {"odd": x[:2, :2].repeat(2, 1, 1) * float("nan"), "unlike": x.new_full((2,), float("inf"))}
"""


def config(**settings: Any) -> RunConfig:
    return make_config(QUICK | settings, trust=Trust.of(settings))


def strict(text: str) -> Any:
    """JSON without NaN and Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    return json.loads(text, parse_constant=refuse)


def test_a_diverged_run_is_marked_everywhere_and_the_others_go_on(tmp_path: Path) -> None:
    done = efc("bench", "--methods", "efc,sgd", *DIVERGING, *SHORT, "--out", "b", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = {line.split()[1]: line for line in done.stdout.splitlines() if line.startswith(" class")}
    assert lines["efc"].rstrip().endswith("diverged")
    assert " 0.0" not in lines["efc"]
    assert "±" in lines["sgd"]
    rows = strict((tmp_path / "b" / "results.json").read_text())["rows"]
    assert [row["status"] for row in rows] == [["diverged", "diverged"], ["done", "done"]]
    assert rows[0]["feedback_alignment"] == [[None], [None]]
    listed = efc("runs", "list", "--in", "b", cwd=tmp_path, columns=200).stdout
    assert listed.count("diverged │ -") == 2
    assert "0.00 " not in listed.split("sgd")[0]
    exported = efc("runs", "export", "--in", "b", cwd=tmp_path).stdout.splitlines()
    assert exported[0].split(",")[:2] == ["id", "status"]
    assert [line.split(",")[1] for line in exported[1:]] == ["diverged", "diverged", "done", "done"]
    results = read_results_file(tmp_path / "b" / "results.json", "DIR")
    assert [row["status"] for row in page_data(results).rows] == ["", "diverged"]  # the best first
    assert efc("runs", "check", "b", cwd=tmp_path).returncode == 0
    again = efc("bench", "--methods", "efc,sgd", *DIVERGING, *SHORT, "--out", "b", cwd=tmp_path)
    assert "Nothing to run" in again.stderr


def test_numbers_that_are_not_finite_are_null_whatever_a_method_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd_methods.py").write_text(BAD)
    monkeypatch.chdir(tmp_path)
    with Session(tmp_path / "o") as session:
        session.plan([config(methods="odd_methods:Odd")])
        session.compute()
        assert not session.failures
        write_results(tmp_path / "o", session.document(), print)
    (row,) = strict((tmp_path / "o" / "results.json").read_text())["rows"]
    assert row["odd"] == [[[None, None], [None, None]]] * 2
    assert row["unlike"] == [None, None]


def test_a_failed_run_is_stored_with_its_sentence_and_tried_again(tmp_path: Path) -> None:
    (tmp_path / "bad_methods.py").write_text(BAD)
    command = ["bench", "--methods", "bad_methods:Bad,bad_methods:Unmade,sgd", *SHORT, "--out", "b"]
    done = efc(*command, cwd=tmp_path)
    assert done.returncode == 1
    assert "ZeroDivisionError: oops" in done.stderr
    assert "IndexError: no such thing" in done.stderr
    document = strict((tmp_path / "b" / "results.json").read_text())
    assert [row["method"] for row in document["rows"]] == ["sgd"]
    failed = [(one["method"], one["seed"], one["message"]) for one in document["failed"]]
    assert failed[0] == ("bad_methods:Bad", 0, "ZeroDivisionError: oops")
    assert failed[3] == ("bad_methods:Unmade", 1, "IndexError: no such thing")
    listed = efc("runs", "list", "--in", "b", "--where", "status=failed", cwd=tmp_path, columns=200)
    assert listed.stdout.count("failed") == 4
    (key, *_) = [one["run"] for one in document["failed"]]
    shown = json.loads(efc("runs", "show", key, "--in", "b", cwd=tmp_path).stdout)
    assert shown["status"] == "failed"
    assert shown["failed"].startswith("ZeroDivisionError: oops")
    (tmp_path / "bad_methods.py").write_text(
        BAD.replace("raise ZeroDivisionError('oops')", "return super().descent(x, y)")
    )
    again = efc(*command, cwd=tmp_path)
    assert again.returncode == 1
    listed = efc("runs", "list", "--in", "b", "--where", "status=failed", cwd=tmp_path, columns=200)
    assert listed.stdout.count("failed") == 2
    assert "Unmade" in listed.stdout


def test_a_row_with_a_failed_seed_shows_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "picky.py").write_text(
        "from efc.learners import SGD\nclass Picky(SGD):\n    def __init__(self, sizes, seeds, *args, **options):\n"
        "        super().__init__(sizes, seeds, *args, **options)\n        self.mine = list(seeds)\n"
        "    def descent(self, x, y):\n        assert self.mine != [1], 'not this one'\n"
        "        return super().descent(x, y)\n"
    )
    monkeypatch.chdir(tmp_path)
    with Session(tmp_path / "o", Means(at_most=1)) as session:
        session.plan([config(methods="picky:Picky", seeds=3)])
        session.compute()
        results = session.document()
    (row,) = results.rows
    assert (row.seeds, row.failed) == ([0, 2], [1])
    assert [(one.seed, one.message) for one in results.failed] == [(1, "AssertionError: not this one")]
    assert any("seed 1: AssertionError: not this one" in text for text in warnings(results))
    assert page_data(results).rows[0]["status"] == "1 failed"


def test_stored_runs_of_other_code_say_why_they_no_longer_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    with Session(tmp_path / "o", sinks=Sinks(tell=told.append)) as session:
        session.plan([config(methods="sgd,analytic")])
        session.compute()
    assert told == []
    present = identity.code_of("sgd")
    monkeypatch.setattr(identity, "_package_digest", lambda: "deadbeef")
    with Session(tmp_path / "o", sinks=Sinks(tell=told.append)) as session:
        session.plan([config(methods="sgd,analytic")])
        assert sum(len(pack.runs) for pack in session.packs) == 4
    assert told == [
        "2 stored runs of sgd no longer count: the code of sgd has changed since",
        "2 stored runs of analytic no longer count: the code of analytic has changed since",
    ]
    assert {record.code for record in look(tmp_path / "o", "--in").records} == {present}


def test_checkpoints_that_nobody_can_use_are_collected(tmp_path: Path) -> None:
    """Those of stored runs and of other code; those of runs somebody wants, or somebody is computing, stay."""
    present = identity.package_code()
    done, old, mine, busy = (a_run(k) for k in range(4))
    with Store(tmp_path) as store:
        store.save([(done, a_result())])
        for run, code in ((done, present), (old, "0.1.0-00000000"), (mine, present), (busy, "0.1.0-00000000")):
            Checkpoints(tmp_path / "checkpoints" / run.id).save({}, {"runs": [run.id], "method": "sgd", "code": code})
        assert store.claim([busy.id])
        with Session(tmp_path) as session:
            session.plan([config(methods="analytic")])
        left = {folder.name for folder in (tmp_path / "checkpoints").iterdir()}
    assert left == {mine.id, busy.id}


def test_a_checkpoint_names_its_code(tmp_path: Path) -> None:
    given = config(methods="sgd")
    with Session() as session:
        session.plan([given])
        (pack,) = session.packs
    stops = iter([False] * 3 + [True] * 99)
    assert worker.train_pack(pack, tmp_path, stop=lambda: next(stops)) is None
    found = Checkpoints(tmp_path / pack.id).load()
    assert found is not None
    assert found[1]["code"] == identity.code_of("sgd")
    assert found[1]["method"] == "sgd"


def test_seeds_of_two_environments_are_told_apart(tmp_path: Path) -> None:
    given = config(methods="sgd")
    with Session(tmp_path) as session:
        session.plan([given])
        runs = session.runs
        session.compute()
        results = dict(session.results)
    here = results[runs[0].id].environment
    assert {"torch", "python", "device"} <= here.keys()
    elsewhere = dict(here) | {"torch": "9.9.9", "device": "Some GPU"}
    with Store(tmp_path) as store:
        store.forget([runs[1].id])
        store.save([(runs[1], replace(results[runs[1].id], environment=elsewhere))])
    done = efc("bench", "--methods", "sgd", "--seeds", "2", "--epochs", "1", "--hidden", "8", "--device", "cpu",
               "--workers", "1", "--out", str(tmp_path))  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Nothing to run" in done.stderr
    assert "torch 9.9.9 on Some GPU" in done.stderr
    assert "* seeds of different environments" in done.stdout
    (row,) = strict((tmp_path / "results.json").read_text())["rows"]
    assert [(place["torch"], place["seeds"]) for place in row["environments"]] == [(here["torch"], [0]), ("9.9.9", [1])]
