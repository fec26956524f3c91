"""The store: once is enough, claims, damage, full disks, folders that cannot be written."""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from efc.errors import EFCError
from efc.learners import SGD
from efc.runs.identity import code_of, digest
from efc.runs.store import Store
from support.records import a_result, a_run


def test_what_is_saved_comes_back_and_stays(tmp_path: Path) -> None:
    runs = [a_run(k) for k in range(3)]
    with Store(tmp_path) as store:
        store.save([(run, a_result(k)) for k, run in enumerate(runs[:2])])
    with Store(tmp_path) as store:
        found = store.finished([run.id for run in runs])
        assert found == {runs[0].id: a_result(0), runs[1].id: a_result(1)}
        store.save([(runs[0], a_result(99))])
        assert store.finished([runs[0].id])[runs[0].id] == a_result(0)
        assert store.query("select count(*) from runs") == [(2,)]
        assert store.query("select value from metrics where run = ? and name = 'forgetting'", (runs[1].id,)) == [(3.0,)]
        assert store.query("pragma journal_mode") == [("wal",)]
        store.forget([runs[0].id])
        assert store.finished([runs[0].id]) == {}
    document = json.loads((tmp_path / "runs" / f"{runs[1].id}.json").read_text())
    assert document["settings"]["seed"] == 1


def test_identity_is_everything_that_determines_the_result() -> None:
    assert a_run().id == a_run().id
    others = [a_run(1), a_run(method="ewc"), a_run(options=SGD.options_type(lr=0.2)), a_run(data="x"), a_run(code="y")]
    assert len({run.id for run in [a_run(), *others]}) == 6
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    assert code_of("sgd") == code_of("efc")


def test_claims_exclude_and_are_given_back(tmp_path: Path) -> None:
    ids = [a_run(k).id for k in range(3)]
    with Store(tmp_path) as one, Store(tmp_path) as two:
        assert one.claim(ids[:2])
        assert one.claim(ids[:1])  # one's own
        assert not two.claim(ids[1:])  # one of them is taken: none is
        assert two.claim(ids[2:])
        one.release(ids[:2])
        assert two.claim(ids[:2])
        two.save([(a_run(0), a_result())])
        assert not one.claim(ids[:1])  # finished


def test_a_dead_process_loses_its_claims_at_once(tmp_path: Path) -> None:
    run = a_run()
    code = (
        "import sys, os; from pathlib import Path; from efc.runs.store import Store\n"
        "assert Store(Path(sys.argv[1])).claim([sys.argv[2]]); os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path), run.id], check=False)
    with Store(tmp_path) as store:
        assert store.query("select count(*) from claims") == [(1,)]
        assert store.claim([run.id])


def test_a_claim_from_elsewhere_lasts_while_its_heart_beats(tmp_path: Path) -> None:
    run = a_run()
    with Store(tmp_path) as store:
        with store._writing() as database:
            database.execute("insert into claims values (?, 'x', 'another-host', 1, ?)", (run.id, time.time()))
        assert not store.claim([run.id])
        with store._writing() as database:
            database.execute("update claims set beat = ?", (time.time() - 3600,))
        assert store.claim([run.id])


@pytest.mark.parametrize("damage", ["torn last page", "garbage", "empty page in the middle", "header", "type"])
def test_a_damaged_database_is_rebuilt_from_the_files(tmp_path: Path, damage: str) -> None:
    runs = [a_run(k) for k in range(40)]
    with Store(tmp_path) as store:
        store.save([(run, a_result(k)) for k, run in enumerate(runs)])
    connection = sqlite3.connect(tmp_path / "efc.sqlite")
    connection.execute("pragma wal_checkpoint(truncate)")
    connection.close()
    file = tmp_path / "efc.sqlite"
    content = file.read_bytes()
    if damage == "torn last page":
        file.write_bytes(content[: len(content) - 1500])
    elif damage == "garbage":
        file.write_bytes(b"\0" * 100 + os.urandom(5000))
    elif damage == "type":  # SQLite would write 1.0 as 1, and no checksum would ever be right
        assert content.count(b"seconds real") == 1
        file.write_bytes(content.replace(b"seconds real", b"seconds re\x8al"))
    elif damage == "header":  # it asks for a newer version to write it: SQLite calls that read-only
        file.write_bytes(content[:18] + b"\x09" + content[19:])
    else:
        middle = len(content) // 2 // 4096 * 4096
        file.write_bytes(content[:middle] + b"\xff" * 4096 + content[middle + 4096 :])
    told: list[str] = []
    with Store(tmp_path, told.append) as store:
        assert store.finished([run.id for run in runs]) == {run.id: a_result(k) for k, run in enumerate(runs)}
    assert len(told) == 1
    assert "efc.sqlite was damaged; set aside as efc.sqlite.damaged-" in told[0]
    assert told[0].endswith(": 40 finished runs")
    assert list(tmp_path.glob("efc.sqlite.damaged-*"))


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """Really read-only: as an unprivileged user, where the tests run as one that may do anything."""
    folder = tmp_path / "fixed"
    folder.mkdir()
    folder.chmod(0o555)
    privileged = os.geteuid() == 0
    if privileged:
        os.seteuid(65534)
    try:
        with pytest.raises(EFCError, match=r"--out: cannot write to .*fixed"):
            Store(folder)
    finally:
        if privileged:
            os.seteuid(0)
        folder.chmod(0o755)


FULL = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from support.records import a_run, a_result
from efc.errors import EFCError
from efc.runs.store import Store
store = Store(Path(sys.argv[1]))
store.save([(a_run(0), a_result(7))])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), int(sys.argv[3])))
try:
    for k in range(1, 2000):
        store.save([(a_run(k), a_result(tasks=[["x" * 1000], ["y" * 1000]]))])
except EFCError as problem:
    print(k, problem)
    sys.exit(2)
"""


@pytest.mark.parametrize("limit", [1000, 150_000])
def test_a_full_disk_is_one_clear_error_and_loses_nothing(tmp_path: Path, limit: int) -> None:
    """A limit on the size of files: a small one stops the JSON files, a larger one the database."""
    assert hasattr(resource, "RLIMIT_FSIZE")
    command = [sys.executable, "-c", FULL, str(tmp_path), str(Path(__file__).parents[1]), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    assert "intact" in done.stdout
    count = int(done.stdout.split()[0])
    with Store(tmp_path) as store:
        assert store.finished([a_run(0).id]) == {a_run(0).id: a_result(7)}
        assert len(store.finished([a_run(k).id for k in range(2000)])) >= count
