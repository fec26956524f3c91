"""Progress in a log file: plain lines, few of them, with the time left; on a terminal: bars within its width."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import efc
from efc.report.terminal import PackProgress, make_console
from efc.runs.plan import Pack
from support.records import a_run

RUN = ["run", "--methods", "sgd,analytic", "--seeds", "1", "--epochs", "2", "--hidden", "8", "--out", "o"]


def packs(count: int, tasks: int, epochs: int) -> list[Pack]:
    return [Pack((a_run(k, tasks=tasks, epochs=epochs),)) for k in range(count)]


def test_in_a_file_there_are_plain_lines(tmp_path: Path) -> None:
    """As in a batch system: nothing moves, all is text, and colours that are asked for do not spoil it."""
    file = tmp_path / "log.txt"
    with file.open("w") as target:
        environment = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
        command = [sys.executable, "-m", "efc", *RUN]
        done = subprocess.run(command, stdout=target, stderr=target, cwd=tmp_path, env=environment)
    text = file.read_text()
    assert done.returncode == 0, text
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", text)
    lines = [line for line in text.splitlines() if "learned" in line]
    assert re.fullmatch(
        r"digits: sgd \(input_compensated, class\), 1 runs: task 1/5 learned; 10 %, about \d+ s left", lines[0]
    )
    assert lines[-1].endswith("task 5/5 learned; 100 %")
    assert len(lines) == 10
    assert max(map(len, text.splitlines())) <= 120


def test_the_number_of_lines_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thousand tasks of fifty epochs in eight hours: every pack's end, and no more than the time allows."""
    clock = [0.0]
    monkeypatch.setattr("efc.report.terminal.time.monotonic", lambda: clock[0])
    out = StringIO()
    together = packs(200, 10, 50)
    with PackProgress(together, Console(file=out, width=80)) as progress:
        for pack in together:
            for task in range(1, 11):
                for epoch in range(1, 51):
                    clock[0] += 8 * 3600 / (200 * 10 * 50)
                    progress(pack, task, epoch, 50)
    lines = out.getvalue().splitlines()
    assert sum("task 10/10 learned" in line for line in lines) == 200
    assert len(lines) <= 200 + 100 + 8 * 3600 / 10
    assert "; 50 %, about 4.0 h left" in out.getvalue()
    assert lines[-1].endswith("; 100 %")


def test_a_long_task_is_not_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """One task of 600 epochs in an hour: a line a minute. What a checkpoint had does not count as this hour's work."""
    clock = [0.0]
    monkeypatch.setattr("efc.report.terminal.time.monotonic", lambda: clock[0])
    out = StringIO()
    (pack,) = packs(1, 1, 1200)
    with PackProgress([pack], Console(file=out, width=80)) as progress:
        for epoch in range(601, 1201):
            clock[0] += 6.0
            progress(pack, 1, epoch, 1200)
    lines = out.getvalue().splitlines()
    assert 55 <= len(lines) <= 62
    assert lines[29].endswith("task 1/1 epoch 900/1200; 75 %, about 30 min left")


def test_in_a_notebook_there_are_plain_lines(tmp_path: Path) -> None:
    """`!efc run` in a cell runs on a pseudo-terminal and is told to colour, but a cell is no terminal."""
    text = on_a_terminal(RUN, tmp_path, JPY_PARENT_PID="1", FORCE_COLOR="1", CLICOLOR="1")
    assert "\x1b" not in text
    assert "task 5/5 learned; 100 %" in text


def test_on_a_terminal_there_are_bars_within_eighty_columns(tmp_path: Path) -> None:
    text = on_a_terminal([*RUN, "--epochs", "20", "--head", "least_squares"], tmp_path)
    assert "\x1b[" in text
    assert "━" in text
    assert "learned" not in text
    frames = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text))
    assert max(len(frame) for frame in frames if "━" in frame) <= 80
    assert any(re.search(r"sgd \(least_squares, class\).*━.* task \d/5 epoch \d+/20 +\d\d:\d\d", f) for f in frames)


def on_a_terminal(arguments: list[str], cwd: Path, **environment: str) -> str:
    """Everything a command says to a terminal of 80 columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    settings = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
    settings |= {"TERM": "xterm-256color"} | environment
    command = [sys.executable, "-m", "efc", *arguments]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=settings) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux: nobody is left at the other end
                break
            if not part:
                break
            said += part
    os.close(ours)
    assert process.returncode == 0, said.decode()
    return said.decode()


def test_python_shows_progress_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"methods": ["sgd"], "seeds": 1, "epochs": 1, "hidden": [8], "tasks": 2}
    heard: list[tuple[int, int, int]] = []
    efc.run(progress=True, listener=lambda pack, *at: heard.append(at), **settings)
    captured = capsys.readouterr()
    assert "task 2/2 learned; 100 %" in captured.err
    assert captured.out == ""
    assert heard == [(1, 1, 1), (2, 1, 1)]
    efc.run(**settings)
    assert capsys.readouterr() == ("", "")


def test_the_kernel_of_a_notebook_is_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("JPY_PARENT_PID", "1"), ("MPLBACKEND", "module://matplotlib_inline.backend_inline")):
        with monkeypatch.context() as there:
            there.setenv(name, value)
            there.setenv("FORCE_COLOR", "1")
            assert not make_console().is_terminal
            assert make_console().width == 80
