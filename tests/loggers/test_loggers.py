"""Every logger after real runs, read back with its own reader: the store's numbers, under the same names everywhere."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from efc.cli import app
from efc.errors import EFCError
from efc.loggers import LOGGERS, check_names
from support.command import efc
from support.logs import (
    READERS,
    documents,
    expected,
    mlflow_warns,
    read_csv,
    read_tensorboard,
    same,
)

RUN = ["run", "--methods", "efc,sgd", "--seeds", "1", "--epochs", "2", "--hidden", "16", "--out", "o"]
ALL = ",".join(LOGGERS)


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
