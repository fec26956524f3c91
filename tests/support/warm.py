"""Code of the manual, run in processes of their own that have done the slow imports already."""

from __future__ import annotations

import json
import os
import runpy
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.command import FORKING, efc

SHIM = """#!{python} -ISE
import json, os, socket, sys
asked = socket.socket(socket.AF_UNIX)
asked.connect({address!r})
with asked, asked.makefile("rw") as line:
    print(json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]), file=line, flush=True)
    code, out, err = json.loads(line.readline())
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
"""
"""The command ``efc`` of the shell: whoever listens runs it, forked, and says what came of it."""


@contextmanager
def shell(folder: Path) -> Iterator[dict[str, str]]:
    """An environment whose ``efc`` is one of forked processes."""
    address = folder / "asked"
    (folder / "efc").write_text(SHIM.format(python=sys.executable, address=str(address)), encoding="utf-8")
    (folder / "efc").chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(address))
        listening.listen()
        threading.Thread(target=_answer, args=(listening,), daemon=True).start()
        here = [str(folder), str(Path(sys.executable).parent), os.environ["PATH"]]
        yield dict(os.environ) | {"PATH": os.pathsep.join(here)}
        listening.shutdown(socket.SHUT_RDWR)


def _answer(listening: socket.socket) -> None:
    while True:
        try:
            asked, _ = listening.accept()
        except OSError:  # nobody listens any more
            return
        with asked, asked.makefile("rw") as line:
            arguments, cwd, environment = json.loads(line.readline())
            done = efc(*arguments, cwd=Path(cwd), **environment)
            print(json.dumps([done.returncode, done.stdout, done.stderr]), file=line, flush=True)


def python(text: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """What ``python -c text`` says and how it ends."""
    script, out, err = (cwd.parent / f"{cwd.name}.{name}" for name in ("py", "out", "err"))
    script.write_text(text, encoding="utf-8")
    process = FORKING.Process(target=_run, args=(script, cwd, dict(os.environ), out, err))
    process.start()
    process.join()
    assert process.exitcode is not None
    said = (file.read_text(encoding="utf-8") for file in (out, err))
    return subprocess.CompletedProcess(["python", text], process.exitcode, *said)


def _run(script: Path, cwd: Path, environment: dict[str, str], out: Path, err: Path) -> None:
    for stream, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), stream)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.path.insert(0, str(cwd))
    sys.argv = ["-c"]
    runpy.run_path(str(script), run_name="__main__")
