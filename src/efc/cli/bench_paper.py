"""`efc bench paper`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from efc.cli.common import command_line
from efc.errors import EFCError
from efc.files import to_json, write_atomically
from efc.paper.table import BOTH, COLUMNS, config_of, document, entries, markdown, table, to_csv, told
from efc.report.terminal import make_console
from efc.runs.session import Session, add_report, where_results_are


def stand_ins(given: Sequence[str]) -> dict[str, str]:
    """``["cifar10-resnet18=npz:FILE"]`` as a mapping from columns to data sets."""
    found = {}
    for text in given:
        column, equals, data = text.partition("=")
        if not equals or column not in COLUMNS:
            raise EFCError(f"--features: expected COLUMN=npz:FILE, COLUMN one of {', '.join(COLUMNS)}; got {text!r}")
        found[column] = data
    return found


def bench_paper(
    session: Session,
    columns: Sequence[str],
    scenarios: Sequence[str],
    features: Sequence[str],
    lines: str,
    settings: Mapping[str, Any],
    show_plan: Any,
    plan_only: bool,
    json: bool,
) -> None:
    """Plan, compute and write the whole table: `paper.json`, `paper.csv` and a page's tables in `paper.md`."""
    stand_in = stand_ins(features)
    wanted, missing = entries(columns, scenarios or BOTH, lines)
    for line in told(missing):
        session.tell(line)
    configs = []
    for column in columns:
        mine = [entry for entry in wanted if entry.column == column]
        if mine:
            configs.append(config_of(column, mine, stand_in.get(column), settings))
    plan = session.plan(configs)
    show_plan(session, plan)
    if plan_only:
        return
    report = session.compute(plan)
    found = document(wanted, plan.rows, report.results, command_line())
    if found["rows"]:
        text = to_json(found)
        write_atomically(session.folder / "paper.json", text)
        write_atomically(session.folder / "paper.csv", to_csv(found))
        shown = dict.fromkeys(row["column"] for row in found["rows"])
        pages = [f"## {column}\n\n{markdown(found, column)}" for column in shown]
        write_atomically(session.folder / "paper.md", "\n".join(pages))
        if json:
            print(text)
        else:
            make_console(width=max(make_console().width, 60 + 22 * 2 * len(columns))).print(table(found))
        add_report(session.folder, plan.document(report, command_line()), session.tell)
        session.tell(where_results_are(session.folder))
    for pack, message in report.failures:
        session.tell(f"Failed: {pack.label}: {message}")
    if report.stopped:
        session.tell("efc: interrupted; the same command goes on from here")
        raise typer.Exit(130)
    if report.failures:
        raise typer.Exit(1)
