"""The SQLite file of a store: opened, and if it is damaged set aside and begun anew with what is whole in it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import astuple
from datetime import datetime
from functools import cache
from pathlib import Path

from filelock import FileLock

from efc.errors import EFCError
from efc.runs.record import COLUMNS, OLD, Column, Record, read_row

DATABASE = "efc.sqlite"
Row = tuple[Column, ...]
"""As the database holds it, its checksum last."""
RUN_COLUMNS = (*COLUMNS, "checksum")
FAILURE_COLUMNS = ("run", "kin", "settings", "message", "finished", "checksum")
SCHEMA = """
create table if not exists runs (
  id text primary key, method text, head text, dataset text, scenario text, seed integer, evaluated_on text,
  accuracy real, seconds real, finished text, settings text, result text, status text, code text, kin text, copy text,
  checksum text
);
create table if not exists metrics (run text, name text, value real, primary key (run, name));
create table if not exists failures (
  run text primary key, kin text, settings text, message text, finished text, checksum text
);
create table if not exists notes (name text primary key, value text);
create table if not exists claims (run text primary key, owner text, host text, pid integer, beat real);
"""
BROKEN = (sqlite3.Error, UnicodeDecodeError)
"""What a damaged database may raise."""
HINDERED = (
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR,
)  # fmt: skip
"""What keeps SQLite from a file that is not damaged."""


def open_database(folder: Path, argument: str) -> tuple[sqlite3.Connection, str]:
    """A connection, and what a damaged file is called now; empty if there was none."""
    file = folder / DATABASE
    try:
        return _connect(file), ""
    except BROKEN as problem:
        _refuse_hindered(file, problem, argument)
    with FileLock(folder / ".efc.lock"):  # two processes may find the damage at the same time
        try:
            return _connect(file), ""
        except BROKEN as problem:
            _refuse_hindered(file, problem, argument)
        rows = salvage(file, "mode=ro")
        aside = file.with_name(f"{DATABASE}.damaged-{datetime.now():%Y%m%d-%H%M%S-%f}")
        for suffix in ("-wal", "-shm", ""):  # the log first: it must not be taken for that of the new file
            part = file.with_name(file.name + suffix)
            if part.exists():
                part.replace(aside.with_name(aside.name + suffix))
        database = _connect(file)
        for row in rows:
            insert(database, Record(*row[:-1]))  # type: ignore[arg-type]
        return database, aside.name


def _refuse_hindered(file: Path, problem: Exception, argument: str) -> None:
    code = getattr(problem, "sqlite_errorcode", 0)
    # A damaged header may call for a reader of another version: SQLite then says that the file is read-only.
    damaged = code == sqlite3.SQLITE_IOERR_SHORT_READ or (code == sqlite3.SQLITE_READONLY and os.access(file, os.W_OK))
    if code & 0xFF in HINDERED and not damaged:
        raise EFCError(f"{argument}: cannot open {file}: {problem}") from None


def _connect(file: Path) -> sqlite3.Connection:
    database = sqlite3.connect(file, timeout=30, check_same_thread=False, isolation_level=None)
    database.text_factory = forgiving
    try:
        database.execute("pragma journal_mode = wal")
        database.execute("pragma synchronous = normal")
        database.executescript(SCHEMA)
        _check_columns(database)
        database.execute("create index if not exists kin on runs (kin)")
        (verdict,) = database.execute("pragma integrity_check(1)").fetchone()
        if verdict != "ok":
            raise sqlite3.DatabaseError(f"malformed: {verdict}")
        database.execute("delete from claims where owner = ''")  # whether it can be written to shows only now
    except BaseException:
        database.close()
        raise
    return database


TABLES = ("runs", "metrics", "failures", "notes", "claims")


@cache
def _right(table: str) -> list[Row]:
    """How a table is declared."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(SCHEMA)
        return _declared(database, table)


def _declared(database: sqlite3.Connection, table: str) -> list[Row]:
    """Name, type and place in the key of every column; SQLite converts what is written to that type."""
    return [(line[1], line[2], line[5]) for line in database.execute(f"pragma table_info({table})")]


def _check_columns(database: sqlite3.Connection) -> None:
    """Names and types of columns are texts in the file, and may be damaged as everything else."""
    there = {table: _declared(database, table) for table in TABLES}
    right = all(there[table] == _right(table) for table in TABLES[1:])
    runs = _right("runs")
    if not right or there["runs"][:OLD] != runs[:OLD] or not set(there["runs"]) <= set(runs):
        raise sqlite3.DatabaseError("malformed: the tables have other columns")
    if len(there["runs"]) < len(RUN_COLUMNS):
        _add_columns(database)


def _add_columns(database: sqlite3.Connection) -> None:
    """Those that the first version did not have."""
    database.execute("begin immediate")
    there = _columns(database, "runs")  # another process may have been faster
    for name in RUN_COLUMNS[OLD:]:
        if name not in there:
            database.execute(f"alter table runs add column {name} text")
    database.execute("commit")


def _columns(database: sqlite3.Connection, table: str) -> list[str]:
    return [str(line[1]) for line in database.execute(f"pragma table_info({table})")]


def salvage(file: Path, mode: str) -> list[Row]:
    """The rows of a damaged database that are whole, as far as it can be read."""
    found: list[Row] = []
    try:
        with closing(sqlite3.connect(f"{file.resolve().as_uri()}?{mode}", uri=True, timeout=30)) as database:
            database.text_factory = forgiving
            for row in database.execute(f"select {', '.join(RUN_COLUMNS)} from runs not indexed"):
                if read_row(row)[1]:
                    found.append(row)
    except BROKEN:
        pass
    return found


def has_runs(database: sqlite3.Connection) -> bool:
    """Whether there is a table of runs at all."""
    return bool(_columns(database, "runs"))


def select_rows(database: sqlite3.Connection, table: str, names: Sequence[str]) -> list[Row]:
    """All rows of a table in their order, None in columns that an older version did not have."""
    there = _columns(database, table)
    if not there:
        return []
    wanted = ", ".join(name if name in there else "null" for name in names)
    return database.execute(f"select {wanted} from {table} order by rowid").fetchall()


def forgiving(content: bytes) -> str:
    """Texts of the database, damaged ones too: their checksum will tell."""
    return content.decode("utf-8", "replace")


def insert(database: sqlite3.Connection, record: Record) -> None:
    """A run that is there already stays as it is."""
    row = (*astuple(record), record.checksum)
    marks = ", ".join("?" * len(row))
    database.execute(f"insert or ignore into runs ({', '.join(RUN_COLUMNS)}) values ({marks})", row)
    lines = [(record.id, name, value) for name, value in json.loads(record.result)["metrics"].items()]
    database.executemany("insert or ignore into metrics values (?, ?, ?)", lines)
