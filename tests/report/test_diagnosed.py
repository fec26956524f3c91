"""What is shown of a diagnosis: the terminal's table, the figure and the page say what the results say."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from efc.api import run
from efc.errors import EFCError
from efc.report.diagnosed import diagnosed, diagnosis_table
from efc.report.figures import draw
from efc.report.page_data import page_data
from efc.report.style import save
from efc.report.terminal import make_console
from support.command import efc
from support.records import typed

Document = dict[str, Any]


@pytest.fixture(scope="module")
def found() -> Document:
    """Real results: two learners of features, and a closed form."""
    return run(methods=["sgd", "joint", "analytic"], scenario="class", seeds=2, epochs=1, hidden=[12], diagnose=True)


@pytest.fixture(scope="module")
def planted(found: Document) -> Document:
    """The same with numbers that can be told: two seeds, lost 10 and 20 points, drift all linear or none of it."""
    document = copy.deepcopy(found)
    for seed, told in enumerate(document["rows"][0]["diagnosis"]):
        T = len(told["accuracy"])
        told |= {"accuracy": [70.0] * T, "oracle": [80.0 + 10 * seed] * T, "ridge": [75.0] * T}
        told |= {"drift": [40.0] * (T - 1) + [0.0], "explained": [100.0, 0.0] + [75.0] * (T - 3) + [None]}
        told |= {"confused": [{"shown": "8", "answered": "1", "share": 30.0 + 10 * seed, "oracle": 5.0}]}
        told |= {"newest": 20.0, "newest_oracle": 4.0}
    return document


def test_over_seeds(planted: Document) -> None:
    row = diagnosed(typed(planted).rows[0])
    assert row is not None
    assert row.lost.mean(1).tolist() == [10.0, 20.0]
    np.testing.assert_allclose(row.unexplained, [0.0, 40.0, 20.0, 20.0, 0.0])
    assert row.newest == (20.0, 4.0)
    assert [(one.shown, one.answered, one.share, one.oracle) for one in row.confused] == [("8", "1", 35.0, 5.0)]
    assert diagnosed(typed(planted).rows[2]) is None


def test_the_terminal_says_it_in_eighty_columns(planted: Document, capsys: pytest.CaptureFixture[str]) -> None:
    diagnosis_table(typed(planted), make_console(width=80))
    told = capsys.readouterr().out
    assert all(len(line) <= 80 for line in told.splitlines())
    (line,) = [line for line in told.splitlines() if " sgd " in line]
    assert line.split()[-6:] == ["70.0", "85.0", "75.0", "15.0", "40", "62"]
    assert "for diagnosis only" in told
    words = " ".join(told.split())
    assert "sgd (input_compensated, class): confuses 8 as 1: 35.0 % (oracle 5.0 %)" in words
    assert "older samples answered with newest classes: 20.0 % (oracle 4.0 %)" in words
    assert "analytic: it is a closed form: it learns no features" in words
    diagnosis_table(typed({**planted, "rows": [row | {"diagnosis": None} for row in planted["rows"]]}), make_console())
    assert capsys.readouterr().out == ""


def test_the_figure_shows_what_is_lost_and_what_drifts(planted: Document, tmp_path: Path) -> None:
    for width, inches in (("column", 3.4), ("page", 7.0)):
        figure = draw(typed(planted), "diagnosis", width)
        assert figure.get_figwidth() == inches
        above, below = figure.axes
        assert [label.get_text() for label in above.get_yticklabels()] == [
            "sgd, input-compensated", "joint, input-compensated",
        ]  # fmt: skip
        own, lost = above.patches[0], above.patches[1]
        assert own.get_x() + own.get_width() == pytest.approx(70.0)
        assert (lost.get_x(), lost.get_width()) == pytest.approx((70.0, 15.0))
        assert "lost 15.0" in [text.get_text() for text in above.texts]
        np.testing.assert_allclose(below.lines[0].get_ydata(), [40, 40, 40, 40, 0])
        np.testing.assert_allclose(below.lines[1].get_ydata(), [0, 40, 20, 20, 0], atol=1e-9)
        save(figure, tmp_path / f"{width}.svg")
        drawn = (tmp_path / f"{width}.svg").read_text(encoding="utf-8")
        assert "lost in the head" in drawn
        assert "drift of the features" in drawn


def test_there_is_no_figure_where_nobody_asked(document: Document, found: Document) -> None:
    with pytest.raises(EFCError, match="no run here was diagnosed"):
        draw(typed(document), "diagnosis")
    many = [found["rows"][0]] * 21
    with pytest.raises(EFCError, match="diagnosis of 21 rows is too much"):
        draw(typed(found | {"rows": many}), "diagnosis")


def test_the_page_is_told_the_same(planted: Document, document: Document) -> None:
    told = {str(row["method"]): row["diagnosis"] for row in page_data(typed(planted)).rows}
    sgd, analytic = told["sgd"], told["analytic"]
    assert isinstance(sgd, dict)
    assert isinstance(analytic, dict)
    assert (sgd["lost"]["mean"], sgd["lost"]["per_seed"]) == (15, [10, 20])
    assert sgd["drift"] == [40, 40, 40, 40, 0]
    assert sgd["explained"] == [100, 0, 75, 75, None]
    assert analytic["notes"] == ["analytic: it is a closed form: it learns no features, its head is all there is to it"]
    assert all(row["diagnosis"] is None for row in page_data(typed(document)).rows)


def test_the_section_is_there_where_there_is_something(
    show: Callable[..., Any], planted: Document, small: Document
) -> None:
    page = show(planted)
    section = page.locator("#diagnosis-section")
    assert section.is_visible()
    page.evaluate("document.querySelectorAll('#diagnosis .chart').forEach(draw)")
    page.wait_for_function("() => document.querySelectorAll('#diagnosis .main-svg').length >= 2")
    assert page.locator("#diagnosis figure").count() == 2
    assert "lost 15.0" in page.locator("#diagnosis").inner_text()
    page.locator("#diagnosis summary").first.click()
    line = page.locator("#diagnosis tbody tr", has_text="sgd, input_compensated").first.inner_text().split("\t")
    assert line[:5] == ["sgd, input_compensated", "70.0 ± 0.0", "85.0 ± 7.1", "75.0 ± 0.0", "15.0 ± 7.1"]
    assert "confuses 8 as 1: 35.0 % (oracle 5.0 %)" in page.locator("#diagnosis").inner_text()
    assert "analytic: it is a closed form" in page.locator("#diagnosis").inner_text()
    assert not show(small).locator("#diagnosis-section").is_visible()


def test_from_the_command_to_the_figure(tmp_path: Path) -> None:
    """Asked for in a file, shown after the table, in results.json, drawn; a plain run of the same is left alone."""
    (tmp_path / "settings.yaml").write_text("diagnose: true\n")
    given = ("run", "--methods", "sgd", "--seeds", "1", "--epochs", "1", "--hidden", "8", "--tasks", "2", "--out", "o")
    done = efc(*given, "--config", "settings.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Diagnosis: features and head after the last task" in done.stdout
    (row,) = json.loads((tmp_path / "o" / "results.json").read_text())["rows"]
    assert row["config"]["diagnose"] is True
    assert len(row["diagnosis"][0]["oracle"]) == 2
    again = efc(*given, "--diagnose", cwd=tmp_path)  # the same settings, and nothing to compute
    assert again.returncode == 0, again.stderr
    plotted = efc("plot", "o", "--kind", "diagnosis", "--format", "png", cwd=tmp_path)
    assert plotted.returncode == 0, plotted.stderr
    assert (tmp_path / "o" / "diagnosis.png").stat().st_size > 5000
