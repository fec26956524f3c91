"""`efc report` and `efc plot`: results for a reader, as a page and as figures."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from efc.cli.completion import one_of
from efc.errors import EFCError, choose
from efc.report import read_document, write_report
from efc.report.figures import FORMATS, KINDS, WIDTHS, draw
from efc.report.style import save

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Results folder, as given to --out.")]
NAMES = ("method", "head", "dataset", "scenario")


def report_command(
    folder: Folder,
    open_: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Write report.html: table, figures, configuration, in one file that needs no network.

    `efc run` and `efc bench` write it too.

    For instance: efc report results/demo --open
    """
    path = write_report(folder, read_document(folder))
    print(path)
    if open_ and not webbrowser.open(path.resolve().as_uri()):
        print(f"--open: no browser found; open {path} in one", file=sys.stderr)


def plot_command(
    folder: Folder,
    kind: Annotated[
        str, typer.Option(help="matrix, curves, confusion or effort.", autocompletion=one_of(KINDS))
    ] = "matrix",
    format_: Annotated[str, typer.Option("--format", help="pdf, svg or png.", autocompletion=one_of(FORMATS))] = "pdf",
    width: Annotated[
        str, typer.Option(help="column (3.4 in) or page (7 in).", autocompletion=one_of(WIDTHS))
    ] = "column",
    where: Annotated[list[str] | None, typer.Option(help="Only these rows, e.g. method=efc; may be repeated.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write. Default: DIR/KIND.FORMAT.")] = None,
) -> None:
    """A figure sized for a paper's column.

    For instance: efc plot results/demo --kind curves --format pdf --where scenario=class
    """
    choose("--kind", kind, KINDS)
    choose("--format", format_, FORMATS)
    choose("--width", width, WIDTHS)
    document = read_document(folder)
    document["rows"] = select_rows(document["rows"], where or [])
    path = out or folder / f"{kind}.{format_}"
    if path.suffix != f".{format_}":
        raise EFCError(f"--out: {path} does not end in .{format_}; choose the format with --format")
    save(draw(document, kind, width), path)
    print(path)


def select_rows(rows: list[dict[str, Any]], where: list[str]) -> list[dict[str, Any]]:
    """The rows that have all the values asked for; several values of one name are alternatives."""
    wanted: dict[str, set[str]] = {}
    for text in where:
        name, equals, value = text.partition("=")
        if not equals or name not in NAMES:
            raise EFCError(f"--where: expected NAME=VALUE, NAME one of {', '.join(NAMES)}; got {text!r}")
        wanted.setdefault(name, set()).update(value.split(","))
    found = [row for row in rows if all(row[name] in values for name, values in wanted.items())]
    if not found:
        raise EFCError(f"--where: no row has {' and '.join(where)}")
    return found
