"""The run store: one SQLite file (WAL) to query, one JSON file per run for people and as a second copy.

A finished run is a row in ``runs`` and lines in ``metrics``; ``failures`` are runs that ended in an error, ``claims``
say who is computing what right now, so that two processes on one store share the work. The JSON file is written first.
Both copies have checksums; they are compared when a store is opened, and one is mended from the other.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

from efc.errors import EFCError
from efc.files import make_folder, remove_leftovers, to_json, write_atomically
from efc.runs.database import (
    BROKEN,
    DATABASE,
    FAILURE_COLUMNS,
    RUN_COLUMNS,
    insert,
    open_database,
    select_rows,
)
from efc.runs.identity import Run
from efc.runs.inspection import FILES, KEY, Case, alive, content_of, examine, judge, read_failure, sentences
from efc.runs.reading import DAMAGE, sha256
from efc.runs.record import Column, Record, Stored, kin, read_row, row_checksum
from efc.runs.results import RunResult

HEART = 2.0
"""Seconds between two signs of life of whoever has claimed runs."""
Tell = Callable[[str], None]


class ResultError(Exception):
    """What a method brought is no result."""


class Store:
    """An experiment folder: ``efc.sqlite``, ``runs/ID.json``, ``checkpoints/``."""

    def __init__(self, folder: Path, tell: Tell | None = None, argument: str = "--out") -> None:
        self.folder, self.tell = make_folder(folder, argument), tell or (lambda text: None)
        self.runs = make_folder(folder / FILES, argument)
        self.checkpoints = folder / "checkpoints"
        self.owner = uuid.uuid4().hex
        self.lock = threading.Lock()
        self.heart: threading.Thread | None = None
        self.stopped = threading.Event()
        remove_leftovers(folder)
        self.database, self.aside = open_database(folder, argument)
        try:
            self._mend()
        except BaseException:
            self.database.close()
            raise

    # -- results -----------------------------------------------------------------------------------------------------

    def finished(self, ids: Sequence[str]) -> dict[str, RunResult]:
        """The results there are, by id."""
        found: dict[str, RunResult] = {}
        for chunk in _chunks(ids, 500):
            marks = ",".join("?" * len(chunk))
            for row in self._read(f"select {', '.join(RUN_COLUMNS)} from runs where id in ({marks})", chunk):
                record = self._whole(row)
                found[record.id] = RunResult.from_json(record.stored().result)
        return found

    def _whole(self, row: tuple[Column, ...]) -> Record:
        """What a row says; if it was damaged since the store was opened, what its file says."""
        record = read_row(row)[0] or judge(str(row[0]), row, content_of(self.folder, str(row[0]))).record
        if record is None:
            told = "give the command again: it sets the run aside and computes it anew"
            raise EFCError(f"{self.folder / DATABASE}: run {row[0]} is damaged here and in {FILES}/; {told}")
        return record

    def save(self, results: Iterable[tuple[Run, RunResult]]) -> None:
        """Keep the results of a pack, all or none; a run that is there already stays as it is."""
        records = []
        for run, result in results:
            stored = Stored(run.id, run.settings.to_json(), result.to_json(), _now())
            content = content_of(self.folder, run.id)
            record = None if content is None else judge(run.id, None, content).record
            if record is None:
                content = stored.to_text().encode()
                record = _record(stored, content)
                write_atomically(self.runs / f"{run.id}.json", content)
            records.append(record)
        with self._writing() as database:
            for record in records:
                insert(database, record)
                database.execute("delete from claims where run = ?", (record.id,))
                database.execute("delete from failures where run = ? or kin = ?", (record.id, record.kin))

    def fail(self, runs: Iterable[Run], message: str) -> None:
        """Note runs that ended in an error, instead of a result; they will be tried again."""
        with self._writing() as database:
            for run in runs:
                settings = run.settings.to_json()
                line = (run.id, kin(settings), to_json(settings), _plain(message), _now())
                database.execute("delete from failures where kin = ?", (line[1],))
                database.execute(
                    "insert or replace into failures values (?, ?, ?, ?, ?, ?)", (*line, row_checksum(line))
                )
                database.execute("delete from claims where run = ? and owner = ?", (run.id, self.owner))

    def forget(self, ids: Sequence[str]) -> None:
        """Drop results, so that they are computed again."""
        with self._writing() as database:
            for key in ids:
                for table, name in (("runs", "id"), ("metrics", "run"), ("failures", "run")):
                    database.execute(f"delete from {table} where {name} = ?", (key,))
        for key in ids:
            (self.runs / f"{key}.json").unlink(missing_ok=True)

    def drop_damaged_failures(self) -> None:
        """Whatever they were, such runs are tried again."""
        with self._writing() as database:
            for place, *row in database.execute(f"select rowid, {', '.join(FAILURE_COLUMNS)} from failures").fetchall():
                if read_failure(tuple(row)) is None:
                    database.execute("delete from failures where rowid = ?", (place,))

    def kin(self, runs: Iterable[Run]) -> list[tuple[Run, Record]]:
        """For each of these runs, stored ones that had the same settings, but other code or data."""
        found = []
        for run in runs:
            rows = self._read(
                f"select {', '.join(RUN_COLUMNS)} from runs where kin = ?", (kin(run.settings.to_json()),)
            )
            found += [(run, self._whole(row)) for row in rows if row[0] != run.id]
        return found

    def note(self, name: str, make: Callable[[], str]) -> str:
        """A value that is worked out once and kept, with a checksum."""
        found = self._read("select value from notes where name = ?", (name,))
        value, _, checksum = str(found[0][0]).rpartition(" ") if found else ("", "", "")
        if value and checksum == row_checksum((name, value)):
            return value
        value = make()
        with self._writing() as database:
            line = (name, f"{value} {row_checksum((name, value))}")
            database.execute("insert or replace into notes values (?, ?)", line)
        return value

    def query(self, sql: str, values: Sequence[Column] = ()) -> list[tuple[Column, ...]]:
        """Read anything."""
        return self._read(sql, values)

    # -- claims ------------------------------------------------------------------------------------------------------

    def claim(self, ids: Sequence[str]) -> bool:
        """Claim all of these runs or none; false if one is finished or claimed by someone who is alive."""
        self._keep_beating()
        with self._writing() as database:
            marks = ",".join("?" * len(ids))
            if database.execute(f"select 1 from runs where id in ({marks})", ids).fetchone():
                return False
            if self._taken(database, ids):
                return False
            mine = (self.owner, socket.gethostname(), os.getpid(), time.time())
            database.executemany("insert or replace into claims values (?, ?, ?, ?, ?)", [(key, *mine) for key in ids])
            return True

    def claimed(self, ids: Sequence[str]) -> bool:
        """Whether someone else who is alive works on one of these runs."""
        with self._writing() as database:
            return self._taken(database, ids)

    def _taken(self, database: sqlite3.Connection, ids: Sequence[str]) -> bool:
        marks = ",".join("?" * len(ids))
        rows = database.execute(f"select owner, host, pid, beat from claims where run in ({marks})", ids).fetchall()
        return any(owner != self.owner and alive(host, pid, beat) for owner, host, pid, beat in rows)

    def release(self, ids: Iterable[str]) -> None:
        """Give claims back."""
        with self._writing() as database:
            database.executemany("delete from claims where run = ? and owner = ?", [(k, self.owner) for k in ids])

    def close(self) -> None:
        """Give all claims back and close the file."""
        self.stopped.set()
        if self.heart is not None:
            self.heart.join()
        try:
            with self._writing() as database:
                database.execute("delete from claims where owner = ?", (self.owner,))
        finally:
            self.database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _keep_beating(self) -> None:
        if self.heart is None:
            self.heart = threading.Thread(target=self._beat, daemon=True)
            self.heart.start()

    def _beat(self) -> None:
        while not self.stopped.wait(HEART):
            try:
                with self._writing() as database:
                    database.execute("update claims set beat = ? where owner = ?", (time.time(), self.owner))
            except EFCError:
                continue  # a full disk is reported by whoever has a result to write

    # -- the file ----------------------------------------------------------------------------------------------------

    def _mend(self) -> None:
        """Compare both copies of every run, and write what is damaged or missing anew from the other."""
        with self.lock:
            try:
                rows = select_rows(self.database, "runs", RUN_COLUMNS)
            except BROKEN as problem:
                raise EFCError(f"cannot read {self.folder / DATABASE}: {problem}") from None
        wrong = [case for case in examine(rows, self.folder) if case.row or case.fault]
        mended = []
        with self._writing() if wrong else nullcontext(self.database) as database:
            for case in wrong:
                if not KEY.fullmatch(case.id):
                    database.execute("delete from runs where typeof(id) != 'text' or id not glob ?", ("[0-9a-f]" * 16,))
                    continue  # a row whose id is damaged: the run itself is met under its file's name
                # Meanwhile another process may have mended it, or stored what it was about to store.
                row = database.execute(f"select {', '.join(RUN_COLUMNS)} from runs where id = ?", (case.id,)).fetchone()
                now = judge(case.id, row, content_of(self.folder, case.id))
                if now.fault == "row missing" and self._taken(database, [case.id]):
                    continue
                if now.row or now.fault == "lost":
                    self._repair(database, now)
                mended.append(now)
        if self.aside:
            mended = [case for case in mended if not case.fault.startswith("row ")]
            ((count,),) = self._read("select count(*) from runs", ())
            told = f"set aside as {self.aside} and rebuilt from what was whole in it and in {FILES}/"
            self.tell(f"{self.folder / DATABASE} was damaged; {told}: {count} finished runs")
        for sentence in sentences(mended, mended=True):
            self.tell(f"{self.folder}: {sentence}")

    def _repair(self, database: sqlite3.Connection, case: Case) -> None:
        database.execute("delete from runs where id = ?", (case.id,))
        database.execute("delete from metrics where run = ?", (case.id,))
        file = self.runs / f"{case.id}.json"
        if case.record is None:
            if file.exists():
                file.replace(file.with_name(f"{file.name}.damaged"))
            return
        record = case.record
        if case.file:
            if file.is_dir():
                file.replace(file.with_name(f"{file.name}.damaged"))
            content = record.stored().to_text().encode()
            write_atomically(file, content)
            record = Record(**(vars(record) | {"copy": sha256(content)}))
        insert(database, record)

    def _read(self, sql: str, values: Sequence[Column]) -> list[tuple[Column, ...]]:
        with self.lock:
            try:
                return self.database.execute(sql, values).fetchall()
            except BROKEN as problem:
                raise EFCError(f"cannot read {self.folder / DATABASE}: {problem}") from None

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it or nothing, one writer at a time among all processes."""
        with self.lock:
            try:
                self.database.execute("begin immediate")
                try:
                    yield self.database
                    self.database.execute("commit")
                except BaseException:
                    if self.database.in_transaction:
                        self.database.execute("rollback")
                    raise
            except BROKEN as problem:
                told = f"{problem}; what was stored before is intact"
                raise EFCError(f"cannot write {self.folder / DATABASE}: {told}") from None


def _record(stored: Stored, content: bytes) -> Record:
    try:
        return Record.of(stored, content)
    except DAMAGE as problem:
        raise ResultError(f"its result cannot be stored: {problem}") from None


def _plain(message: str) -> str:
    """A text that the database takes, whatever an exception says."""
    return message.encode("utf-8", "backslashreplace").decode()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _chunks(items: Sequence[str], n: int) -> Iterator[Sequence[str]]:
    for at in range(0, len(items), n):
        yield items[at : at + n]
