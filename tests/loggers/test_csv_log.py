"""The CSV files, and lines that were cut off."""

from __future__ import annotations

import csv
import os
import random
from pathlib import Path

import pytest

from efc.files import from_cell
from efc.loggers import Logs
from support.logs import by_hand, expected, read_csv, same
from support.mutate import mutations
from support.records import a_result, a_run

COUNT = int(os.environ.get("EFC_FUZZ", "150"))


def test_a_run_that_was_cut_off_while_it_was_written_is_written_again(tmp_path: Path) -> None:
    (one, result), (other, _) = by_hand(0), by_hand(1)
    logs = Logs(tmp_path / "logs", ["csv"], pytest.fail)
    logs.log(one, result)
    file = tmp_path / "logs" / "csv" / "metrics.csv"
    whole = file.read_text()
    file.write_text(whole[: whole.rindex("seconds") + 10])  # its last line lacks its end
    for run in (other, one):  # the other first: it must not be glued to the line
        again = Logs(tmp_path / "logs", ["csv"], pytest.fail)
        again.log(run, result)
        again.close()
    same(read_csv(tmp_path / "logs")[0], {one.id: expected(result), other.id: expected(result)})


HOSTILE = ("=HYPERLINK(1)", "npz:a\nb,\u2028c\x1b\x0b.npz", "-1+1", "+1", "'=x", "@x", 'a"b\r\n"c')


def test_names_are_no_formulas_and_break_no_line(tmp_path: Path) -> None:
    """Logged twice, and computed again: one row each, which a reader takes for what was meant."""
    runs = [a_run(seed, method=name, dataset=name) for seed, name in enumerate(HOSTILE)]
    for _ in range(2):
        logs = Logs(tmp_path / "logs", ["csv"], pytest.fail)
        for run in runs:
            logs.log(run, a_result())
        logs.forget([runs[1].id, runs[6].id])
        logs.close()
    logs = Logs(tmp_path / "logs", ["csv"], pytest.fail)
    for run in runs:
        logs.log(run, a_result())
    numbers, params = read_csv(tmp_path / "logs")
    same(numbers, {run.id: expected(a_result()) for run in runs})
    assert params.keys() == {run.id for run in runs}
    with (tmp_path / "logs" / "csv" / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    written = {row["run"]: row["method"] for row in rows}
    assert written[runs[0].id] == "'=HYPERLINK(1)"
    assert written[runs[3].id] == "+1"  # a number, and no formula
    assert not any(row["method"][0] in "=@-" or "\n" in row["method"] for row in rows)
    meant = {run.id: from_cell(written[run.id]) for run in runs}
    assert [meant[run.id] for run in runs] == [
        "=HYPERLINK(1)", r"npz:a\nb,\u2028c\x1b\x0b.npz", "-1+1", "+1", "'=x", "@x", r'a"b\r\n"c'
    ]  # fmt: skip


def test_a_log_of_an_older_version_with_broken_lines_is_mended(tmp_path: Path) -> None:
    """A newline in a quoted name was two lines of the file; taking the run away takes both."""
    logs = Logs(tmp_path / "logs", ["csv"], pytest.fail)
    run = a_run(0)
    file = tmp_path / "logs" / "csv" / "metrics.csv"
    with file.open("a") as target:
        target.write(f'{run.id},"npz:a\nb.npz",class,sgd,random,0,seconds,2,1.5\n')
    logs.log(run, a_result())
    same(read_csv(tmp_path / "logs")[0], {run.id: expected(a_result())})


def test_a_damaged_log_is_written_again_or_told(tmp_path: Path) -> None:
    """Bytes changed at random: afterwards all runs are there, whole, or the logger has said why not."""
    told: list[str] = []
    runs = [a_run(seed) for seed in range(3)]
    logs = Logs(tmp_path / "logs", ["csv"], told.append)
    for run in runs:
        logs.log(run, a_result())
    file = tmp_path / "logs" / "csv" / "metrics.csv"
    for damaged in mutations(file.read_bytes(), random.Random(0), COUNT):
        file.write_bytes(damaged)
        again = Logs(tmp_path / "logs", ["csv"], told.append)
        for run in runs:
            again.log(run, a_result())
        again.close()
        assert again.failed == bool(told)
        ids = {line.partition(b",")[0] for line in file.read_bytes().split(b"\n")}
        assert {run.id.encode() for run in runs} <= ids or told
        assert not told
