"""`efc` as a command, in a process of its own, many times: forked from one that has done the slow imports already."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

FORKING = multiprocessing.get_context("forkserver")
PRELOADED = [
    "efc.cli.commands",
    "efc.serve.server",
    "sklearn.datasets",
    "sklearn.model_selection",
    "matplotlib.figure",
    "pydantic",
    "PIL.Image",
]
FORKING.set_forkserver_preload(PRELOADED)


class Started:
    """A command on its way, in a session of its own: ``os.killpg(command.pid, ...)`` reaches it and its children."""

    def __init__(
        self, arguments: tuple[str, ...], cwd: Path, environment: dict[str, str], folder: Path, largest: int | None
    ) -> None:
        self.arguments, self.out, self.err = arguments, folder / "out", folder / "err"
        given = (arguments, cwd, environment, self.out, self.err, largest)
        self.process = FORKING.Process(target=_command, args=given)
        self.process.start()
        assert self.process.pid is not None
        self.pid = self.process.pid

    @property
    def said(self) -> str:
        """On stderr, so far."""
        return self.err.read_text(encoding="utf-8") if self.err.exists() else ""

    def wait_for(self, happens: Callable[[], object], guard: float = 600.0) -> None:
        """Until something happens; a failure if the command ends before, or if it never does."""
        until = time.monotonic() + guard
        while not happens():
            assert self.process.is_alive(), f"efc {self.arguments} has ended: {self.said}"
            assert time.monotonic() < until, f"efc {self.arguments} hangs: {self.said}"
            time.sleep(0.01)

    def ended(self, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
        """What it said and how it ended. One that takes longer than ``timeout`` seconds is killed: it hangs."""
        self.process.join(timeout)
        hangs = self.process.is_alive()
        self.process.kill()
        self.process.join()
        assert not hangs, f"efc {self.arguments} hangs: {self.said}"
        assert self.process.exitcode is not None
        out = self.out.read_text(encoding="utf-8")
        return subprocess.CompletedProcess(["efc", *self.arguments], self.process.exitcode, out, self.said)


class Heard:
    """A command on its way whose messages are read as they come, one after the other.

    Args:
        arguments: what follows ``efc``.
        cwd: its folder.
    """

    def __init__(self, arguments: Sequence[str], cwd: Path) -> None:
        self.kept = Path(mkdtemp())
        self.command = Started(tuple(arguments), cwd, dict(os.environ), self.kept, None)
        self.pid, self.at = self.command.pid, 0
        self.returncode: int | None = None

    def until(self, text: str) -> str:
        """Its messages up to a line that holds ``text``, or to its end."""
        began = self.at
        while True:
            alive, said = self.command.process.is_alive(), self.command.said
            while (end := said.find("\n", self.at)) >= 0:
                line, self.at = said[self.at : end], end + 1
                if text in line:
                    return said[began : self.at]
            if not alive:
                return said[began:]
            time.sleep(0.005)

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.command.process.is_alive():
            os.kill(self.pid, number)

    def communicate(self) -> tuple[str, str]:
        """Wait for its end: stdout, and the messages not read yet."""
        self.command.process.join()
        self.returncode = self.command.process.exitcode
        told = self.command.out.read_text(encoding="utf-8"), self.command.said[self.at :]
        shutil.rmtree(self.kept)
        return told


@contextmanager
def started(
    *arguments: str, cwd: Path | None = None, columns: int = 80, largest: int | None = None, **environment: str
) -> Iterator[Started]:
    """A command that goes on while you look at it. ``largest``: its disk is full after so many bytes of a file."""
    seen = dict(os.environ) | {"COLUMNS": str(columns)} | environment
    with TemporaryDirectory() as folder:
        command = Started(arguments, cwd or Path.cwd(), seen, Path(folder), largest)
        try:
            yield command
        finally:
            command.process.kill()
            command.process.join()


def efc(
    *arguments: str,
    cwd: Path | None = None,
    columns: int = 80,
    timeout: float | None = None,
    largest: int | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """What a command says and how it ends. Of the environment it sees what is read after the imports, and the encoding
    of its output."""
    with started(*arguments, cwd=cwd, columns=columns, largest=largest, **environment) as command:
        return command.ended(timeout)


def _command(
    arguments: tuple[str, ...], cwd: Path, environment: dict[str, str], out: Path, err: Path, largest: int | None
) -> None:
    os.setsid()
    for stream, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), stream)
    for given in (sys.stdout, sys.stderr):
        given.reconfigure(line_buffering=False, encoding=environment.get("PYTHONIOENCODING"))  # type: ignore[union-attr]
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.path.insert(0, str(cwd))  # as `python -m efc` has it
    sys.argv = ["efc", *arguments]
    if largest is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    from efc.cli import main

    main()
