"""`efc report`: results as a page."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from efc.report import read_results, write_report

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Results folder, as given to --out.")]


def report_command(
    folder: Folder,
    open_: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Write report.html: table, figures, configuration, in one file that needs no network.

    `efc run` and `efc bench` write it too.

    For instance: efc report results/demo --open
    """
    path = write_report(folder, read_results(folder))
    print(path)
    if open_ and not webbrowser.open(path.resolve().as_uri()):
        print(f"--open: no browser found; open {path} in one", file=sys.stderr)
