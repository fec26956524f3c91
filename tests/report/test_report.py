"""What the page is told, the command, and the figures for a paper; no browser needed."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from efc.cli import main
from efc.errors import EFCError
from efc.report import read_results, report_page, write_report
from efc.report.figures import draw
from efc.report.page_data import page_data
from efc.report.style import save
from efc.runs.results import MEASURES
from support.records import typed

Document = dict[str, Any]


def embedded(page: str) -> Document:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    return dict(json.loads(found[1]))


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["efc", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


@pytest.fixture
def folder(document: Document, tmp_path: Path) -> Path:
    (tmp_path / "results.json").write_text(json.dumps(document))
    return tmp_path


def test_numbers_on_the_page_are_those_of_the_document(document: Document) -> None:
    told = page_data(typed(document))
    assert told.command == document["command"]
    assert len(told.rows) == len(document["rows"])
    for row, theirs in zip(told.rows, document["rows"], strict=True):
        assert row["accuracy"]["mean"] == pytest.approx(theirs["accuracy"]["mean"], abs=0.006)
        assert row["accuracy"]["std"] == pytest.approx(theirs["accuracy"]["std"], abs=0.006)
        A = np.array(theirs["accuracy_matrix"], dtype=float)
        assert row["curve"]["mean"] == pytest.approx(np.nanmean(A, axis=2).mean(0), abs=0.006)
        assert row["curve"]["mean"][-1] == pytest.approx(theirs["accuracy"]["mean"], abs=0.006)
        counts = np.array(theirs["confusion"]).sum(0)
        assert (np.array(row["confusion"]) == counts).all()
        assert len(row["classes"]) == len(counts)
        if theirs["scenario"] == "domain":
            assert row["by_task"] is row["share"] is None
            assert row["classes"] == ["0 / 2 / 4 / 6 / 8", "1 / 3 / 5 / 7 / 9"]
            continue
        assert sum(map(sum, row["by_task"])) == counts.sum()
        assert row["by_task"][0][1] == counts[:2, 2:4].sum()
        assert sum(row["share"]["true"]) == pytest.approx(100, abs=0.1)
        # Settings are on the page once: with all rows, or with theirs.
        assert not set(row["settings"]) & set(told.common)
        assert row["settings"]["options.lr"] == str(theirs["config"]["options"]["lr"])
    assert told.common["epochs"] == "1"


def test_rows_that_differ_in_options_alone_are_told_apart(document: Document) -> None:
    rows = [copy.deepcopy(document["rows"][0]) for _ in range(3)]
    rows[1]["config"]["options"]["beta"] = 0.5
    rows[2]["config"]["options"] |= {"beta": 7, "lr": 1, "anchor": 2, "kappa": 3}
    told = [row["differs"] for row in page_data(typed(document | {"rows": rows})).rows]
    assert told[:2] == ["", "beta 0.5"]
    assert told[2].count(",") == 3
    assert told[2].endswith(", …")
    assert not any(row["differs"] for row in page_data(typed(document)).rows)


def test_the_papers_value_is_told_where_there_is_one(document: Document) -> None:
    row = document["rows"][0] | {"dataset": "mnist", "scenario": "class", "method": "efc-paper"}
    assert page_data(typed(document | {"rows": [row]})).rows[0]["paper"] == [51.4, 4.8]
    assert page_data(typed(document)).rows[0]["paper"] is None
    assert page_data(typed(document | {"rows": [row | {"method": "efc"}]})).rows[0]["paper"] is None
    variant = row | {"method": "efc", "variant": "paper"}
    assert page_data(typed(document | {"rows": [variant]})).rows[0]["paper"] == [51.4, 4.8]


def test_one_file_without_network_under_five_megabytes(document: Document, many: Document, hostile: Document) -> None:
    page = report_page(typed(document))
    assert len(page.encode()) < 2_300_000
    assert len(report_page(typed(many)).encode()) < 5_000_000
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=\"(?!data:)", page)
    assert embedded(report_page(typed(hostile)))["rows"][0]["method"] == hostile["rows"][0]["method"]
    assert "<script>window" not in report_page(typed(hostile))


def test_over_the_limit_class_confusions_are_left_out(document: Document) -> None:
    whole = report_page(typed(document))
    told = embedded(whole)
    limit = len(whole.encode()) - 700
    cut = report_page(typed(document), limit)
    assert len(cut.encode()) <= limit
    kept = [row["confusion"] is not None for row in embedded(cut)["rows"]]
    assert kept[0]
    assert not kept[-1]
    assert embedded(cut)["rows"][-1]["by_task"] == told["rows"][-1]["by_task"]


def test_curves_of_control_are_means_over_seeds(document: Document) -> None:
    for row, told in zip(document["rows"], page_data(typed(document)).rows, strict=True):
        if row["method"] == "sgd":
            assert row["trace"] is told["effort"] is None
            continue
        effort = told["effort"]
        assert effort["layers"] == ["layer 1", "output"]
        assert (effort["task"], effort["epochs"]) == ([1, 2, 3, 4, 5], 5)
        assert effort["borders"] == [1.5, 2.5, 3.5, 4.5]
        for name in ("psi", "gamma"):
            each = np.array([[entry[name] for entry in trace] for trace in row["trace"]])
            np.testing.assert_allclose(np.transpose(effort[name]["mean"]), each.mean(0), rtol=6e-3)
            np.testing.assert_allclose(np.transpose(effort[name]["std"]), each.std(0, ddof=1), rtol=6e-2)
        each = np.array([[entry["unsettled"] for entry in trace] for trace in row["trace"]])
        np.testing.assert_allclose(effort["unsettled"]["mean"][0], 100 * each.mean(0), rtol=6e-3)


def lengthened(row: Document, epochs: int) -> Document:
    """The same row as if each task had had so many epochs."""
    longer = [
        [entry | {"epoch": e, "psi": [e * v for v in entry["psi"]]} for entry in trace for e in range(1, epochs + 1)]
        for trace in row["trace"]
    ]
    return row | {"trace": longer}


def test_a_long_training_is_thinned_and_500_runs_of_it_fit(document: Document) -> None:
    rows = [row for row in document["rows"] if row["trace"]]
    long = lengthened(rows[0], 70)
    effort = page_data(typed(document | {"rows": [long]})).rows[0]["effort"]
    assert effort["epochs"] == 350
    assert len(effort["at"]) == len(effort["psi"]["mean"][0]) < 110
    assert effort["at"][0] == effort["epoch"][0] == 1
    assert effort["epoch"][:3] == [1, 5, 9]
    assert effort["borders"] == [70.5, 140.5, 210.5, 280.5]
    assert [e for e, t in zip(effort["at"], effort["task"], strict=True) if t == 2][-1] == 140
    runs = [lengthened(rows[k % len(rows)], 20) | {"head": f"head {k}"} for k in range(170)]  # of three seeds each
    page = report_page(typed(document | {"rows": runs}))
    assert len(page.encode()) < 5_000_000
    assert all(row["effort"] and row["confusion"] for row in embedded(page)["rows"])


def test_over_the_limit_the_curves_of_control_go_last(document: Document) -> None:
    rows = [lengthened(row, 20) if row["trace"] else row for row in document["rows"]]
    told = page_data(typed(document | {"rows": rows}))
    whole = report_page(typed(document | {"rows": rows}))
    confusions = sum(len(json.dumps(row["confusion"], separators=(",", ":"))) for row in told.rows)
    limit = len(whole.encode()) - confusions - 500
    cut = report_page(typed(document | {"rows": rows}), limit)
    assert len(cut.encode()) <= limit
    left = embedded(cut)["rows"]
    assert not any(row["confusion"] for row in left)
    kept = [row["effort"] is not None for row in left if row["unsettled"]]
    assert kept[0]
    assert not kept[-1]


def test_results_without_a_trace_are_read_as_before(document: Document, folder: Path) -> None:
    old = copy.deepcopy(document)
    for row in old["rows"]:
        del row["trace"]
    (folder / "results.json").write_text(json.dumps(old))
    assert embedded(report_page(read_results(folder)))["rows"][0]["effort"] is None
    with pytest.raises(EFCError, match="no run here has an equilibrium or its record"):
        draw(typed(old), "effort")


def test_a_single_task_a_single_seed_and_a_diverged_run(document: Document) -> None:
    row = copy.deepcopy(document["rows"][0])
    row |= {
        "seeds": [0],
        "runs": row["runs"][:1],
        "tasks": row["tasks"][:1],
        "accuracy_matrix": [[[0.0]]],
        "diverged": [0],
        "warnings": ["training diverged"],
        "trace": [[{"task": 1, "epoch": 1, "psi": [None, None], "gamma": [None, None], "unsettled": 1.0}]],
    }
    row |= {"confusion": [[[0, 0], [0, 0]]], "prediction_share": [[0.0]]}
    for name in (*MEASURES, "unsettled"):
        row[name] = {"mean": 0.0, "std": 0.0, "per_seed": [0.0]}
    told = embedded(report_page(typed(document | {"rows": [row]})))
    assert told["rows"][0]["status"] == "diverged"
    assert any("diverged" in note for note in told["notes"])
    assert told["rows"][0]["effort"]["psi"]["mean"] == [[None], [None]]
    assert draw(typed(document | {"rows": [row]}), "effort").axes


def test_a_run_ends_with_its_report_and_a_store_alone_gives_one(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "efc"]
    run = [*command, "run", "--methods", "sgd", "--seeds", "2", "--epochs", "1", "--hidden", "8", "--out", "o"]
    done = subprocess.run(run, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"open {Path('o') / 'report.html'}" in done.stderr
    written = embedded((tmp_path / "o" / "report.html").read_text(encoding="utf-8"))
    assert written["command"].startswith("efc run --methods sgd")
    (tmp_path / "o" / "results.json").unlink()
    again = subprocess.run([*command, "report", "o"], capture_output=True, text=True, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stdout.strip() == str(Path("o") / "report.html")
    stored = embedded((tmp_path / "o" / "report.html").read_text(encoding="utf-8"))
    assert stored["rows"] == written["rows"]
    assert stored["command"] == ""


def test_a_store_from_before_the_trace_gives_a_report(tmp_path: Path) -> None:
    settings = ["--methods", "efc", "--seeds", "2", "--epochs", "1", "--hidden", "8", "--out", "o"]
    done = subprocess.run([sys.executable, "-m", "efc", "run", *settings], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "o" / "results.json").unlink()
    assert read_results(tmp_path / "o").rows[0].trace
    (tmp_path / "o" / "efc.sqlite").unlink()
    for file in (tmp_path / "o" / "runs").glob("*.json"):
        old = json.loads(file.read_text())
        del old["sealed"], old["checksum"], old["result"]["trace"]
        file.write_text(json.dumps(old))
    told = embedded(report_page(read_results(tmp_path / "o")))["rows"][0]
    assert told["effort"] is None
    assert told["unsettled"] is not None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["report", "nowhere"], "DIR: there is no results.json in nowhere"),
        (["report", "broken"], "holds no results of efc run or efc bench"),
        (["plot", ".", "--kind", "pie"], "--kind: unknown value 'pie'"),
        (["plot", ".", "--kind", "effort", "--where", "method=sgd"], "--kind: 'effort' shows how EFC's control went"),
        (["plot", ".", "--format", "gif"], "--format: unknown value 'gif'"),
        (["plot", ".", "--width", "poster"], "--width: unknown value 'poster'"),
        (["plot", ".", "--where", "colour=red"], "--where: expected NAME=VALUE"),
        (["plot", ".", "--where", "method=mas"], "--where: no row has method=mas"),
        (["plot", ".", "--out", "figure.png"], "--out: figure.png does not end in .pdf"),
        (["plot", ".", "--out", "no/such/figure.pdf"], "--out: cannot write no/such/figure.pdf"),
    ],
)
def test_mistakes(
    arguments: list[str], says: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    (folder / "broken").mkdir()
    (folder / "broken" / "results.json").write_text('{"rows": []}')
    assert call(monkeypatch, *arguments) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["matrix", "curves", "confusion", "effort"])
def test_figures_of_a_papers_width_with_nothing_on_top_of_anything(document: Document, kind: str) -> None:
    """Within the figure, and no label of an axis touches another's."""
    for width, inches in (("column", 3.4), ("page", 7.0)):
        figure = draw(typed(document), kind, width)
        assert figure.get_figwidth() == inches
        figure.draw_without_rendering()
        everything = figure.get_tightbbox()
        assert everything.x0 >= -0.01
        assert everything.x1 <= inches + 0.01
        panels = [axis.get_tightbbox() for axis in figure.axes if axis.axison]
        for k, one in enumerate(panels):
            for other in panels[:k]:
                apart = (
                    one.x1 <= other.x0 + 2 or other.x1 <= one.x0 + 2 or one.y1 <= other.y0 + 2 or other.y1 <= one.y0 + 2
                )
                assert apart
        for axis in figure.axes:
            labels = [text.get_window_extent() for text in axis.get_xticklabels() if text.get_text()]
            for left, right in pairwise(labels):
                assert left.x1 <= right.x0 or not axis.axison


