"""`efc runs`: look into a store."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from efc.cli.report import chosen
from efc.errors import EFCError, suggest, visible
from efc.files import Json, to_csv, write_atomically
from efc.report.fitting import Fitting, shortened
from efc.report.terminal import make_console
from efc.runs.checking import check, repaired
from efc.runs.identity import flatten
from efc.runs.inspection import Failed, look, sentences
from efc.runs.record import Record, Stored
from efc.runs.results import FAILED, RunResult, document_of

app = typer.Typer(
    help="Look into a results folder: list, show, compare, export and check its runs.", no_args_is_help=True
)
Folder = Annotated[Path | None, typer.Option("--in", help="Results folder, as given to --out. Default: the newest.")]
COLUMNS = (
    "id", "dataset", "scenario", "method", "head", "seed", "evaluated_on", "status", "accuracy", "seconds", "finished",
    "code",
)  # fmt: skip
SAME = ("evaluated_on", "dataset", "scenario", "head", "status")
"""Columns that say nothing where all rows agree."""
Cells = dict[str, Json]
"""The values of ``COLUMNS``."""


class Run:
    """A run of a folder, finished or failed, as these commands show it."""

    def __init__(self, cells: Cells, settings: dict[str, Json], stored: Stored | None, message: str) -> None:
        self.cells, self.settings, self.stored, self.message = cells, settings, stored, message

    @property
    def id(self) -> str:
        return str(self.cells["id"])

    @property
    def measures(self) -> dict[str, Json]:
        return {} if self.stored is None else dict(RunResult.from_json(self.stored.result).metrics)


def open_folder(folder: Path) -> list[Run]:
    """All runs of a store that must be there already, read and not touched; says what is wrong with it."""
    found = look(folder, "--in")
    told = [found.problem] if found.problem else []
    told += [f"{folder}: {text}; efc runs check --repair mends it" for text in sentences(found.cases, mended=False)]
    for text in told:
        print(visible(text), file=sys.stderr)
    runs = [_finished(record) for record in found.records] + [_failed(failure) for failure in found.failures]
    order = ("dataset", "scenario", "method", "head")
    return sorted(runs, key=lambda run: (*(str(run.cells[name]) for name in order), int(str(run.cells["seed"]))))


def _finished(record: Record) -> Run:
    stored = record.stored()
    return Run({name: getattr(record, name) for name in COLUMNS}, dict(stored.settings), stored, "")


def _failed(failure: Failed) -> Run:
    cells = {name: failure.settings.get(name) for name in COLUMNS}
    own = {"id": failure.id, "evaluated_on": failure.settings.get("evaluate"), "status": FAILED}
    return Run(cells | own | {"finished": failure.finished}, failure.settings, None, failure.message)


@app.command(name="list")
def list_command(
    folder: Folder = None,
    where: Annotated[list[str] | None, typer.Option(help="Only these, e.g. method=efc; may be repeated.")] = None,
) -> None:
    """All runs, how they ended, and the version of the code that computed them.

    For instance: efc runs list --in results/bench --where method=efc
    """
    folder = chosen(folder, "--in")
    runs = select(open_folder(folder), where or [])
    if not runs:
        raise EFCError(f"--where: no run in {folder} has {' and '.join(where)}" if where else _nothing(folder))
    same = [name for name in SAME if len({str(run.cells[name]) for run in runs}) == 1]
    dropped = ("code", "finished", "evaluated_on", "seconds", *same, "status", "scenario", "head", "seed")
    listed = Fitting(lambda without: _listing(runs, without), list(dict.fromkeys(dropped)))
    given = os.environ.get("COLUMNS", "").isdigit()
    make_console(width=None if sys.stdout.isatty() or given else 200).print(listed)


def _listing(runs: list[Run], without: Sequence[str]) -> Table:
    """The table; where columns are left out, ids are cut to what the other commands need, and long names too."""
    names = [name for name in COLUMNS if name not in without]
    caption = f"left out for want of room: {', '.join(without)}; efc runs show ID has everything" if without else None
    table = Table(*names, caption=caption)
    for run in runs:
        shown = run.cells | {name: _number(run, name) for name in ("accuracy", "seconds")}
        if without:
            shown |= {"id": run.id[:8], "dataset": shortened(str(shown["dataset"]), 22)}
        table.add_row(*(str(shown[name]) for name in names))
    return table


def _nothing(folder: Path) -> str:
    return f"--in: no run in {folder} is finished yet; the command that computes them goes on if it is given again"


def _number(run: Run, name: str) -> str:
    """A run that diverged or failed has no accuracy: what it would have is chance, or nothing."""
    value = run.cells[name]
    known = isinstance(value, int | float) and (name != "accuracy" or run.cells["status"] == "done")
    return f"{value:.2f}" if known else "-"


def select(runs: list[Run], where: list[str]) -> list[Run]:
    """Runs that meet all conditions NAME=VALUE."""
    for condition in where:
        name, equals, value = condition.partition("=")
        if not equals or name not in COLUMNS:
            raise EFCError(f"--where: expected NAME=VALUE with a name of {', '.join(COLUMNS)}, got {condition!r}")
        runs = [run for run in runs if _is(run.cells[name], value)]
    return runs


def _is(cell: Json, value: str) -> bool:
    if isinstance(cell, int | float):
        try:
            return cell == float(value)
        except ValueError:
            return False
    return str(cell) == value


def find(runs: list[Run], prefix: str) -> Run:
    """The run whose id begins so."""
    found = [run for run in runs if run.id.startswith(prefix)]
    if len(found) != 1:
        told = f"{len(found)} runs begin" if found else f"no run begins{suggest(prefix, [run.id for run in runs])}"
        raise EFCError(f"ID: {told} with {prefix!r}; see efc runs list")
    return found[0]


@app.command()
def show(
    run: Annotated[str, typer.Argument(metavar="ID", help="The beginning of a run's id is enough.")],
    folder: Folder = None,
) -> None:
    """One run: its settings and what came of it, as JSON.

    For instance: efc runs show 3f2a --in results/bench
    """
    found = find(open_folder(chosen(folder, "--in")), run)
    came = {"failed": found.message} if found.stored is None else {"result": found.stored.result}
    status = {"status": found.cells["status"]}
    print(json.dumps({"id": found.id} | status | {"settings": found.settings} | came, indent=1))


@app.command()
def compare(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Two or more runs.")], folder: Folder = None
) -> None:
    """Side by side: in what settings runs differ, and all their measures.

    For instance: efc runs compare 3f2a 91bc --in results/bench
    """
    runs = open_folder(chosen(folder, "--in"))
    found = [find(runs, prefix) for prefix in ids]
    flat = [flatten(run.settings) for run in found]
    table = Table("", *(run.id for run in found))
    for name in dict.fromkeys(name for each in flat for name in each):
        values = [str(each.get(name, "")) for each in flat]
        if len(set(values)) > 1:
            table.add_row(name, *values)
    table.add_section()
    table.add_row("status", *(str(run.cells["status"]) for run in found))
    for name in dict.fromkeys(name for run in found for name in run.measures):
        table.add_row(name, *(f"{run.measures[name]:.2f}" if name in run.measures else "-" for run in found))
    make_console(width=None if sys.stdout.isatty() else 160).print(table)


@app.command()
def export(
    csv_file: Annotated[Path, typer.Option("--csv", help="Where to write; - for standard output.")] = Path("-"),
    folder: Folder = None,
    where: Annotated[list[str] | None, typer.Option(help="Only these, e.g. method=efc.")] = None,
) -> None:
    """All runs as CSV: how they ended, settings, options, measures and where they were computed in columns.

    For instance: efc runs export --in results/bench --csv runs.csv
    """
    lines = []
    for run in select(open_folder(chosen(folder, "--in")), where or []):
        came: dict[str, Json] = {"message": run.message} if run.stored is None else {}
        if run.stored is not None:
            environment = document_of(run.stored.result["environment"])
            came = {name: environment.get(name, "") for name in ("torch", "device", "python")}
        measured = run.measures | {"seconds": run.cells["seconds"]}
        lines.append({"id": run.id, "status": run.cells["status"]} | flatten(run.settings) | measured | came)
    names = list(dict.fromkeys(name for line in lines for name in line))
    text = to_csv([names, *([line.get(name) for name in names] for line in lines)])
    if str(csv_file) == "-":
        print(text, end="")
    elif csv_file.exists() and not csv_file.is_file():  # a pipe, a device: nothing to put in its place
        with csv_file.open("w", encoding="utf-8", errors="backslashreplace") as target:
            target.write(text)
    else:
        write_atomically(csv_file, text, "--csv")


@app.command(name="check")
def check_command(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Results folder, as given to --out. Default: the newest.")
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be mended.")] = False,
) -> None:
    """Verify a results folder: both copies of every run, failures, checkpoints, other files, and what was left behind.

    It changes nothing without --repair. Exit code 0: all is well; 1: something is wrong, and is named.

    For instance: efc runs check results/bench
    """
    folder = chosen(folder)
    found = repaired(folder, "DIR", _say) if repair else check(folder, "DIR")
    for fault in found.faults:
        _say(fault)
    _say(found.summary(folder))
    if found.faults:
        raise typer.Exit(1)


def _say(text: object) -> None:
    """A line, whatever stands in the names it tells."""
    print(visible(str(text)))
