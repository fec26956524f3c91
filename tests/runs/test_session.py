"""Killed at any moment and started again: the same numbers, bit for bit, nothing lost, nothing twice."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from efc.data import Dataset
from efc.runs import worker
from efc.runs.config import make_config
from efc.runs.session import Session
from support.command import Heard

BENCH = [
    "bench", "--methods", "sgd,si,derpp,efc,joint,full_fisher", "--head", "analytic", "--seeds", "3", "--epochs", "6",
    "--hidden", "40,40", "--scenarios", "class,task", "--workers", "1",
]  # fmt: skip


def numbers(folder: Path) -> Any:
    """Everything in the results but the time they took."""
    document = json.loads((folder / "results.json").read_text())
    return [
        {key: value for key, value in row.items() if key not in ("seconds", "environment")} for row in document["rows"]
    ]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("whole")
    process = Heard([*BENCH, "--out", "b"], folder)
    _, told = process.communicate()
    assert process.returncode == 0, told
    return numbers(folder / "b")


@pytest.mark.parametrize("times", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_moments(tmp_path: Path, whole: Any, times: int) -> None:
    """SIGKILL, from the first moments of the plan on; every time the same command goes on."""
    moments = random.Random(7)
    kills = resumed = 0
    folder = tmp_path / "b0"
    while kills < times:
        process = Heard([*BENCH, "--out", folder.name], tmp_path)
        process.until("to train")
        for _ in range(moments.randrange(4)):
            process.until("learned")
        time.sleep(moments.uniform(0.0, 0.1))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if process.returncode == 0:  # it was faster: begin another one
            assert numbers(folder) == whole
            folder = tmp_path / f"b{kills}"
        else:
            kills += 1
            resumed += any((folder / "checkpoints").glob("*/*.json"))
    assert resumed
    process = Heard([*BENCH, "--out", folder.name], tmp_path)
    _, told = process.communicate()
    assert process.returncode == 0, told
    assert numbers(folder) == whole
    files = list((folder / "runs").glob("*.json"))
    assert len(files) == 6 * 2 * 3
    assert not list((folder / "checkpoints").glob("*/*.json"))


def test_ctrl_c_once_checkpoints_and_the_same_command_goes_on(tmp_path: Path, whole: Any) -> None:
    process = Heard([*BENCH, "--out", "b"], tmp_path)
    process.until("to train")
    process.until("task 1/5 learned")
    process.send_signal(signal.SIGINT)
    _, told = process.communicate()
    assert process.returncode == 130, told
    assert "the same command goes on from there" in told
    assert list((tmp_path / "b" / "checkpoints").glob("*/*.safetensors"))
    assert not (tmp_path / "b" / "results.json").exists()
    process = Heard([*BENCH, "--out", "b"], tmp_path)
    _, told = process.communicate()
    assert process.returncode == 0, told
    assert numbers(tmp_path / "b") == whole


def test_run_goes_on_too_and_asking_twice_computes_once(tmp_path: Path) -> None:
    command = ["run", "--methods", "efc,ewc", "--seeds", "2", "--epochs", "10", "--hidden", "30"]
    process = Heard(command, tmp_path)
    heard = process.until("task 2/5 learned")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    learned = re.compile(r"\befc \(.*task (\d)/5 learned")
    assert learned.findall(heard)
    notes = [json.loads(file.read_text()) for file in (tmp_path / "results").glob("*/checkpoints/*/*.json")]
    kept = max(note["task"] for note in notes if note["method"] == "efc")  # on a slow disk they are few
    process = Heard([*command, "--json"], tmp_path)
    out, told = process.communicate()
    assert process.returncode == 0, told
    assert learned.findall(told) == [str(task) for task in range(kept + 1, 6)]
    again = Heard([*command, "--json"], tmp_path)
    out_again, told = again.communicate()
    assert json.loads(out)["rows"] == json.loads(out_again)["rows"]
    assert "learned" not in told
    other = Heard([*command, "--json", "--out", "elsewhere"], tmp_path)
    fresh, _ = other.communicate()
    keep = ("accuracy", "accuracy_matrix", "confusion", "unsettled", "trace", "bwt", "fwt")
    assert [[row[k] for k in keep] for row in json.loads(out)["rows"]] == [
        [row[k] for k in keep] for row in json.loads(fresh)["rows"]
    ]


def test_two_processes_share_a_store_and_compute_nothing_twice(tmp_path: Path, whole: Any) -> None:
    both = [Heard([*BENCH, "--out", "b"], tmp_path) for _ in range(2)]
    told = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    assert numbers(tmp_path / "b") == whole
    learned = [line.partition(";")[0] for text in told for line in text.splitlines() if "task 5/5 learned" in line]
    assert len(learned) == len(set(learned)) == 12, learned


def test_worker_processes_give_the_same_and_one_that_dies_is_replaced(tmp_path: Path, whole: Any) -> None:
    process = Heard([*BENCH[:-1], "2", "--out", "b"], tmp_path)
    heard = process.until("learned")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    workers = [int(pid) for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(workers) == 2, heard
    os.kill(workers[0], signal.SIGKILL)
    _, told = process.communicate()
    assert process.returncode == 0, told
    assert "another goes on from its last checkpoint" in told
    assert numbers(tmp_path / "b") == whole


def test_orphaned_workers_do_not_linger(tmp_path: Path) -> None:
    process = Heard([*BENCH[:-1], "2", "--epochs", "400", "--out", "b"], tmp_path)
    process.until("learned")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    deadline = time.monotonic() + 600
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
