"""What is damaged or missing on one side of a store comes back from the other, and it is said."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from efc.cli.runs import list_command
from efc.errors import EFCError
from efc.files import leftovers
from efc.report.folder import read_results
from efc.runs.checking import check
from efc.runs.inspection import look
from efc.runs.results import MEASURES
from efc.runs.store import Store
from support.records import a_result, a_run, old_store

RUNS = [a_run(k) for k in range(4)]
RESULTS = [a_result(metrics=dict.fromkeys(MEASURES, 10.0) | {"accuracy": 50.0 + k}) for k in range(4)]
TRUTH = {run.id: result for run, result in zip(RUNS, RESULTS, strict=True)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Store(tmp_path / "o") as store:
        store.save(list(zip(RUNS, RESULTS, strict=True)))
    return tmp_path / "o"


def emptied(folder: Path) -> None:
    (folder / "efc.sqlite").write_bytes(b"")


def deleted(folder: Path) -> None:
    (folder / "efc.sqlite").unlink()


def without_log(folder: Path) -> None:
    """As after a crash whose log was not copied along: a connection that never got to write it back is killed."""
    shutil.copytree(folder, folder.with_name("copy"))
    deleted(folder)
    code = (
        "import sys, os; from pathlib import Path; from efc.runs.store import Store\n"
        "store = Store(Path(sys.argv[1])); os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(folder)], check=False)
    assert (folder / "efc.sqlite-wal").stat().st_size > 0
    (folder / "efc.sqlite-wal").unlink()


@pytest.mark.parametrize("damage", [emptied, deleted, without_log])
def test_a_database_that_forgot_is_told_again(folder: Path, damage: Callable[[Path], None]) -> None:
    damage(folder)
    assert len(look(folder, "--in").records) == 4
    assert check(folder, "DIR").faults
    told: list[str] = []
    with Store(folder, told.append) as store:
        assert store.finished(list(TRUTH)) == TRUTH
        assert store.query("select count(*) from metrics") == [(4 * len(MEASURES),)]
    assert len(told) == 1
    assert "4 runs (" in told[0]
    assert told[0].endswith("missing in efc.sqlite, whole in runs/; restored from there")
    assert check(folder, "DIR").faults == []


def test_where_both_copies_are_gone_nothing_is_not_all_is_well(folder: Path) -> None:
    """An empty file is a database to SQLite, and one whose table has another name a sound one."""
    shutil.rmtree(folder / "runs")
    whole = (folder / "efc.sqlite").read_bytes()
    for damage in ("", "alter table runs rename to ruins"):
        (folder / "efc.sqlite").write_bytes(whole if damage else b"")
        with sqlite3.connect(folder / "efc.sqlite") as database:
            database.executescript(damage)
        assert look(folder, "--in").problem.endswith("efc.sqlite is empty, or has lost its table of runs")
        assert check(folder, "DIR").faults


def test_a_changed_value_is_found_and_taken_back(folder: Path) -> None:
    """As a flipped bit would have it: the database is sound, what it says is not."""
    with sqlite3.connect(folder / "efc.sqlite") as database:
        database.execute("update runs set accuracy = 99 where id = ?", (RUNS[0].id,))
        database.execute("update runs set result = replace(result, '51.0', '71.0') where id = ?", (RUNS[1].id,))
    records = {record.id: record for record in look(folder, "--in").records}
    assert [records[run.id].accuracy for run in RUNS] == [50.0, 51.0, 52.0, 53.0]
    told: list[str] = []
    with Store(folder, told.append) as store:
        assert store.finished(list(TRUTH)) == TRUTH
    assert "are damaged in efc.sqlite, whole in runs/; restored from there" in told[0]


def test_a_missing_and_a_damaged_file_are_written_again(folder: Path) -> None:
    files = [folder / "runs" / f"{run.id}.json" for run in RUNS]
    before = [file.read_bytes() for file in files]
    files[0].unlink()
    files[1].write_bytes(before[1].replace(b"51.0", b"71.0"))
    files[2].unlink()
    files[2].mkdir()
    told: list[str] = []
    with Store(folder, told.append) as store:
        assert store.finished(list(TRUTH)) == TRUTH
    assert [file.read_bytes() for file in files] == before
    there = "whole in efc.sqlite; written again from there"
    assert told == [
        f"{folder}: run {RUNS[0].id} is missing in runs/, {there}",
        f"{folder}: 2 runs ({RUNS[1].id}, {RUNS[2].id}) are damaged in runs/, {there}",
    ]


def test_what_is_damaged_on_both_sides_is_set_aside_and_computed_again(folder: Path) -> None:
    file = folder / "runs" / f"{RUNS[0].id}.json"
    file.write_bytes(file.read_bytes()[:-20])
    with sqlite3.connect(folder / "efc.sqlite") as database:
        database.execute("update runs set accuracy = 99 where id = ?", (RUNS[0].id,))
    told: list[str] = []
    with Store(folder, told.append) as store:
        assert store.finished(list(TRUTH)) == {run.id: TRUTH[run.id] for run in RUNS[1:]}
        assert store.claim([RUNS[0].id])
        store.save([(RUNS[0], RESULTS[0])])
        assert store.finished(list(TRUTH)) == TRUTH
    assert told == [
        f"{folder}: run {RUNS[0].id} is whole neither in efc.sqlite nor in runs/; set aside, to be computed again"
    ]
    assert file.with_name(f"{file.name}.damaged").exists()


def test_a_folder_of_the_first_version_keeps_working_and_gets_checksums(tmp_path: Path) -> None:
    old_store(tmp_path, list(zip(RUNS, RESULTS, strict=True)))
    assert len(look(tmp_path, "--in").records) == 4
    assert check(tmp_path, "DIR").faults == []
    told: list[str] = []
    with Store(tmp_path, told.append) as store:
        assert store.finished(list(TRUTH)) == TRUTH
        assert store.query("select count(*) from runs where checksum is null") == [(0,)]
        store.save([(a_run(9), a_result())])
    assert told == []
    with sqlite3.connect(tmp_path / "efc.sqlite") as database:
        database.execute("update runs set accuracy = 99 where id = ?", (RUNS[0].id,))
    assert "damaged in efc.sqlite" in check(tmp_path, "DIR").faults[0]


def test_where_nothing_vouches_for_either_copy_it_is_said(tmp_path: Path) -> None:
    old_store(tmp_path, list(zip(RUNS, RESULTS, strict=True)))
    file = tmp_path / "runs" / f"{RUNS[0].id}.json"
    file.write_text(file.read_text().replace("50.0", "60.0"))
    (fault,) = check(tmp_path, "DIR").faults
    assert f"run {RUNS[0].id} is not the same in runs/ and in efc.sqlite, and of a version without checksums" in fault


def test_notes_and_claims_that_are_damaged_count_for_nothing(folder: Path) -> None:
    with Store(folder) as store:
        assert store.note("a", lambda: "first") == "first"
        assert store.note("a", lambda: "second") == "first"
    with sqlite3.connect(folder / "efc.sqlite") as database:
        database.execute("update notes set value = replace(value, 'first', 'fjrst')")
        for k, pid in enumerate(("'x'", "1e300", "-1", "4611686018427387904", "null")):
            database.execute(f"insert into claims values ('{a_run(20 + k).id}', 'x', x'00', {pid}, 'soon')")
    with Store(folder) as store:
        assert store.note("a", lambda: "second") == "second"
        assert store.claim([a_run(20 + k).id for k in range(5)])


@contextmanager
def bound_by_permissions() -> Iterator[None]:
    """Root may write anywhere; without this capability it may not. Others never could."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, data = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, data) == 0
    kept = data[0]
    data[0] &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH; still permitted, so that they can be had again
    assert libc.capset(header, data) == 0
    try:
        yield
    finally:
        data[0] = kept
        assert libc.capset(header, data) == 0


