"""Both copies of every finished run compared: which is whole, which is damaged or missing, what follows from it."""

from __future__ import annotations

import os
import re
import socket
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from efc.errors import EFCError
from efc.files import Json
from efc.runs.database import (
    BROKEN,
    DATABASE,
    FAILURE_COLUMNS,
    RUN_COLUMNS,
    Row,
    forgiving,
    has_runs,
    salvage,
    select_rows,
)
from efc.runs.reading import DAMAGE, parse, sha256, text
from efc.runs.record import Column, Record, read_file, read_row, read_settings, row_checksum, same

STALE = 30.0
"""Seconds without a sign of life after which a claim from another machine counts for nothing."""
KEY = re.compile("[0-9a-f]{16}")
"""What the id of a run looks like."""
FILES = "runs"
FAULTS = {
    "row missing": "{runs} missing in efc.sqlite, whole in runs/",
    "row damaged": "{runs} damaged in efc.sqlite, whole in runs/",
    "file missing": "{runs} missing in runs/, whole in efc.sqlite",
    "file damaged": "{runs} damaged in runs/, whole in efc.sqlite",
    "differs": "{runs} not the same in runs/ and in efc.sqlite, whose checksum is right",
    "contested": "{runs} not the same in runs/ and in efc.sqlite, and of a version without checksums; "
    "that of efc.sqlite is taken",
    "lost": "{runs} whole neither in efc.sqlite nor in runs/",
}
"""What may be wrong with a run; ``runs`` stands for one or several and their verb."""
MENDED = {
    "row missing": "restored from there",
    "row damaged": "restored from there",
    "file missing": "written again from there",
    "file damaged": "written again from there",
    "differs": "written again from there",
    "contested": "",
    "lost": "set aside, to be computed again",
}


@dataclass(frozen=True)
class Case:
    """What both copies of a run say together."""

    id: str
    record: Record | None
    """What is right; None: neither copy tells."""
    fault: str = ""
    """A name of ``FAULTS``; empty: none."""
    row: bool = False
    """Whether the row has to be written, with the present hash of the file."""
    file: bool = False
    """Whether the file has to be written."""


def examine(rows: Iterable[Row], folder: Path, being_stored: Iterable[str] = ()) -> Iterator[Case]:
    """One case per run. ``being_stored`` are runs that someone alive is computing: a file is there before its row."""
    names = {file.stem for file in _files(folder)}
    known: set[str] = set()
    for row in rows:
        key = str(row[0])
        known.add(key)
        yield judge(key, row, content_of(folder, key))
    for key in sorted(names - known - set(being_stored)):
        yield judge(key, None, content_of(folder, key))


def judge(key: str, row: Row | None, content: bytes | None) -> Case:
    """Compare a row with the content of its file; None where there is none."""
    record, vouched = (None, False) if row is None else read_row(row)
    if record is not None and vouched and content is not None and record.copy == sha256(content):
        return Case(key, record)
    stored, sealed = (None, False) if content is None else read_file(content, key)
    if record is None:
        if stored is None or content is None:
            return Case(key, None, "lost")
        return Case(key, Record.of(stored, content), "row missing" if row is None else "row damaged", row=True)
    if stored is None or content is None:
        return Case(key, record, "file missing" if content is None else "file damaged", row=True, file=True)
    if same(stored, record.stored()):
        return Case(key, replace(record, copy=sha256(content)), row=True)  # another version's, or set out anew
    if vouched:
        return Case(key, record, "differs", row=True, file=True)
    if sealed:
        return Case(key, Record.of(stored, content), "row damaged", row=True)
    return Case(key, record, "contested")


