"""`efc bench paper`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.table import Table

from efc.cli.common import command_line
from efc.data.store import SPECS, data_root, here
from efc.errors import EFCError
from efc.files import to_json, write_atomically
from efc.paper.lines import COLUMNS
from efc.paper.protocol import SOURCES
from efc.paper.table import Cell, Entry, PaperTable, config_of, entries, told
from efc.report.diagnosed import diagnosis_table
from efc.report.folder import add_report, where_results_are
from efc.report.terminal import make_console
from efc.runs.config import RunConfig
from efc.runs.session import Session

TOLD = "Protocol: fair, the same head, search and validation data for every method, accuracy over tasks."


def stand_ins(given: Sequence[str]) -> dict[str, str]:
    """``["cifar10-resnet18=npz:FILE"]`` as a mapping from columns to data sets."""
    found = {}
    for text in given:
        column, equals, data = text.partition("=")
        if not equals or column not in COLUMNS:
            raise EFCError(f"--features: expected COLUMN=npz:FILE, COLUMN one of {', '.join(COLUMNS)}; got {text!r}")
        found[column] = data
    return found


@dataclass(frozen=True)
class Wanted:
    """Which part of the table is asked for."""

    columns: Sequence[str]
    scenarios: Sequence[str]
    features: Sequence[str]
    """``COLUMN=npz:FILE``: features in place of an encoder's."""
    lines: str
    """Parts of the names of lines, divided by semicolons; empty: all."""
    settings: Mapping[str, object]
    widths: Sequence[str] = SOURCES
    """By the paper's protocol: the networks of its text, of its code, or both."""
    methods: Sequence[str] = ()
    """By the paper's protocol: these rows alone."""

    @property
    def entries(self) -> list[Entry]:
        return entries(self.columns, self.scenarios, self.lines)[0]


def plan_table(session: Session, wanted: Wanted, only: bool = False) -> None:
    """Plan all cells; say which cannot be computed.

    If it is ``only`` to be looked at, nothing is fetched or encoded: a column whose data are not at hand is listed.
    """
    stand_in = stand_ins(wanted.features)
    session.tell(TOLD)
    found, missing = entries(wanted.columns, wanted.scenarios, wanted.lines)
    for line in told(missing):
        session.tell(line)
    configs = []
    for column in wanted.columns:
        mine = [entry for entry in found if entry.column == column]
        if mine:
            configs.append((column, config_of(column, mine, stand_in.get(column), wanted.settings)))
    plan_columns(session, configs, only)


def plan_columns(session: Session, configs: Sequence[tuple[str, RunConfig]], only: bool) -> None:
    """Plan the runs of each column; if it is ``only`` to be looked at, list those whose data are not at hand."""
    away: dict[tuple[str, str], int] = {}
    for column, config in configs:
        if only and not at_hand(config):
            what = config.dataset if config.encoder == "none" else f"{config.dataset}, encoded by {config.encoder}"
            away[column, what] = away.get((column, what), 0) + len(config.rows) * config.seeds
    for (column, what), runs in away.items():
        session.tell(f"{column}: {runs} runs; how many are stored, and how long the others take, is known with {what}")
    session.plan([config for _, config in configs if not only or at_hand(config)], build_all=not only)


def at_hand(config: RunConfig) -> bool:
    """Whether the data can be read at once: neither fetched nor encoded."""
    if config.encoder != "none":
        return False
    return config.dataset not in SPECS or here(config.dataset, data_root(config.data_dir)) == "yes"


def compute_table(session: Session, wanted: Wanted, folder: Path, json: bool) -> None:
    """Compute and write the table: `paper.json`, `paper.csv` and a page's tables in `paper.md`."""
    session.compute()
    pairs = zip(wanted.entries, session.rows, strict=True)
    rows = [(entry, session.row(runs)) for entry, runs in pairs if session.complete(runs)]
    if rows:
        found = PaperTable([Cell.of(*pair) for pair in rows], rows[0][1].environment, command_line())
        text = to_json(found.to_json())
        write_atomically(folder / "paper.json", text)
        write_atomically(folder / "paper.csv", found.to_csv())
        pages = [f"## {column}\n\n{found.markdown(column)}" for column in found.names(lambda cell: cell.column)]
        write_atomically(folder / "paper.md", "\n".join(pages))
        if json:
            print(text)
        else:
            make_console(width=max(make_console().width, 60 + 22 * 2 * len(wanted.columns))).print(shown(found))
            diagnosis_table(session.document(), make_console())
        add_report(folder, session.document(command_line()), session.tell, protocol=TOLD)
        session.tell(where_results_are(folder))
    leave(session)


def leave(session: Session) -> None:
    """Say what failed, and leave with the exit code."""
    for pack, message in session.failures:
        session.tell(f"Failed: {pack.label}: {message}")
    if session.stopped:
        session.tell("efc: interrupted; the same command goes on from here")
        raise typer.Exit(130)
    if session.failures:
        raise typer.Exit(1)


def shown(found: PaperTable) -> Table:
    """Lines by columns, ours with the paper's in brackets."""
    heads = list(dict.fromkeys((cell.column, cell.scenario) for cell in found.cells))
    table = Table("", *(f"{column}\n{scenario}-IL" for column, scenario in heads), box=None, padding=(0, 2, 0, 0))
    for line in found.names(lambda cell: cell.line):
        table.add_row(line, *(str(found.find(line, *head) or "") for head in heads))
    return table
