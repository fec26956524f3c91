"""Damaged folders: the right values come back or it is said what is damaged; no traceback, nothing silently different.

EFC_FUZZ=5000 tries as many mutations of each file in place of a few.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from efc.cli.runs import export, list_command
from efc.errors import EFCError
from efc.report import report_page
from efc.report.folder import read_results
from efc.report.terminal import results_table
from efc.runs.checking import check, repaired
from efc.runs.config import make_config
from efc.runs.documents import check_folder, read_results_file, results_text, write_config
from efc.runs.inspection import look
from efc.runs.results import MEASURES, ResultRow, Results, RunResult
from efc.runs.store import Store
from support.mutate import mutations
from support.records import a_result, a_run, old_store

N = int(os.environ.get("EFC_FUZZ", "25"))
RUNS = [a_run(k) for k in range(5)]
FAILING = a_run(9)
EFC_SETTINGS = make_config({"methods": "sgd", "seeds": 5}).to_yaml()


def result_of(k: int) -> RunResult:
    measures = dict.fromkeys(MEASURES, 10.0) | {"accuracy": 50.0 + k}
    return a_result(metrics=measures, diverged=k == 3)


TRUTH = {run.id: result_of(k) for k, run in enumerate(RUNS)}


def a_document() -> Results:
    settings = [run.settings.to_json() for run in RUNS]
    return Results([ResultRow.of(settings, list(TRUTH), list(TRUTH.values()))], "efc run")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with five runs, a failure, results and a configuration."""
    folder = tmp_path_factory.mktemp("whole") / "o"
    with Store(folder) as store:
        store.save([(run, result_of(k)) for k, run in enumerate(RUNS)])
        store.fail([FAILING], "ZeroDivisionError: oops")
    (folder / "results.json").write_text(results_text(a_document()))
    write_config(folder / "config.yaml", EFC_SETTINGS)
    return folder


@pytest.fixture
def again(whole: Path, tmp_path: Path) -> Callable[[], Path]:
    """A fresh copy of the folder, as often as asked."""

    def copy() -> Path:
        shutil.rmtree(tmp_path / "o", ignore_errors=True)
        return Path(shutil.copytree(whole, tmp_path / "o"))

    return copy


def values(folder: Path) -> dict[str, RunResult]:
    return {record.id: RunResult.from_json(record.stored().result) for record in look(folder, "DIR").records}


def look_at(folder: Path) -> None:
    """What the commands show; a sentence where nothing is left to show."""
    found = look(folder, "DIR")
    with pytest.raises(EFCError) if not (found.records or found.failures) else nullcontext():
        list_command(folder, None)
    export(folder / "runs.csv", folder, None)
    (folder / "runs.csv").unlink()


def test_a_whole_folder_is_well(again: Callable[[], Path]) -> None:
    folder = again()
    found = check(folder, "DIR")
    assert found.faults == []
    assert found.summary(folder).endswith("5 runs, 1 failure, 0 checkpoints: all is well")
    assert values(folder) == TRUTH
    assert sorted(file.name for file in folder.iterdir()) == ["config.yaml", "efc.sqlite", "results.json", "runs"]


