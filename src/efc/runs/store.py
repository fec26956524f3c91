"""The run store: one SQLite file (WAL) to query, one JSON file per run for people and as a second copy.

A finished run is a row in ``runs`` and lines in ``metrics``; ``claims`` say who is computing what right now, so that
two processes on one store share the work. The JSON file is written first: a damaged database is rebuilt from them.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from efc.errors import EFCError
from efc.files import Json, make_folder, to_json, write_atomically
from efc.runs.identity import Run
from efc.runs.results import RunResult

SCHEMA = """
create table if not exists runs (
  id text primary key, method text, head text, dataset text, scenario text, seed integer, evaluated_on text,
  accuracy real, seconds real, finished text, settings text, result text
);
create table if not exists metrics (run text, name text, value real, primary key (run, name));
create table if not exists notes (name text primary key, value text);
create table if not exists claims (run text primary key, owner text, host text, pid integer, beat real);
"""
HEART = 2.0
"""Seconds between two signs of life of whoever has claimed runs."""
STALE = 30.0
"""Seconds without one after which a claim from another machine counts for nothing."""
Tell = Callable[[str], None]
Column = str | int | float | None
"""What a cell of the database holds."""


@dataclass(frozen=True)
class Stored:
    """A finished run as its JSON file holds it; that of an older version may have other settings."""

    id: str
    settings: Mapping[str, Json]
    result: Mapping[str, Json]
    finished: str
    """When."""


class Store:
    """An experiment folder: ``efc.sqlite``, ``runs/ID.json``, ``checkpoints/``."""

    def __init__(self, folder: Path, tell: Tell | None = None, argument: str = "--out") -> None:
        self.folder, self.tell = make_folder(folder, argument), tell or (lambda text: None)
        self.runs = make_folder(folder / "runs", argument)
        self.checkpoints = folder / "checkpoints"
        self.owner = uuid.uuid4().hex
        self.lock = threading.Lock()
        self.database = self._open()
        self.heart: threading.Thread | None = None
        self.stopped = threading.Event()

    # -- results -----------------------------------------------------------------------------------------------------

    def finished(self, ids: Sequence[str]) -> dict[str, RunResult]:
        """The results there are, by id."""
        found: dict[str, RunResult] = {}
        for chunk in _chunks(ids, 500):
            marks = ",".join("?" * len(chunk))
            rows = self._read(f"select id, result from runs where id in ({marks})", chunk)
            found |= {str(key): RunResult.from_json(json.loads(str(text))) for key, text in rows}
        return found

    def save(self, results: Iterable[tuple[Run, RunResult]]) -> None:
        """Keep the results of a pack, all or none; a run that is there already stays as it is."""
        documents = [Stored(run.id, run.settings.to_json(), result.to_json(), _now()) for run, result in results]
        for document in documents:
            file = self.runs / f"{document.id}.json"
            if not file.exists():
                write_atomically(file, to_json(asdict(document)))
        with self._writing() as database:
            for document in documents:
                self._insert(database, document)
                database.execute("delete from claims where run = ?", (document.id,))

    def forget(self, ids: Sequence[str]) -> None:
        """Drop results, so that they are computed again."""
        with self._writing() as database:
            for key in ids:
                database.execute("delete from runs where id = ?", (key,))
                database.execute("delete from metrics where run = ?", (key,))
        for key in ids:
            (self.runs / f"{key}.json").unlink(missing_ok=True)

    def note(self, name: str, make: Callable[[], str]) -> str:
        """A value that is worked out once and kept."""
        found = self._read("select value from notes where name = ?", (name,))
        if found:
            return str(found[0][0])
        value = make()
        with self._writing() as database:
            database.execute("insert or replace into notes values (?, ?)", (name, value))
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
            rows = database.execute(f"select owner, host, pid, beat from claims where run in ({marks})", ids).fetchall()
            if any(owner != self.owner and _alive(host, pid, beat) for owner, host, pid, beat in rows):
                return False
            mine = (self.owner, socket.gethostname(), os.getpid(), time.time())
            database.executemany("insert or replace into claims values (?, ?, ?, ?, ?)", [(key, *mine) for key in ids])
            return True

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

    def _open(self) -> sqlite3.Connection:
        file = self.folder / "efc.sqlite"
        try:
            return self._connect(file)
        except sqlite3.DatabaseError as problem:
            if isinstance(problem, sqlite3.OperationalError) and "malformed" not in str(problem):
                raise EFCError(f"--out: cannot open {file}: {problem}") from None
        aside = file.with_name(f"efc.sqlite.damaged-{datetime.now():%Y%m%d-%H%M%S}")
        for suffix in ("", "-wal", "-shm"):
            part = file.with_name(file.name + suffix)
            if part.exists():
                part.replace(aside.with_name(aside.name + suffix))
        database = self._connect(file)
        count = self._rebuild(database)
        self.tell(f"{file} was damaged; set aside as {aside.name} and rebuilt from runs/: {count} finished runs")
        return database

    def _connect(self, file: Path) -> sqlite3.Connection:
        database = sqlite3.connect(file, timeout=30, check_same_thread=False, isolation_level=None)
        try:
            database.execute("pragma journal_mode = wal")
            database.execute("pragma synchronous = normal")
            database.executescript(SCHEMA)
            (verdict,) = database.execute("pragma quick_check(1)").fetchone()
            if verdict != "ok":
                raise sqlite3.DatabaseError(f"malformed: {verdict}")
        except BaseException:
            database.close()
            raise
        return database

    def _rebuild(self, database: sqlite3.Connection) -> int:
        count = 0
        for file in sorted(self.runs.glob("*.json")):
            try:
                self._insert(database, Stored(**json.loads(file.read_text(encoding="utf-8"))))
            except (ValueError, KeyError, TypeError):
                self.tell(f"{file} is damaged and was left out")
            else:
                count += 1
        return count

    @staticmethod
    def _insert(database: sqlite3.Connection, document: Stored) -> None:
        settings, result = document.settings, RunResult.from_json(document.result)
        names = ("method", "head", "dataset", "scenario", "seed", "evaluate")
        row = (document.id, *(settings[name] for name in names), result.metrics["accuracy"], result.seconds)
        texts = (document.finished, to_json(settings), to_json(document.result))
        database.execute("insert or ignore into runs values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, *texts))
        lines = [(document.id, name, value) for name, value in result.metrics.items()]
        database.executemany("insert or ignore into metrics values (?, ?, ?)", lines)

    def _read(self, sql: str, values: Sequence[Column]) -> list[tuple[Column, ...]]:
        with self.lock:
            try:
                return self.database.execute(sql, values).fetchall()
            except sqlite3.DatabaseError as problem:
                raise EFCError(f"cannot read {self.folder / 'efc.sqlite'}: {problem}") from None

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
            except sqlite3.DatabaseError as problem:
                told = f"{problem}; what was stored before is intact"
                raise EFCError(f"cannot write {self.folder / 'efc.sqlite'}: {told}") from None


def _alive(host: str, pid: int, beat: float) -> bool:
    """Whether whoever made a claim still works on it."""
    if host == socket.gethostname():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
    return time.time() - beat < STALE


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _chunks(items: Sequence[str], n: int) -> Iterator[Sequence[str]]:
    for at in range(0, len(items), n):
        yield items[at : at + n]