@pytest.mark.parametrize("log", [False, True])
def test_a_read_only_folder_can_be_looked_at(folder: Path, log: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Also with the log of a process that was killed."""
    if log:
        code = (
            "import sys, os; from pathlib import Path; sys.path.insert(0, sys.argv[2])\n"
            "from efc.runs.store import Store; from support.records import a_run, a_result\n"
            "Store(Path(sys.argv[1])).save([(a_run(8), a_result(80.0))]); os.kill(os.getpid(), 9)\n"
        )
        subprocess.run([sys.executable, "-c", code, str(folder), str(Path(__file__).parents[1])], check=False)
        (folder / "efc.sqlite-shm").unlink()
    before = sorted(folder.rglob("*"))
    for place in (folder, folder / "runs"):
        place.chmod(0o555)
    try:
        with bound_by_permissions():
            with pytest.raises(EFCError, match="cannot write"):
                Store(folder)
            list_command(folder, None)
            assert len(look(folder, "--in").records) == 4 + log
            if not log:
                assert check(folder, "DIR").faults == []
                assert read_results(folder).rows[0].accuracy.per_seed == [50.0, 51.0, 52.0, 53.0]
    finally:
        for place in (folder, folder / "runs"):
            place.chmod(0o755)
    assert "53.00" in capsys.readouterr().out
    assert sorted(folder.rglob("*")) == before


WRITING = """
import os, sys
from pathlib import Path
from efc import files
os.fsync = lambda handle: (print("half", flush=True), sys.stdin.readline())
files.write_atomically(Path(sys.argv[1]), "text")
"""


def test_leftovers_of_the_dead_are_removed_and_those_of_the_living_are_not(folder: Path) -> None:
    """Two processes in the middle of writing a file: one is killed."""
    targets = [folder / "runs" / f"{a_run(k).id}.json" for k in (30, 31)]
    both = [
        subprocess.Popen(
            [sys.executable, "-c", WRITING, str(file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for file in targets
    ]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
    both[0].send_signal(signal.SIGKILL)
    both[0].wait()
    (left,) = leftovers(folder)
    assert left.name.startswith(f".{targets[0].name}.")
    assert f"{left} was left behind" in check(folder, "DIR").faults[0]
    Store(folder).close()
    assert leftovers(folder) == []
    assert not left.exists()
    assert len(list((folder / "runs").glob(".*"))) == 1
    both[1].communicate("\n\n")
    assert targets[1].read_text() == "text"
    both[0].communicate()


def test_files_say_what_the_rows_say(folder: Path) -> None:
    """And carry a checksum that a person can work out."""
    for run in RUNS:
        document = json.loads((folder / "runs" / f"{run.id}.json").read_text())
        assert document["settings"]["seed"] == run.seed
        assert len(document["checksum"]) == 64