def sentences(cases: Sequence[Case], mended: bool) -> list[str]:
    """A sentence for every kind of fault."""
    found = []
    for fault, pattern in FAULTS.items():
        ids = [case.id for case in cases if case.fault == fault]
        if not ids:
            continue
        listed = ", ".join(ids[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")
        runs = f"run {ids[0]} is" if len(ids) == 1 else f"{len(ids)} runs ({listed}) are"
        done = MENDED[fault] if mended else ""
        found.append(pattern.format(runs=runs) + (f"; {done}" if done else ""))
    return found


@dataclass(frozen=True)
class Failed:
    """A run that ended in an error."""

    id: str
    settings: dict[str, Json]
    message: str
    finished: str


@dataclass(frozen=True)
class Looked:
    """What a folder holds, read and not touched."""

    records: list[Record]
    failures: list[Failed]
    cases: list[Case]
    """Those with a fault."""
    unreadable: int
    """Failures whose row is damaged."""
    problem: str
    """What is wrong with the database as a whole; empty: nothing."""


def look(folder: Path, argument: str, thorough: bool = False) -> Looked:
    """Read a results folder, which may be read-only; the right values, and what is wrong.

    ``thorough`` also finds damage in the database that does not touch what it says.
    """
    if not (folder / DATABASE).exists() and not any(_files(folder)):
        hint = (
            f"there is no {DATABASE} in {folder}; name a folder that efc run, bench or sweep wrote, or compute some: "
        )
        hint += f"efc run --out {folder}"
        raise EFCError(f"{argument}: {hint}")
    rows, failures, claimed, problem = _read_database(folder / DATABASE, thorough)
    cases = list(examine(rows, folder, claimed))
    records = [case.record for case in cases if case.record is not None]
    read = [read_failure(row) for row in failures]
    told = [failure for failure in read if failure is not None]
    return Looked(records, told, [case for case in cases if case.fault], len(read) - len(told), problem)


def read_failure(row: Row) -> Failed | None:
    """A row of ``failures``; None where it is damaged."""
    *values, checksum = row
    try:
        if checksum != row_checksum(values):
            return None
        key, _, settings, message, finished = map(text, values)
        return Failed(key, read_settings(parse(settings.encode())), message, finished)
    except DAMAGE:
        return None


def _read_database(file: Path, thorough: bool) -> tuple[list[Row], list[Row], list[str], str]:
    """Rows, failures, runs claimed by someone alive, and what is wrong with the whole."""
    if not file.exists():
        return [], [], [], f"{file} is missing"
    problem, modes = "", ("mode=ro", "immutable=1")
    # Without a log nobody has it open: it can be read as it is, which leaves nothing behind and needs no permission.
    for mode in modes if file.with_name(f"{file.name}-wal").exists() else reversed(modes):
        try:
            with closing(sqlite3.connect(f"{file.resolve().as_uri()}?{mode}", uri=True, timeout=30)) as database:
                database.text_factory = forgiving
                rows = select_rows(database, "runs", RUN_COLUMNS)
                failures = select_rows(database, "failures", FAILURE_COLUMNS)
                claims = select_rows(database, "claims", ("run", "host", "pid", "beat"))
                working = [str(row[0]) for row in claims if alive(*row[1:])]
                (verdict,) = database.execute("pragma integrity_check(1)").fetchone() if thorough else ("ok",)
                told = "" if verdict == "ok" else f"{file} is damaged ({' '.join(str(verdict).split())})"
                if not has_runs(database):  # an empty file is a database to SQLite
                    told = f"{file} is empty, or has lost its table of runs"
                return rows, failures, working, told
        except BROKEN as error:
            problem = problem or f"{file} cannot be read ({error})"
    return salvage(file, "immutable=1"), [], [], problem


def _files(folder: Path) -> Iterator[Path]:
    try:
        yield from (file for file in (folder / FILES).iterdir() if file.suffix == ".json" and file.name[0] != ".")
    except OSError:
        return


def content_of(folder: Path, key: str) -> bytes | None:
    """What the file of a run holds; None: there is none."""
    if not KEY.fullmatch(key):
        return None  # damage: it names no file of ours
    try:
        return (folder / FILES / f"{key}.json").read_bytes()
    except FileNotFoundError:
        return None
    except OSError:  # a folder in its place
        return b""


def alive(host: Column, pid: Column, beat: Column) -> bool:
    """Whether whoever made a claim still works on it."""
    if not isinstance(pid, int) or not 0 < pid < 2**31 or not isinstance(beat, float):
        return False  # damaged
    if host == socket.gethostname():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
    return time.time() - beat < STALE