@pytest.mark.parametrize(("suffix", "begins"), [("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_plot_command_writes_the_same_file_twice(
    suffix: str, begins: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = []
    for _ in range(2):
        assert (
            call(monkeypatch, "plot", str(folder), "--kind", "curves", "--format", suffix, "--where", "method=efc") == 0
        )
        contents.append((folder / f"curves.{suffix}").read_bytes())
    assert contents[0].startswith(begins)
    assert contents[0] == contents[1]


def test_hostile_names_are_drawn(hostile: Document, tmp_path: Path) -> None:
    for kind in ("matrix", "curves", "confusion", "effort"):
        save(draw(typed(hostile), kind), tmp_path / "figure.svg")
        assert (tmp_path / "figure.svg").exists()


def test_too_many_rows_for_a_figure(many: Document) -> None:
    with pytest.raises(EFCError, match="500 rows are too many"):
        draw(typed(many), "matrix")
    with pytest.raises(EFCError, match="effort of 20 rows is too much"):
        draw(typed(many | {"rows": many["rows"][:40]}), "effort")


def test_a_folder_gives_the_document_that_was_written(folder: Path, document: Document) -> None:
    assert read_results(folder).to_json() == json.loads(json.dumps(document))
    assert write_report(folder, typed(document)) == folder / "report.html"
