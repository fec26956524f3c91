"""`efc runs` on whole and on damaged folders."""

from __future__ import annotations

import csv
import sqlite3
from pathlib import Path

import pytest

from efc.runs.checkpoint import Checkpoints
from efc.runs.documents import write_config
from efc.runs.store import Store
from support.command import efc
from support.records import a_result, a_run

RUNS = [a_run(k, code=f"0.1.0-0000000{k}") for k in range(3)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Store(tmp_path / "o") as store:
        store.save([(run, a_result(50.0 + k)) for k, run in enumerate(RUNS)])
    return tmp_path / "o"


def test_check_says_what_is_wrong_and_repair_mends_it(folder: Path) -> None:
    said = efc("runs", "check", str(folder))
    assert (said.returncode, said.stdout) == (0, f"{folder}: 3 runs, 0 failures, 0 checkpoints: all is well\n")
    with sqlite3.connect(folder / "efc.sqlite") as database:
        database.execute("update runs set accuracy = 99 where seed = 0")
        database.execute("delete from runs where seed = 1")
    database.close()
    (folder / "runs" / f"{RUNS[2].id}.json").unlink()
    (folder / "runs" / f".{RUNS[2].id}.json.abcd1234").write_text("half")
    (folder / "results.json").write_text("{")
    write_config(folder / "config.yaml", "seeds: 1\n")
    (folder / "config.yaml").write_text((folder / "config.yaml").read_text().replace("1\n", "2\n"))
    kept = Checkpoints(folder / "checkpoints" / "p")
    kept.save({}, {"runs": [a_run(7).id]})
    next((folder / "checkpoints" / "p").glob("*.safetensors")).write_bytes(b"")
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    said = efc("runs", "check", str(folder))
    assert said.returncode == 1, said.stderr
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    for text in (
        f"run {RUNS[0].id} is damaged in efc.sqlite, whole in runs/",
        f"run {RUNS[1].id} is missing in efc.sqlite, whole in runs/",
        f"run {RUNS[2].id} is missing in runs/, whole in efc.sqlite",
        "was left behind by a process that was killed",
        "results.json holds no results of efc run or efc bench: it is not JSON",
        "config.yaml does not match its checksum",
        "000001.safetensors is damaged (0 bytes, checksum wrong)",
        "3 runs, 0 failures, 1 checkpoint: 7 faults",
    ):
        assert text in said.stdout, said.stdout
    listed = efc("runs", "list", "--in", str(folder), columns=200)
    assert [text in listed.stdout for text in ("50.00", "51.00", "52.00", "99.00")] == [True, True, True, False]
    assert "efc runs check --repair mends it" in listed.stderr
    mended = efc("runs", "check", str(folder), "--repair")
    assert mended.returncode == 0, mended.stdout + mended.stderr
    assert mended.stdout.count("from there") == 3
    assert (folder / "results.json.damaged").exists()
    assert efc("runs", "check", str(folder)).returncode == 0


def test_a_store_without_its_database_is_listed_and_told(folder: Path) -> None:
    (folder / "efc.sqlite").unlink()
    listed = efc("runs", "list", "--in", str(folder), columns=200)
    assert listed.returncode == 0
    assert listed.stdout.count("sgd") == 3
    assert "efc.sqlite is missing" in listed.stderr
    assert efc("report", str(folder), "--out", str(folder.parent / "page.html")).returncode == 0
    nowhere = efc("runs", "check", "nowhere")
    assert nowhere.returncode == 2
    assert nowhere.stderr.startswith("efc: DIR: there is no efc.sqlite in nowhere")


def test_list_and_export_have_status_code_and_environment(folder: Path) -> None:
    listed = efc("runs", "list", "--in", str(folder), "--where", "code=0.1.0-00000001", columns=200).stdout
    assert listed.count("│ done ") == 1
    assert "0.1.0-00000001" in listed
    assert "51.00" in listed
    lines = list(csv.DictReader(efc("runs", "export", "--in", str(folder)).stdout.splitlines()))
    assert [line["status"] for line in lines] == ["done"] * 3
    assert {"torch", "device", "python"} <= lines[0].keys()
    assert [float(line["accuracy"]) for line in lines] == [50.0, 51.0, 52.0]
