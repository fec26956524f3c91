"""The command line. Results go to stdout, the rest to stderr; a user's mistake is one line and exit code 2.

This file imports nothing that takes time: who presses Ctrl-C while torch is imported gets one line, too.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
import warnings
from contextlib import suppress
from typing import Any, TextIO

from efc.cli.stopping import INTERRUPTED, Interrupted, Stopping, end
from efc.errors import EFCError, EFCWarning, LinesError, visible

LONGEST = 2000
"""Characters of a sentence that are shown; a value of a megabyte may stand in it."""
_TOO_LARGE = re.compile("allocate memory|enough memory|size calculation")
"""What torch says, in an error that is none of its own, of memory that is not there."""
_ASCII = {"±": "+-", "…": "..."}


def main() -> None:
    """Entry point: user mistakes become one line on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="efc")
    warnings.showwarning = _warned
    with Stopping() as stopping:
        try:
            from efc.cli.commands import app

            stopping.ready()
            code = _ended(app)
        except Interrupted as told:
            code = _tell(str(told) or "interrupted; what was finished is kept", INTERRUPTED)
        if stopping.heard and code == INTERRUPTED:
            end()
    sys.exit(code)


def __getattr__(name: str) -> Any:
    """``app``, the commands, when someone asks for it."""
    if name == "app":
        from efc.cli.commands import app

        return app
    raise AttributeError(f"module 'efc.cli' has no attribute {name!r}")


def _ended(app: Any) -> int:
    """The exit code of the command that was asked for, and one line for what a user can cause and mend."""
    import typer

    usage: Any = typer.BadParameter.__mro__[2]  # click's ClickException, wherever this version of typer keeps it
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except usage as mistake:
        return _misused(mistake)
    except LinesError as mistake:
        return _tell(str(mistake), 2, keep="\n")
    except EFCError as mistake:
        return _tell(str(mistake), 2)
    except OSError as problem:  # a full disk, a folder that is gone
        _silence_stdout()
        where = "" if problem.filename is None else f" {os.fsdecode(problem.filename)}"
        return _tell(f"cannot write or read{where}: {problem.strerror}; what was written before is intact", 2)
    except (MemoryError, RuntimeError) as problem:
        if isinstance(problem, MemoryError) or re.search(
            "allocate memory|enough memory|size calculation", str(problem)
        ):
            return _tell("there is not enough memory for this; ask for a smaller network or fewer data", 2)
        raise


def _misused(mistake: Any) -> int:
    """Usage and error as typer tells them."""
    text = io.StringIO()
    mistake.show(file=text)
    print(_short(visible(text.getvalue().rstrip())), file=sys.stderr)
    return int(mistake.exit_code)


def _tell(text: str, code: int, keep: str = "") -> int:
    """One line, whatever stands in the values it names; ``keep`` is what may stand in it all the same."""
    with suppress(OSError):  # nobody may be there to be told
        print(f"efc: {_short(visible(text, keep))}", file=sys.stderr, flush=True)
    return code


def _warned(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Our own warnings are one line without the place in the source."""
    if issubclass(category, EFCWarning):
        _tell(str(message), 0)
    else:
        (file or sys.stderr).write(warnings.formatwarning(message, category, filename, lineno, line))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _silence_stdout() -> None:
    """What could not be written would be tried again, and fail again, when Python ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _plain(error: UnicodeError) -> tuple[str | bytes, int]:
    """What an encoding lacks, such as ± in ASCII, is written otherwise; nothing is worth a traceback."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    written = (_ASCII.get(c) or c.encode("ascii", "backslashreplace").decode() for c in lacking)
    return "".join(written), error.end


codecs.register_error("efc", _plain)
