"""`efc bench paper --protocol paper`."""

from __future__ import annotations

import json as codec
from pathlib import Path

from rich.table import Table

from efc.cli.bench_paper import Wanted, leave, plan_columns, stand_ins
from efc.cli.common import command_line
from efc.files import to_json, write_atomically
from efc.paper.protocol import Case, cases, config_for
from efc.paper.protocol_table import COLUMN_TITLES, Part, ProtocolCell, ProtocolTable
from efc.paper.remarks import page, remarks
from efc.report.folder import add_report, where_results_are
from efc.report.terminal import make_console
from efc.runs.session import Session

NAME = "paper-protocol"
TOLD = (
    "Protocol: the paper's, 20 epochs at a constant rate with all training data, accuracy over samples; beside it ours."
)
PAGE = f"{TOLD} On this page accuracies are means over tasks."


def plan_protocol(session: Session, wanted: Wanted, only: bool = False) -> list[Case]:
    """Plan all cells of the paper's table by both protocols, and say so.

    If it is ``only`` to be looked at, nothing is fetched or encoded: a column whose data are not at hand is listed.
    """
    stand_in = stand_ins(wanted.features)
    groups = cases(wanted.columns, wanted.scenarios, wanted.lines, wanted.widths, wanted.methods)
    session.tell(TOLD)
    columns = [group[0].column for group in groups]
    configs = [config_for(g, stand_in.get(c), wanted.settings) for c, g in zip(columns, groups, strict=True)]
    plan_columns(session, list(zip(columns, configs, strict=True)), only)
    return [case for group in groups for case in group]


def compute_protocol(session: Session, planned: list[Case], folder: Path, json: bool) -> None:
    """Compute and write the table: `paper-protocol.json`, `.csv` and `.md`, with the cells that are already in them."""
    session.compute()
    pairs = zip(planned, session.rows, strict=True)
    rows = [(case, session.row(runs)) for case, runs in pairs if session.complete(runs)]
    if rows:
        new = ProtocolTable([ProtocolCell.of(case, row, Part(command_line(), row.environment)) for case, row in rows])
        found = join(session, new, folder / f"{NAME}.json")
        text = to_json(found.to_json())
        write_atomically(folder / f"{NAME}.json", text)
        write_atomically(folder / f"{NAME}.csv", found.to_csv())
        write_atomically(folder / f"{NAME}.md", page(found))
        if json:
            print(text)
        else:
            for column, scenario in new.places:
                make_console(width=max(make_console().width, 130)).print(shown(found, column, scenario))
                for remark in remarks(found, column, scenario):
                    session.tell(remark.replace("*", ""))
        add_report(folder, session.document(command_line()), session.tell, protocol=PAGE)
        session.tell(where_results_are(folder))
    leave(session)


def join(session: Session, new: ProtocolTable, file: Path) -> ProtocolTable:
    """The new cells and those of other commands that the file holds: the table may be computed in parts."""
    if not file.exists():
        return new
    try:
        old = ProtocolTable.from_json(codec.loads(file.read_text(encoding="utf-8")))
    except (ValueError, LookupError, TypeError):
        session.tell(f"{file}: it is not a table of this version; it is written anew, with the cells asked for now")
        return new
    found, left = old.joined(new)
    if left:
        session.tell(
            f"{file}: {left} older cells left out: of other seeds, or of settings that are no longer the table's"
        )
    return found


def shown(found: ProtocolTable, column: str, scenario: str) -> Table:
    """One column in one scenario."""
    title = f"{column}, {scenario}-IL, accuracy over samples: the paper's protocol and ours"
    table = Table(*COLUMN_TITLES, title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for row in found.lines(column, scenario):
        table.add_row(*row)
    return table
