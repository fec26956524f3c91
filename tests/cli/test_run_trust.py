"""Which command runs whose code: looking never does, files only with ``--trust``, one's own command line always."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from efc.runs.config import make_config
from efc.runs.identity import Run
from efc.runs.session import Session
from efc.runs.store import Store
from support.command import efc
from support.planted import Planted

QUICK = ["--seeds", "1", "--epochs", "1", "--hidden", "4"]
SETTINGS = {"methods": "sgd", "seeds": 2, "epochs": 1, "hidden": [4], "device": "cpu"}
REFUSED = "a file of settings wants to import"


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Planted(tmp_path)


def one_line(done: subprocess.CompletedProcess[str], text: str) -> None:
    assert done.returncode == 2
    assert text in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def folder_of(place: Path, method: str, name: str = "") -> Path:
    """A results folder whose runs were computed by ``method``, or so it says."""
    with Session() as session:
        session.plan([make_config(SETTINGS)])
        session.compute()
        pairs = [(run, session.results[run.id]) for run in session.runs]
    with Store(place) as store:
        store.save(
            (Run.of(replace(run.settings, method=method)), replace(result, method=name)) for run, result in pairs
        )
    return place


@pytest.mark.parametrize("method", ["planted.py:Planted", "efc.learners.sgd:os"])
def test_looking_at_results_imports_no_method(planted: Planted, method: str) -> None:
    here = planted.folder
    folder_of(here / "o", method)
    looks = [
        ["report", "o"],
        ["plot", "o", "--kind", "curves", "--format", "svg"],
        ["runs", "list", "--in", "o"],
        ["runs", "export", "--in", "o", "--csv", "o.csv"],
    ]
    for look in looks:
        done = efc(*look, cwd=here)
        assert done.returncode == 0, done.stderr
    ids = [file.stem for file in (here / "o" / "runs").glob("*.json")]
    assert efc("runs", "show", ids[0], "--in", "o", cwd=here).returncode == 0
    assert efc("runs", "compare", *ids, "--in", "o", cwd=here).returncode == 0
    assert not planted.ran
    label = method.rpartition(":")[2].lower()
    assert f'"{label}"' in (here / "o" / "report.html").read_text()
    assert efc("plot", "o", "--where", f"method={label}", "--format", "svg", cwd=here).returncode == 0


def test_what_a_method_calls_itself_is_stored(planted: Planted) -> None:
    """The page of a store without `results.json` names it as the run itself did, without importing it."""
    here = planted.folder
    done = efc("run", *QUICK, "--methods", "planted:Planted,sgd", "--out", "o", cwd=here)
    assert done.returncode == 0, done.stderr
    rows = json.loads((here / "o" / "results.json").read_text())["rows"]
    assert [row["method"] for row in rows] == ["friendly", "sgd"]
    (here / "it ran").unlink()
    for gone in (here / "o" / "results.json", here / "planted.py"):
        gone.unlink()
    assert efc("plot", "o", "--where", "method=friendly", "--format", "svg", cwd=here).returncode == 0
    assert not planted.ran


def test_a_saved_configuration_grants_no_trust(planted: Planted) -> None:
    """The same command goes on; the folder's `config.yaml` and `results.json` alone run nothing."""
    here = planted.folder
    command = ["run", *QUICK, "--methods", "planted.py:Planted", "--set", "friendly.lr=0.01", "--out", "o"]
    assert efc(*command, cwd=here).returncode == 0
    (here / "it ran").unlink()
    one_line(efc("run", "--config", "o/config.yaml", "--out", "o", cwd=here), REFUSED)
    one_line(efc("run", "--config", "o/config.yaml", "--out", "p", cwd=here), "wants to import 'planted.py:Planted'")
    one_line(efc("bench", "--config", "o/config.yaml", "--out", "p", cwd=here), REFUSED)
    assert not planted.ran
    assert not (here / "p").exists()
    assert efc(*command, cwd=here).returncode == 0
    assert planted.ran
    given = efc("run", "--config", "o/config.yaml", "--trust", "--out", "p", cwd=here)
    assert given.returncode == 0, given.stderr
    assert (here / "p" / "config.yaml").read_text() == (here / "o" / "config.yaml").read_text()


@pytest.mark.parametrize("command", ["run", "bench"])
def test_files_of_settings_import_only_what_is_trusted(planted: Planted, command: str) -> None:
    here = planted.folder
    (here / "c.yaml").write_text("methods: [sgd, 'planted:Planted']\n")
    entry = {"options": {"preservation": "planted:function"}}
    (here / "p.yaml").write_text(yaml.safe_dump({"class": {"efc": {"least_squares": entry}}}))
    (here / "d.yaml").write_text("preset_file: p.yaml\n")
    preset = [*QUICK, "--methods", "efc", "--head", "least_squares"]
    for given in (["--config", "c.yaml"], [*preset, "--preset", "p.yaml"], [*preset, "--config", "d.yaml"]):
        one_line(efc(command, *given, "--out", "o", cwd=here), REFUSED)
        assert not planted.ran
    done = efc(command, *preset, "--preset", "p.yaml", "--trust", "--out", "o", cwd=here)
    assert done.returncode == 0, done.stderr
    assert planted.ran
    named = efc(command, *preset, "--preset", "p.yaml", "--set", "efc.preservation=planted:function", "--out", "o",
                cwd=here)  # fmt: skip
    assert named.returncode == 0, named.stderr


@pytest.mark.slow
def test_worker_processes_inherit_what_was_trusted(planted: Planted) -> None:
    here = planted.folder
    (here / "c.yaml").write_text("methods: [sgd, 'planted:Planted']\n")
    done = efc("bench", *QUICK, "--config", "c.yaml", "--trust", "--workers", "2", "--out", "o", cwd=here)
    assert done.returncode == 0, done.stderr
    assert [row["method"] for row in json.loads((here / "o" / "results.json").read_text())["rows"]] == [
        "sgd", "friendly",
    ]  # fmt: skip
