"""`efc plot`: results as figures for a paper."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from efc.cli.completion import one_of
from efc.cli.report import Folder, chosen
from efc.errors import EFCError, choose
from efc.report import read_results
from efc.report.figures import FORMATS, KINDS, WIDTHS, draw
from efc.report.style import save
from efc.report.terminal import print_path
from efc.runs.results import ResultRow

NAMES = ("method", "head", "dataset", "scenario")


def plot_command(
    folder: Folder = None,
    kind: Annotated[
        str,
        typer.Option(help="matrix, curves, confusion, effort, diagnosis or prequential.", autocompletion=one_of(KINDS)),
    ] = "matrix",
    format_: Annotated[str, typer.Option("--format", help="pdf, svg or png.", autocompletion=one_of(FORMATS))] = "pdf",
    width: Annotated[
        str | None,
        typer.Option(
            help="column (3.4 in) or page (7 in). Default: column, if that fits a page.", autocompletion=one_of(WIDTHS)
        ),
    ] = None,
    where: Annotated[list[str] | None, typer.Option(help="Only these rows, e.g. method=efc; may be repeated.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write. Default: DIR/KIND.FORMAT.")] = None,
) -> None:
    """A figure sized for a paper's column.

    For instance: efc plot results/demo --kind curves --format pdf --where scenario=class
    """
    choose("--kind", kind, KINDS)
    choose("--format", format_, FORMATS)
    if width is not None:
        choose("--width", width, WIDTHS)
    folder = chosen(folder)
    results = read_results(folder, tell=lambda text: print(text, file=sys.stderr))
    results = replace(results, rows=select_rows(results.rows, where or []))
    path = out or folder / f"{kind}.{format_}"
    if path.suffix != f".{format_}":
        raise EFCError(f"--out: {path} does not end in .{format_}; choose the format with --format")
    save(draw(results, kind, width), path, argument="--out")
    print_path(path)


def select_rows(rows: list[ResultRow], where: list[str]) -> list[ResultRow]:
    """The rows that have all the values asked for; several values of one name are alternatives."""
    wanted: dict[str, set[str]] = {}
    for text in where:
        name, equals, value = text.partition("=")
        if not equals or name not in NAMES:
            raise EFCError(f"--where: expected NAME=VALUE, NAME one of {', '.join(NAMES)}; got {text!r}")
        wanted.setdefault(name, set()).update(value.split(","))
    found = [row for row in rows if all(getattr(row, name) in values for name, values in wanted.items())]
    if not found:
        raise EFCError(f"--where: no row has {' and '.join(where)}")
    return found
