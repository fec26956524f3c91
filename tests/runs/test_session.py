"""Killed at any moment and started again: the same numbers, bit for bit, nothing lost, nothing twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from efc.data import Dataset
from efc.runs import worker
from efc.runs.config import make_config
from efc.runs.session import Session

BENCH = [
    "bench", "--methods", "sgd,si,derpp,efc,joint,full_fisher", "--head", "analytic", "--seeds", "3", "--epochs", "12",
    "--hidden", "40,40", "--scenarios", "class,task", "--workers", "1",
]  # fmt: skip


def start(arguments: list[str], cwd: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "efc", *arguments]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until(process: subprocess.Popen[str], text: str) -> str:
    """Read its messages up to one that holds ``text``."""
    assert process.stderr is not None
    heard = ""
    for line in process.stderr:
        heard += line
        if text in line:
            break
    return heard


def numbers(folder: Path) -> Any:
    """Everything in the results but the time they took."""
    document = json.loads((folder / "results.json").read_text())
    return [
        {key: value for key, value in row.items() if key not in ("seconds", "environment")} for row in document["rows"]
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("whole")
    process = start([*BENCH, "--out", "b"], folder)
    _, told = process.communicate()
    assert process.returncode == 0, told
    return numbers(folder / "b")


@pytest.mark.parametrize("times", [8, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments(tmp_path: Path, whole: Any, times: int) -> None:
    """SIGKILL, from the first moments of the plan on; every time the same command goes on."""
    moments = random.Random(7)
    kills = resumed = 0
    while kills < times:
        process = start([*BENCH, "--out", "b"], tmp_path)
        heard = until(process, "to train")
        if "Nothing to run" in heard or process.poll() is not None:
            break
        time.sleep(moments.uniform(0.0, 0.25))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
            resumed += any((tmp_path / "b" / "checkpoints").glob("*/*.json"))
        process.communicate()
    assert kills == times, f"the benchmark was over after {kills} kills"
    assert resumed > times / 4
    process = start([*BENCH, "--out", "b"], tmp_path)
    _, told = process.communicate()
    assert process.returncode == 0, told
    assert numbers(tmp_path / "b") == whole
    files = list((tmp_path / "b" / "runs").glob("*.json"))
    assert len(files) == 6 * 2 * 3
    assert not list((tmp_path / "b" / "checkpoints").glob("*/*.json"))


def test_ctrl_c_once_checkpoints_and_the_same_command_goes_on(tmp_path: Path, whole: Any) -> None:
    process = start([*BENCH, "--out", "b"], tmp_path)
    until(process, "to train")
    until(process, "task 1/5 learned")
    process.send_signal(signal.SIGINT)
    _, told = process.communicate()
    assert process.returncode == 130, told
    assert "the same command goes on from there" in told
    assert list((tmp_path / "b" / "checkpoints").glob("*/*.safetensors"))
    assert not (tmp_path / "b" / "results.json").exists()
    process = start([*BENCH, "--out", "b"], tmp_path)
    _, told = process.communicate()
    assert process.returncode == 0, told
    assert numbers(tmp_path / "b") == whole


def test_ctrl_c_twice_stops_now(tmp_path: Path) -> None:
    """The second one does not wait for the batch: a step that takes for ever is left."""
    (tmp_path / "slow.py").write_text(
        "import time\nfrom efc.learners import SGD\n"
        "class Slow(SGD):\n    def descent(self, x, y):\n        time.sleep(3600)\n        return {}\n"
    )
    process = start(["run", "--methods", "slow:Slow", "--seeds", "1", "--out", "b"], tmp_path)
    until(process, "active outputs")
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=600)  # the step it stands in takes an hour
    assert process.returncode == 130, told
    assert "Traceback" not in told


def test_run_goes_on_too_and_asking_twice_computes_once(tmp_path: Path) -> None:
    command = ["run", "--methods", "efc,ewc", "--seeds", "2", "--epochs", "10", "--hidden", "30"]
    process = start(command, tmp_path)
    until(process, "task 2/5 learned")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    process = start([*command, "--json"], tmp_path)
    out, told = process.communicate()
    assert process.returncode == 0, told
    assert "task 1/5 learned" not in told.split("ewc")[0]  # it did not begin again
    again = start([*command, "--json"], tmp_path)
    out_again, told = again.communicate()
    assert json.loads(out)["rows"] == json.loads(out_again)["rows"]
    assert "learned" not in told
    other = start([*command, "--json", "--out", "elsewhere"], tmp_path)
    fresh, _ = other.communicate()
    keep = ("accuracy", "accuracy_matrix", "confusion", "unsettled", "trace", "bwt", "fwt")
    assert [[row[k] for k in keep] for row in json.loads(out)["rows"]] == [
        [row[k] for k in keep] for row in json.loads(fresh)["rows"]
    ]


def test_two_processes_share_a_store_and_compute_nothing_twice(tmp_path: Path, whole: Any) -> None:
    both = [start([*BENCH, "--out", "b"], tmp_path) for _ in range(2)]
    told = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    assert numbers(tmp_path / "b") == whole
    learned = [line.partition(";")[0] for text in told for line in text.splitlines() if "task 5/5 learned" in line]
    assert len(learned) == len(set(learned)) == 12, learned
    assert all("task 5/5 learned" in text for text in told)  # each did part of it


def test_worker_processes_give_the_same_and_one_that_dies_is_replaced(tmp_path: Path, whole: Any) -> None:
    process = start([*BENCH[:-1], "2", "--out", "b"], tmp_path)
    heard = until(process, "learned")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    workers = [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(workers) == 2, heard
    os.kill(workers[0], signal.SIGKILL)
    _, told = process.communicate()
    assert process.returncode == 0, told
    assert "another goes on from its last checkpoint" in told
    assert numbers(tmp_path / "b") == whole


def test_orphaned_workers_do_not_linger(tmp_path: Path) -> None:
    process = start([*BENCH[:-1], "2", "--epochs", "400", "--out", "b"], tmp_path)
    until(process, "learned")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + 10
    while any(alive(int(pid)) for pid in children) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(alive(int(pid)) for pid in children)


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False


def test_data_are_loaded_once_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan after plan, as a sweep makes them: the data are read, and their checksum worked out, once."""
    rng = np.random.default_rng(0)
    x, y = rng.random((40, 5)), np.arange(40) % 4
    np.savez(tmp_path / "data.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    read, summed = [], []
    load, digest = worker.load, Dataset.digest
    monkeypatch.setattr(worker, "load", lambda *given: read.append(given) or load(*given))
    monkeypatch.setattr(Dataset, "digest", lambda self: summed.append(self) or digest(self))
    quick = {"dataset": f"npz:{tmp_path / 'data.npz'}", "tasks": 2, "epochs": 1, "hidden": [4], "device": "cpu"}
    with Session() as session:
        for method in ("sgd", "ewc", "analytic"):
            session.plan([make_config(quick | {"methods": method, "seeds": 1})])
            session.compute()
            assert len(session.results) == 1
    assert len(read) == len(summed) == 1