@pytest.mark.parametrize("files", ["whole", "one damaged", "gone"])
def test_mutated_databases(again: Callable[[], Path], files: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With its copies whole every value comes back; with one damaged, or none left, what is shown is right."""
    rng = random.Random(1)
    folder = again()
    content = (folder / "efc.sqlite").read_bytes()
    for damaged in mutations(content, rng, N if files == "whole" else max(1, N // 5)):
        folder = again()
        (folder / "efc.sqlite").write_bytes(damaged)
        if files == "one damaged":
            file = folder / "runs" / f"{RUNS[0].id}.json"
            file.write_bytes(next(mutations(file.read_bytes(), rng, 1)))
        elif files == "gone":
            shutil.rmtree(folder / "runs")
        expected = right_or_said(folder, files == "whole")
        look_at(folder)
        with Store(folder) as store:
            after = store.finished(list(TRUTH))
        assert expected.items() <= after.items() <= TRUTH.items()
        assert not repaired(folder, "DIR", print).faults
        assert values(folder) == after


def right_or_said(folder: Path, complete: bool) -> dict[str, RunResult]:
    """What is found in a folder: the truth, or less with a word on what is damaged."""
    found = values(folder)
    assert found.items() <= TRUTH.items()
    if found != TRUTH:
        assert not complete
        assert check(folder, "DIR").faults
    return found


def test_mutated_files_of_runs(again: Callable[[], Path]) -> None:
    """The database makes up for a damaged file. Without it, a run that is not right is named."""
    rng = random.Random(2)
    file = again() / "runs" / f"{RUNS[1].id}.json"
    for damaged in mutations(file.read_bytes(), rng, N):
        folder = again()
        file = folder / "runs" / f"{RUNS[1].id}.json"
        same = damaged == file.read_bytes()
        file.write_bytes(damaged)
        assert values(folder) == TRUTH
        assert bool(check(folder, "DIR").faults) != same
        (folder / "efc.sqlite").unlink()
        right_or_said(folder, complete=False)
        with Store(folder) as store:
            assert store.finished(list(TRUTH)).items() <= TRUTH.items()


def test_mutated_folders_of_the_first_version(tmp_path: Path) -> None:
    """Without checksums the two copies still tell on each other: a value that is not right is never silent."""
    rng = random.Random(5)
    folder = tmp_path / "o"
    old_store(folder, [(run, result_of(k)) for k, run in enumerate(RUNS)])
    content = (folder / "efc.sqlite").read_bytes()
    shutil.copytree(folder / "runs", tmp_path / "runs")
    for damaged in mutations(content, rng, N):
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "runs", folder / "runs")
        (folder / "efc.sqlite").write_bytes(damaged)
        found = values(folder)
        assert found.keys() == TRUTH.keys()
        assert found == TRUTH or check(folder, "DIR").faults
        look_at(folder)
        told: list[str] = []
        with Store(folder, told.append) as store:
            assert store.finished(list(TRUTH)) == TRUTH or told


def test_files_of_runs_that_are_swapped(again: Callable[[], Path]) -> None:
    folder = again()
    one, other = (folder / "runs" / f"{run.id}.json" for run in RUNS[:2])
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    assert values(folder) == TRUTH
    (fault,) = check(folder, "DIR").faults
    assert "damaged in runs/, whole in efc.sqlite" in fault


@pytest.mark.parametrize("checksum", [True, False])
def test_mutated_results(again: Callable[[], Path], checksum: bool) -> None:
    """With a checksum: right, or one sentence. Without, as older versions wrote it: nothing that cannot be shown."""
    rng = random.Random(3)
    folder = again()
    file = folder / "results.json"
    text = file.read_bytes()
    if not checksum:
        body = text.decode().rpartition(',\n "checksum"')[0] + "\n}"
        text = body.replace('\n "sealed": true,', "").encode()
    file.write_bytes(text)
    assert read_results(folder) == a_document()
    shown = 0
    for damaged in mutations(text, rng, N):
        file.write_bytes(damaged)
        said = refused(lambda: read_results_file(file, "DIR"))
        if said:
            assert "results.json" in said
            continue
        found = read_results_file(file, "DIR")
        shown += 1
        if checksum:
            assert found == a_document()
        else:
            results_table(found)
            if shown < 200:
                report_page(found)
    assert shown < N


def test_a_checksum_that_was_cut_out_is_missed(again: Callable[[], Path]) -> None:
    """Without it, what is left reads as an older version's file: a value that was changed would be taken as it is."""
    folder = again()
    for file, shown in ((folder / "results.json", "efc run"), (folder / "runs" / f"{RUNS[0].id}.json", "50.0")):
        text = file.read_text()
        assert shown in text
        file.write_text(text.replace(shown, shown.replace("50", "60"), 1).rpartition(',\n "checksum"')[0] + "\n}")
    assert "its checksum is missing" in refused(lambda: read_results(folder))
    (folder / "efc.sqlite").unlink()
    assert RUNS[0].id not in values(folder)
    assert check(folder, "DIR").faults


def refused(do: Callable[[], object]) -> str:
    """The one sentence with which something is refused; empty if it is not."""
    try:
        do()
    except EFCError as problem:
        said = str(problem)
        assert "\n" not in said
        return said
    return ""


def test_mutated_configurations(again: Callable[[], Path]) -> None:
    """A damaged file is never taken for other settings: nobody is told to overwrite what is there."""
    rng = random.Random(4)
    folder = again()
    file = folder / "config.yaml"
    check_folder(folder, EFC_SETTINGS, overwrite=False)
    text = file.read_bytes()
    for damaged in mutations(text, rng, N):
        file.write_bytes(damaged)
        said = refused(lambda: check_folder(folder, EFC_SETTINGS, overwrite=False))
        assert "--overwrite" not in said
        assert "config.yaml" in said or damaged == text
