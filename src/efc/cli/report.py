"""`efc report`: results as a page."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from efc.errors import visible
from efc.report import read_results, write_report
from efc.report.folder import newest_results
from efc.report.terminal import print_path

Folder = Annotated[
    Path | None, typer.Argument(metavar="[DIR]", help="Results folder, as given to --out. Default: the newest.")
]


def chosen(folder: Path | None, argument: str = "DIR") -> Path:
    """The folder that is named, or the newest, which is told."""
    if folder is None:
        folder = newest_results(argument=argument)
        print(f"{visible(str(folder))}: the newest results", file=sys.stderr)
    return folder


def report_command(
    folder: Folder = None,
    out: Annotated[Path | None, typer.Option(help="File to write. Default: DIR/report.html.")] = None,
    open_: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Write report.html: table, figures, configuration, in one file that needs no network.

    `efc run` and `efc bench` write it too.

    For instance: efc report results/demo --open
    """
    folder = chosen(folder)
    results = read_results(folder, tell=lambda text: print(visible(text), file=sys.stderr))
    path = write_report(folder, results, out)
    print_path(path)
    if open_ and not webbrowser.open(path.resolve().as_uri()):
        print(f"--open: no browser found; open {visible(str(path))} in one", file=sys.stderr)
