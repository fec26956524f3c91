"""One benchmark in a process of its own, for ``soak.py``: begun cold, as a shell begins it, or warm.

Most of a short benchmark is the import of torch. A warm command is forked from a process that has imported what the
command imports, and has computed nothing; from there on it is the same ``python -m efc``. What has passed is told in
seconds of processor time, so that a busy machine does not change where a benchmark is broken.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from multiprocessing import resource_tracker
from pathlib import Path

PATIENCE = 600.0
"""Seconds of processor time after which a command counts as hanging, or of waiting without any."""
TICK = os.sysconf("SC_CLK_TCK")
IMPORTED = (
    "efc.cli.commands",
    "pydantic.fields",
    "sklearn.datasets",
    "sklearn.model_selection",
    "matplotlib.figure",
    "matplotlib.backends.backend_agg",
    "PIL.PngImagePlugin",
    "plotly",
)
"""What the process that warm commands are forked from has imported."""


class TroubleError(Exception):
    """Something that must never happen."""


def prepare() -> None:
    """Have warm commands forked from a process that this one's modules are known to."""
    folder = str(Path(__file__).resolve().parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
    os.environ.update(OMP_NUM_THREADS="1", RAY_USAGE_STATS_ENABLED="0")
    multiprocessing.set_forkserver_preload([*IMPORTED, __name__])


class Command:
    """``efc`` with these arguments."""

    def __init__(self, arguments: list[str], cold: bool) -> None:
        handle, name = tempfile.mkstemp(prefix="soak-", suffix=".txt")
        os.close(handle)
        self.said = Path(name)
        self.process: subprocess.Popen[bytes] | multiprocessing.process.BaseProcess
        if cold:
            with self.said.open("wb") as said:
                self.process = subprocess.Popen([sys.executable, "-m", "efc", *arguments], stdout=said, stderr=said)
        else:
            forked = multiprocessing.get_context("forkserver")
            self.process = forked.Process(target=_efc, args=(arguments, name))
            self.process.start()
        assert self.process.pid is not None
        self.pid = self.process.pid
        self.used: dict[int, float] = {}

    @property
    def ended(self) -> bool:
        return self._code() is not None

    def _code(self) -> int | None:
        return self.process.poll() if isinstance(self.process, subprocess.Popen) else self.process.exitcode

    def send(self, number: int) -> None:
        if not self.ended:
            os.kill(self.pid, number)

    def workers(self) -> list[int]:
        """The process numbers of its worker processes."""
        found = []
        with suppress(OSError):  # it has just ended
            for child in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(int(child))
        return found

    def seconds(self) -> float:
        """Of processor time that it and its workers have used."""
        for process in (self.pid, *self.workers()):
            with suppress(OSError, IndexError):
                stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                self.used[process] = (int(stat[11]) + int(stat[12])) / TICK  # utime and stime
        return sum(self.used.values())

    def finished(self) -> bool:
        """Wait for its end; whether it came to the end of its work. A traceback is trouble."""
        began = used = self.seconds()
        moved = time.monotonic()
        while not self.ended:
            if (now := self.seconds()) > used:
                used, moved = now, time.monotonic()
            if used - began > PATIENCE or time.monotonic() - moved > PATIENCE:
                os.kill(self.pid, signal.SIGKILL)
                raise TroubleError(f"a command hangs: it has used {used:.0f} s of processor time")
            time.sleep(0.05)
        text = self.said.read_text(encoding="utf-8", errors="replace")
        self.said.unlink()
        if "Traceback" in text:
            raise TroubleError(f"a traceback:\n{text[-3000:]}")
        return self._code() == 0


def run_for(seconds: float, *commands: Command) -> bool:
    """Whether all of them are still running after they have used so many seconds more, together."""
    until = sum(command.seconds() for command in commands) + seconds
    while not any(command.ended for command in commands):
        if sum(command.seconds() for command in commands) >= until:
            return True
        time.sleep(0.02)
    return False


def _efc(arguments: list[str], said: str) -> None:
    """In the forked process: become ``python -m efc``."""
    file = os.open(said, os.O_WRONLY | os.O_APPEND)
    for output in (1, 2):
        os.dup2(file, output)
    os.close(file)
    tracker = resource_tracker._resource_tracker  # that of who began the soak; each command has its own
    tracker._fd = tracker._pid = None  # type: ignore[attr-defined]
    sys.argv = ["efc", *arguments]
    runpy.run_module("efc", run_name="__main__", alter_sys=True)
