"""`efc runs`: look into a store."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from efc.errors import EFCError, suggest
from efc.files import Json
from efc.runs.identity import flatten
from efc.runs.store import Column, Store

app = typer.Typer(help="Look into a results folder: list, show, compare and export its runs.", no_args_is_help=True)
Folder = Annotated[Path, typer.Option("--in", help="Results folder, as given to --out.")]
DEFAULT = Path("results/bench")
COLUMNS = ("id", "dataset", "scenario", "method", "head", "seed", "evaluated_on", "accuracy", "seconds", "finished")


def open_folder(folder: Path) -> Store:
    """A store that must be there already."""
    if not (folder / "efc.sqlite").exists():
        raise EFCError(f"--in: there is no efc.sqlite in {folder}; name a folder that efc run, bench or sweep wrote")
    return Store(folder, lambda text: print(text, file=sys.stderr), "--in")


@app.command(name="list")
def list_command(
    folder: Folder = DEFAULT,
    where: Annotated[list[str] | None, typer.Option(help="Only these, e.g. method=efc; may be repeated.")] = None,
) -> None:
    """All finished runs.

    For instance: efc runs list --in results/bench --where method=efc
    """
    table = Table(*COLUMNS)
    with open_folder(folder) as store:
        for row in select(store, where or []):
            values = dict(zip(COLUMNS, row, strict=True))
            shown = values | {"accuracy": f"{values['accuracy']:.2f}", "seconds": f"{values['seconds']:.2f}"}
            table.add_row(*(str(shown[name]) for name in COLUMNS))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


def select(store: Store, where: list[str]) -> list[tuple[Column, ...]]:
    """Rows of the store that meet all conditions NAME=VALUE."""
    names, values = [], []
    for condition in where:
        name, equals, value = condition.partition("=")
        if not equals or name not in COLUMNS:
            raise EFCError(f"--where: expected NAME=VALUE with a name of {', '.join(COLUMNS)}, got {condition!r}")
        names.append(f"{name} = ?")
        values.append(value)
    clause = f" where {' and '.join(names)}" if names else ""
    order = "order by dataset, scenario, method, head, seed"
    return store.query(f"select {', '.join(COLUMNS)} from runs{clause} {order}", values)


def find(store: Store, prefix: str) -> tuple[str, dict[str, Json], dict[str, Any]]:
    """(id, settings, result) of the run whose id begins so."""
    rows = store.query("select id, settings, result from runs where id like ?", (f"{prefix}%",))
    if len(rows) != 1:
        ids = [str(row[0]) for row in store.query("select id from runs")]
        told = f"{len(rows)} runs begin" if rows else f"no run begins{suggest(prefix, ids)}"
        raise EFCError(f"ID: {told} with {prefix!r}; see efc runs list")
    key, settings, result = (str(text) for text in rows[0])
    return key, json.loads(settings), json.loads(result)


@app.command()
def show(
    run: Annotated[str, typer.Argument(metavar="ID", help="The beginning of a run's id is enough.")],
    folder: Folder = DEFAULT,
) -> None:
    """One run: its settings and what came of it, as JSON.

    For instance: efc runs show 3f2a --in results/bench
    """
    with open_folder(folder) as store:
        key, settings, result = find(store, run)
    print(json.dumps({"id": key, "settings": settings, "result": result}, indent=1))


@app.command()
def compare(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Two or more runs.")], folder: Folder = DEFAULT
) -> None:
    """Side by side: in what settings runs differ, and all their measures.

    For instance: efc runs compare 3f2a 91bc --in results/bench
    """
    with open_folder(folder) as store:
        found = [find(store, prefix) for prefix in ids]
    flat = [flatten(settings) for _, settings, _ in found]
    table = Table("", *(key for key, _, _ in found))
    names = dict.fromkeys(name for each in flat for name in each)
    for name in names:
        values = [str(each.get(name, "")) for each in flat]
        if len(set(values)) > 1:
            table.add_row(name, *values)
    table.add_section()
    for name in found[0][2]["metrics"]:
        table.add_row(name, *(f"{result['metrics'][name]:.2f}" for _, _, result in found))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


@app.command()
def export(
    csv_file: Annotated[Path, typer.Option("--csv", help="Where to write; - for standard output.")] = Path("-"),
    folder: Folder = DEFAULT,
    where: Annotated[list[str] | None, typer.Option(help="Only these, e.g. method=efc.")] = None,
) -> None:
    """All finished runs as CSV: settings, options and measures in columns.

    For instance: efc runs export --in results/bench --csv runs.csv
    """
    with open_folder(folder) as store:
        lines = []
        for row in select(store, where or []):
            key, settings, result = find(store, str(row[0]))
            lines.append({"id": key} | flatten(settings) | result["metrics"] | {"seconds": result["seconds"]})
    names = list(dict.fromkeys(name for line in lines for name in line))
    try:
        target = sys.stdout if str(csv_file) == "-" else csv_file.open("w", newline="", encoding="utf-8")
    except OSError as problem:
        raise EFCError(f"--csv: cannot write {csv_file}: {problem.strerror}") from None
    with target if target is not sys.stdout else _Open():
        writer = csv.DictWriter(target, names)
        writer.writeheader()
        writer.writerows(lines)


class _Open:
    """Leaves standard output open."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None
