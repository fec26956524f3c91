"""Ctrl-C and SIGTERM at any moment: exit code 130, one line, no traceback, and no promise that is not kept.

Nothing here looks at the clock: what would not end by itself for ten minutes ends by the signal, or the test fails.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.command import Started, started

BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
GUARD = 600.0
LONG = ("--epochs", "100000", "--hidden", "16", "--out", "o")
SLOW = """
import sys, time
from efc.learners import SGD

class Slow(SGD):
    name = "slow"

    def descent(self, x, y):
        print("STEP", file=sys.stderr, flush=True)
        time.sleep(600)
"""
"""A method of one step that takes ten minutes."""


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def interrupted(command: Started) -> str:
    """How it ended: as it should; what it said."""
    done = command.ended(GUARD)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert re.search(r"^efc: interrupted", done.stderr.splitlines()[-1]), done.stderr
    assert done.stderr.count("interrupted") == 1
    return done.stderr


@BOTH
def test_while_it_imports(number: signal.Signals, tmp_path: Path) -> None:
    """Python itself tells what it has imported: the signal comes in the middle of it."""
    command = [sys.executable, "-X", "importtime", "-m", "efc", "run", *LONG]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.rstrip().endswith(" torch._C"):
                break
        process.send_signal(number)
        rest = process.stderr.read()
        code = process.wait(GUARD)
    said = [line for line in rest.splitlines() if not line.startswith("import time:")]
    assert (code, said) == (130, ["efc: interrupted"])
    assert not (tmp_path / "o").exists()


@BOTH
def test_while_it_trains(number: signal.Signals, tmp_path: Path) -> None:
    """Here there is a checkpoint, and it is told."""
    with started("run", "--methods", "sgd", "--seeds", "2", *LONG, cwd=tmp_path) as command:
        command.wait_for(lambda: list((tmp_path / "o" / "checkpoints").glob("*/*.json")))
        os.kill(command.pid, number)
        said = interrupted(command)
    assert "0 of 2 runs are stored, 2 have a checkpoint; the same command goes on from there" in said


def test_in_a_step_that_does_not_end(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    with started("run", "--methods", "slow:Slow", "--seeds", "1", *LONG, cwd=tmp_path) as command:
        command.wait_for(lambda: "STEP" in command.said)
        os.kill(command.pid, signal.SIGTERM)
        said = interrupted(command)
    assert "checkpoint" not in said


def test_twice_is_now(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    with started("run", "--methods", "slow:Slow", "--seeds", "1", *LONG, cwd=tmp_path) as command:
        command.wait_for(lambda: "STEP" in command.said)
        os.kill(command.pid, signal.SIGINT)
        os.kill(command.pid, signal.SIGTERM)
        interrupted(command)


@BOTH
def test_while_workers_start(number: signal.Signals, tmp_path: Path) -> None:
    """A terminal sends Ctrl-C to all of them, and so does a batch system with its SIGTERM."""
    line = ("run", "--methods", "sgd,ewc", "--seeds", "1", "--workers", "2", *LONG)
    with started(*line, cwd=tmp_path) as command:
        command.wait_for(lambda: len(children(command.pid)) >= 2)
        os.killpg(command.pid, number)
        said = interrupted(command)
    assert re.search(r"0 of 2 runs are stored(, \d have a checkpoint)?; the same command goes on", said)


@pytest.mark.slow
def test_while_workers_train(tmp_path: Path) -> None:
    line = ("run", "--methods", "sgd,ewc", "--seeds", "1", "--workers", "2", *LONG)
    with started(*line, cwd=tmp_path) as command:
        command.wait_for(lambda: len(list((tmp_path / "o" / "checkpoints").glob("*/*.json"))) >= 2)
        os.killpg(command.pid, signal.SIGTERM)
        said = interrupted(command)
    assert "0 of 2 runs are stored, 2 have a checkpoint" in said
    assert "died" not in said


def test_in_a_sweep(tmp_path: Path) -> None:
    with started("sweep", "--method", "sgd", "--trials", "2", *LONG, cwd=tmp_path) as command:
        command.wait_for(lambda: list((tmp_path / "o" / "checkpoints").glob("*/*.json")))
        os.kill(command.pid, signal.SIGTERM)
        interrupted(command)


@BOTH
def test_in_a_theory_experiment(number: signal.Signals, tmp_path: Path) -> None:
    with started("theory", "equilibrium", "--quick", "--out", "o", cwd=tmp_path) as command:
        command.wait_for(lambda: "Task A" in command.said)
        os.kill(command.pid, number)
        interrupted(command)
    assert not (tmp_path / "o" / "equilibrium.json").exists()


LOST = """
import signal, time
from efc.cli.stopping import Stopping
class Dies:
    def __del__(self):
        signal.raise_signal(signal.SIGTERM)
with Stopping() as stopping:
    stopping.ready()
    Dies()
    time.sleep(600)
"""


def test_where_python_lets_no_exception_out() -> None:
    """In a destructor, or in what a weak reference calls: the exception is lost there, and the signal is not."""
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True, timeout=GUARD)
    assert (done.returncode, done.stderr) == (130, "efc: interrupted; what was stored before is kept\n")


SAVING = """
import signal, time
from efc.cli import stopping
stopping.PATIENCE = stopping.HURRY = 0.01
with stopping.Stopping() as watch:
    watch.ready()
    watch.saving.set()
    try:
        signal.raise_signal(signal.SIGTERM)
    except stopping.Interrupted:
        while watch.saving.is_set():
            time.sleep(0.01)
    print("saved")
    try:
        signal.raise_signal(signal.SIGTERM)
    except stopping.Interrupted:
        time.sleep(600)
"""


def test_a_checkpoint_is_waited_for_and_a_second_signal_does_not_wait() -> None:
    done = subprocess.run([sys.executable, "-c", SAVING], capture_output=True, text=True, timeout=GUARD)
    assert (done.returncode, done.stdout) == (130, "saved\n"), done.stderr
    assert done.stderr == "efc: interrupted; what was stored before is kept\n"


def test_when_all_is_done(tmp_path: Path) -> None:
    """While Python clears up: all is there, and the exit code is one of the documented ones."""
    command = [sys.executable, "-m", "efc", "data", "list"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "data folder" in line:
                break
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=GUARD)
    assert process.returncode in (0, 130), rest
    assert "Traceback" not in rest
