"""Every logger after real runs, read back with its own reader: the store's numbers, under the same names everywhere."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from efc.cli import app
from efc.errors import EFCError
from efc.learners import EWCOptions
from efc.loggers import LOGGERS, Logs, check_names
from efc.runs.identity import Run
from efc.runs.results import Epoch, RunResult
from support.command import efc
from support.records import a_result, a_run

RUN = ["run", "--methods", "efc,sgd", "--seeds", "1", "--epochs", "2", "--hidden", "16", "--out", "o"]
ALL = ",".join(LOGGERS)
Numbers = dict[str, dict[tuple[str, int], float]]
"""By run: (name, step) -> value."""
# SQLAlchemy's newest release finds fault with how MLflow's tables are declared.
mlflow_warns = pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy:DeprecationWarning")


# -- what should be there, worked out from the store's files ----------------------------------------------------------


def documents(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(file.read_text()) for file in sorted((folder / "runs").glob("*.json"))]


def expected(result: dict[str, Any]) -> dict[tuple[str, int], float]:
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


# -- readers: (numbers, settings), both by run ------------------------------------------------------------------------


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


# -- real runs --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods, all loggers."""
    folder = tmp_path_factory.mktemp("logged")
    done = efc(*RUN, "--log", "csv,tensorboard", "--log", "mlflow,wandb", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stderr
    assert not re.search(r"mlflow|wandb|tensorboard", done.stderr), done.stderr  # they keep quiet
    return folder / "o"


@mlflow_warns
@pytest.mark.parametrize("name", LOGGERS)
def test_what_a_logger_has_is_what_the_store_has(name: str, logged: Path) -> None:
    stored = documents(logged)
    assert len(stored) == 2
    numbers, params = READERS[name](logged / "logs")
    same(numbers, {document["id"]: expected(document["result"]) for document in stored})
    assert all(("accuracy/task_1", step) in values for values in numbers.values() for step in range(1, 6))
    for document in stored:
        settings = document["settings"]
        mine = params[document["id"]]
        assert (mine["method"], mine["dataset"], mine["hidden"]) == (settings["method"], "digits", "[16]")
        assert float(mine["options.lr"]) == pytest.approx(settings["options"]["lr"])
        assert float(mine["seed"]) == settings["seed"]
        assert len(mine) == len(settings) - 1 + len(settings["options"])


@mlflow_warns
def test_a_command_given_again_logs_what_is_missing_and_nothing_twice(logged: Path) -> None:
    """The logs of TensorBoard lost, then another seed: those come from the store, this is computed."""
    for folder in (logged / "logs" / "tensorboard").iterdir():
        shutil.rmtree(folder)
    again = efc(*RUN, "--log", ALL, cwd=logged.parent)
    assert again.returncode == 0, again.stderr
    assert "learned" not in again.stderr
    assert len(list((logged / "logs" / "tensorboard").iterdir())) == 2
    bench = ["bench", "--methods", "sgd", "--seeds", "2", *RUN[5:], "--log", ALL]
    more = efc(*bench, cwd=logged.parent)
    assert more.returncode == 0, more.stderr
    wanted = {document["id"]: expected(document["result"]) for document in documents(logged)}
    assert len(wanted) == 3
    for name in LOGGERS:
        same(READERS[name](logged / "logs")[0], wanted)


def test_two_worker_processes_a_sweep_and_overwriting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever trains, the main process logs; what is computed anew is logged anew, in place of the old."""
    command = ["bench", *RUN[1:], "--workers", "2", "--log", "csv"]
    done = efc(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    same(read_csv(tmp_path / "o" / "logs")[0], {d["id"]: expected(d["result"]) for d in documents(tmp_path / "o")})
    monkeypatch.chdir(tmp_path)
    here = CliRunner()
    sweep = ["sweep", "--method", "sgd", "--trials", "3", "--epochs", "1", "--hidden", "8", "--out", "s"]
    swept = here.invoke(app, [*sweep, "--log", "csv,tensorboard"])
    assert swept.exit_code == 0, swept.output
    wanted = {d["id"]: expected(d["result"]) for d in documents(tmp_path / "s")}
    assert len(wanted) == 3
    for name in ("csv", "tensorboard"):
        same(READERS[name](tmp_path / "s" / "logs")[0], wanted)
    old = {d["id"]: d["result"]["seconds"] for d in documents(tmp_path / "o")}
    anew = here.invoke(app, [*RUN, "--log", "csv", "--overwrite"])  # the bench's runs
    assert anew.exit_code == 0, anew.output
    wanted = {d["id"]: expected(d["result"]) for d in documents(tmp_path / "o")}
    assert all(wanted[run]["seconds", 5] != old[run] for run in old)
    same(read_csv(tmp_path / "o" / "logs")[0], wanted)


def test_killed_and_started_again_nothing_is_missing_and_nothing_twice(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "efc", *RUN, "--epochs", "10", "--log", "csv"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "sgd" in line and "task 2/5" in line:  # efc's runs are stored and logged, sgd's are under way
            break
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = efc(*RUN, "--epochs", "10", "--log", "csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    wanted = {d["id"]: expected(d["result"]) for d in documents(tmp_path / "o")}
    assert len(wanted) == 2
    same(read_csv(tmp_path / "o" / "logs")[0], wanted)


def test_a_logger_that_fails_midway_costs_no_results(tmp_path: Path) -> None:
    """The folder of events turns into a file when the first runs are through: told once, exit code 1, all is stored."""
    (tmp_path / "spoil.py").write_text(
        "from pathlib import Path\nfrom efc.learners import SGD\n"
        "class Spoil(SGD):\n    def descent(self, x, y):\n"
        "        place = Path('o/logs/tensorboard')\n"
        "        if place.is_dir():\n            place.rmdir()\n            place.write_text('')\n"
        "        return super().descent(x, y)\n"
    )
    command = ["run", "--methods", "spoil:Spoil,sgd", *RUN[3:]]
    done = efc(*command, "--log", "tensorboard,csv", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stderr.count("Failed: --log tensorboard: ") == 1
    assert "the same command logs what is missing" in done.stderr
    assert "Traceback" not in done.stderr
    wanted = {d["id"]: expected(d["result"]) for d in documents(tmp_path / "o")}
    assert len(wanted) == 2
    assert (tmp_path / "o" / "results.json").exists()
    same(read_csv(tmp_path / "o" / "logs")[0], wanted)
    (tmp_path / "o" / "logs" / "tensorboard").unlink()
    mended = efc(*command, "--log", "tensorboard,csv", cwd=tmp_path)
    assert mended.returncode == 0, mended.stderr
    same(read_tensorboard(tmp_path / "o" / "logs")[0], wanted)


# -- by hand ----------------------------------------------------------------------------------------------------------


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


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The switches a logger sets for its process are this test's alone."""
    for name, value in {"WANDB_MODE": "offline", "WANDB_ERROR_REPORTING": "false"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")


@mlflow_warns
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", LOGGERS)
def test_the_control_effort_epoch_by_epoch(name: str, tmp_path: Path) -> None:
    told: list[str] = []
    wanted = {}
    logs = Logs(tmp_path / "logs", check_names([name]), told.append)
    for seed in (0, 1):
        run, result = by_hand(seed)
        logs.log(run, result)
        wanted[run.id] = expected(result.to_json())
    logs.close()
    again = Logs(tmp_path / "logs", [name], told.append)  # another process, later
    again.log(*by_hand())
    again.close()
    assert not told
    numbers, params = READERS[name](tmp_path / "logs")
    assert ("effort/psi_1", 6) in wanted[run.id]
    assert ("effort/psi_1", 5) not in wanted[run.id]
    same(numbers, wanted)
    assert params[run.id]["options.strength"] == "inf"
    assert params[run.id]["dataset"] == "npz:my, data.npz"


@mlflow_warns
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("name", LOGGERS)
def test_a_run_that_is_forgotten_is_gone_and_its_neighbour_stays(name: str, tmp_path: Path) -> None:
    logs = Logs(tmp_path / "logs", check_names([name]), pytest.fail)
    (one, result), (other, _) = by_hand(0), by_hand(1)
    logs.log(one, result)
    logs.log(other, result)
    logs.forget([one.id])
    logs.close()
    same(READERS[name](tmp_path / "logs")[0], {other.id: expected(result.to_json())})


def test_a_run_that_was_cut_off_while_it_was_written_is_written_again(tmp_path: Path) -> None:
    (one, result), (other, _) = by_hand(0), by_hand(1)
    logs = Logs(tmp_path / "logs", ["csv"], pytest.fail)
    logs.log(one, result)
    file = tmp_path / "logs" / "csv" / "metrics.csv"
    whole = file.read_text()
    file.write_text(whole[: whole.rindex("seconds") + 10])  # its last line lacks its end
    for run in (other, one):  # the other first: it must not be glued to the line
        again = Logs(tmp_path / "logs", ["csv"], pytest.fail)
        again.log(run, result)
        again.close()
    same(read_csv(tmp_path / "logs")[0], {one.id: expected(result.to_json()), other.id: expected(result.to_json())})


@mlflow_warns
@pytest.mark.usefixtures("quiet")
def test_an_unfinished_run_of_mlflow_is_replaced(tmp_path: Path) -> None:
    run, result = by_hand()
    logs = Logs(tmp_path / "logs", check_names(["mlflow"]), pytest.fail)
    client: Any = logs.loggers[0].client  # type: ignore[attr-defined]
    client.create_run(logs.loggers[0].experiment, tags={"efc.run": run.id})  # type: ignore[attr-defined]
    logs.log(run, result)
    same(read_mlflow(tmp_path / "logs")[0], {run.id: expected(result.to_json())})


# -- mistakes ---------------------------------------------------------------------------------------------------------


def test_an_unknown_name_is_one_line_and_nothing_is_made(tmp_path: Path) -> None:
    done = efc(*RUN, "--log", "csv,tensorbord", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == (
        "efc: --log: unknown value 'tensorbord' (did you mean 'tensorboard'?); "
        "choose one of csv, tensorboard, mlflow, wandb\n"
    )
    assert not (tmp_path / "o").exists()
    with pytest.raises(EFCError, match="--log: unknown value ''"):
        check_names([""])
    assert check_names(["csv, csv", "csv"]) == ("csv",)


def test_a_missing_extra_is_named_before_anything_is_trained(tmp_path: Path) -> None:
    """In a process in which one package after the other cannot be imported."""
    missing = (("tensorboard", "tensorboard"), ("wandb", "wandb"), ("mlflow", "mlflow"), ("mlflow", "sqlalchemy"))
    code = (
        "import sys\nfrom efc.cli import main\n"
        f"for name, package in {missing!r}:\n"
        "    sys.modules[package] = None\n"
        f"    sys.argv = ['efc', *{RUN!r}, '--log', name]\n"
        "    try:\n        main()\n    except SystemExit as stop:\n        print(stop.code)\n"
        "    del sys.modules[package]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "2\n" * 4, done.stderr
    assert done.stderr.splitlines() == [
        f"efc: --log: {name} is missing; install it with: pip install 'equilibrium-fisher-control[{name}]'"
        for name, _ in missing
    ]
    assert not (tmp_path / "o").exists()


def test_a_server_that_is_not_there_is_named_before_anything_is_trained(tmp_path: Path) -> None:
    done = efc(*RUN, "--log", "mlflow", cwd=tmp_path, MLFLOW_TRACKING_URI="nonsense://x")
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("efc: --log: cannot open mlflow: ")
    assert "learned" not in done.stderr
    assert "Traceback" not in done.stderr


def test_by_default_nobody_is_told_anything(tmp_path: Path) -> None:
    """What the loggers set before they import MLflow and W&B; what the user has set stays."""
    code = (
        "import os\nfrom efc.loggers import check_names\ncheck_names(['mlflow,wandb'])\n"
        "import mlflow.telemetry.utils as t\nassert t.is_telemetry_disabled()\n"
        "print(os.environ['WANDB_MODE'], os.environ['WANDB_ERROR_REPORTING'])\n"
        "os.environ['WANDB_MODE'] = 'online'\ncheck_names(['wandb'])\nprint(os.environ['WANDB_MODE'])\n"
    )
    hidden = {k: v for k, v in os.environ.items() if not re.match("CI|PYTEST|MLFLOW|WANDB", k)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=hidden)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["offline", "false", "online"]
