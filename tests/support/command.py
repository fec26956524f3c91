"""`efc` as a command, in a process of its own, many times: forked from one that has done the slow imports already."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(["efc.cli", "sklearn.datasets", "sklearn.model_selection", "matplotlib.figure"])


def efc(
    *arguments: str, cwd: Path | None = None, columns: int = 80, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What a command says and how it ends. Of the environment it sees what is read after the imports."""
    with TemporaryDirectory() as folder:
        said = [Path(folder) / name for name in ("out", "err")]
        seen = dict(os.environ) | {"COLUMNS": str(columns)} | environment
        process = FORKING.Process(target=_command, args=(arguments, cwd or Path.cwd(), seen, *said))
        process.start()
        process.join()
        out, err = (file.read_text(encoding="utf-8") for file in said)
    assert process.exitcode is not None
    return subprocess.CompletedProcess(["efc", *arguments], process.exitcode, out, err)


def _command(arguments: tuple[str, ...], cwd: Path, environment: dict[str, str], out: Path, err: Path) -> None:
    for stream, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), stream)
    for given in (sys.stdout, sys.stderr):
        given.reconfigure(line_buffering=False)  # type: ignore[union-attr]
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.path.insert(0, str(cwd))  # as `python -m efc` has it
    sys.argv = ["efc", *arguments]
    from efc.cli import main

    main()
