"""The page as a reader meets it, in a real browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (extra: dev)")

Show = Callable[..., Any]
Document = dict[str, Any]
OUTSIDE = {"exclude": [[".chart > *"]]}
"""A chart is one picture with a name; what it is made of is no business of a screen reader's."""
COLUMN = """name => {
  const k = [...document.querySelectorAll("#table thead th")].findIndex(th => th.textContent === name);
  return [...document.querySelectorAll("#table tbody tr")].map(tr => tr.cells[k].textContent);
}"""


def column(page: Any, name: str) -> list[str]:
    return list(page.evaluate(COLUMN, name))


def means(page: Any, name: str) -> list[float]:
    return [float(text.split(" ± ")[0].replace("\u2212", "-")) for text in column(page, name) if text]


def draw_all(page: Any) -> None:
    """Every chart that has a place, as if it had come into view."""
    page.evaluate("document.querySelectorAll('.chart').forEach(draw)")
    page.wait_for_function("() => [...document.querySelectorAll('.chart')].every(c => c.querySelector('.main-svg'))")


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (390, "dark"), (1440, "light"), (1440, "dark")])
def test_readable_at_any_width_in_any_light(show: Show, document: Document, width: int, scheme: str) -> None:
    page = show(document, width, scheme)
    page.locator("#share").scroll_into_view_if_needed()
    page.locator("#share .main-svg").first.wait_for()
    draw_all(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert len(column(page, "method")) == len(document["rows"])
    for details in page.locator("details:visible > summary").all()[:8]:
        details.click()
    faults = [
        (fault["id"], fault["impact"], [node["html"] for node in fault["nodes"]][:3])
        for fault in axe.Axe().run(page, context=OUTSIDE).response["violations"]
        if fault["impact"] in ("serious", "critical")
    ]
    assert faults == []
    # No chart is wider than its place.
    assert page.evaluate(
        "[...document.querySelectorAll('.chart')].every(c => c.querySelector('svg').clientWidth <= c.clientWidth + 1)"
    )


def test_sorted_by_mouse_and_by_keyboard(show: Show, small: Document) -> None:
    page = show(small)
    head = page.get_by_role("columnheader", name="accuracy %")
    head.get_by_role("button").click()
    found = means(page, "accuracy %")
    assert found == sorted(found, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert means(page, "accuracy %") == sorted(found)
    assert head.get_attribute("aria-sort") == "ascending"
    page.get_by_role("columnheader", name="method").get_by_role("button").press("Space")
    assert column(page, "method") == sorted(column(page, "method"))
    assert "sorted by method" in page.locator("#status").inner_text()
    # What is missing comes last, whichever way.
    settled = page.get_by_role("columnheader", name="unsettled %").get_by_role("button")
    for _ in range(2):
        settled.click()
        texts = column(page, "unsettled %")
        assert texts[-1] == ""
        assert texts[0] != ""


def test_filters_reach_table_and_figures(show: Show, document: Document) -> None:
    page = show(document)
    page.get_by_role("checkbox", name="efc").check()
    page.get_by_role("checkbox", name="domain").check()
    assert column(page, "method") == ["efc", "efc"]
    assert page.locator("#matrices figure").count() == page.locator("#effort figure").count() == 2
    page.get_by_role("checkbox", name="sgd").check()
    assert sorted(column(page, "method")) == ["efc", "efc", "sgd", "sgd"]
    assert page.locator("#curves figure").count() == 1
    assert page.locator("#effort figure").count() == 2  # sgd has no equilibrium
    assert "No Class-IL rows" in page.locator("#share").inner_text()
    page.get_by_role("checkbox", name="efc").uncheck()
    assert page.locator("#effort").inner_text() == "No rows: only EFC has these signals."
    page.get_by_role("checkbox", name="efc").check()
    page.get_by_role("radio", name="task").check()
    assert "4 rows without" in page.locator("#confusion").inner_text()
    page.get_by_role("button", name="Show all").click()
    assert len(column(page, "method")) == len(document["rows"])
    assert page.get_by_role("checkbox", name="efc").is_checked() is False
    draw_all(page)


def test_tooltips_and_numbers(show: Show, small: Document) -> None:
    page = show(small)
    first = page.locator("#matrices .chart").first
    first.scroll_into_view_if_needed()
    cell = first.locator(".xy").first.bounding_box()
    page.mouse.move(cell["x"] + cell["width"] * 0.1, cell["y"] + cell["height"] * 0.9)
    tip = first.locator(".hoverlayer .hovertext")
    tip.wait_for()
    assert "on task 1 (0, 1)" in tip.text_content()
    assert "after task 5 (8, 9)" in tip.text_content()
    mean = sum(matrix[-1][0] for matrix in small["rows"][0]["accuracy_matrix"]) / 3
    assert f"{mean:.1f} ±" in tip.text_content()
    # The same without a mouse.
    page.locator("#matrices summary").first.focus()
    page.keyboard.press("Enter")
    assert f"{mean:.1f} ±" in page.locator("#matrices figure").first.locator("tbody tr").last.inner_text()


def test_control_by_layer_and_epoch(show: Show, small: Document) -> None:
    page = show(small)
    figure = page.locator("#effort figure").first
    figure.scroll_into_view_if_needed()
    figure.locator(".main-svg").first.wait_for()
    traces = next(row["trace"] for row in small["rows"] if row["trace"])
    # Psi and gamma of the one hidden layer and of the output, and what did not settle; bands behind them.
    assert figure.locator(".scatterlayer .trace").count() == 2 * (2 * 2 + 1)
    assert figure.locator(".shapelayer path").count() == len(small["rows"][0]["tasks"]) - 1
    assert figure.locator(".annotation-text").all_text_contents() == ["0 1", "2 3", "4 5", "6 7", "8 9"]
    assert figure.locator(".legendtext").all_text_contents() == [
        "ψ, asked by learning",
        "\u03b3, answered by preservation",
    ]
    panel = figure.locator(".xy").first.bounding_box()
    last = figure.locator(".xy .scatterlayer .trace").nth(1).locator(".point").last.bounding_box()
    assert panel["x"] < last["x"] < panel["x"] + panel["width"]
    page.mouse.move(last["x"] + last["width"] / 2, last["y"] + last["height"] / 2)
    tip = figure.locator(".hoverlayer .hovertext")
    tip.wait_for()
    assert "task 5 (8, 9), epoch 1" in tip.text_content()
    mean = sum(trace[-1]["psi"][0] for trace in traces) / len(traces)
    shown = float(tip.text_content().split("layer 1: ψ ")[1].split(" ±")[0])
    assert shown == pytest.approx(mean, rel=6e-3)
    # The same without a mouse.
    figure.locator("summary").focus()
    page.keyboard.press("Enter")
    assert "ψ layer 1" in figure.locator("thead").inner_text()
    assert figure.locator("tbody tr").count() == len(traces[0])
    assert float(figure.locator("tbody tr").last.locator("td").first.inner_text().split(" ±")[0]) == shown


def test_results_from_before_the_record_and_runs_that_diverged(show: Show, small: Document) -> None:
    rows = [dict(row) for row in small["rows"]]
    first, second = (row for row in rows if row["trace"])
    del first["trace"]
    second["trace"] = [
        [entry | {"psi": [None, None], "gamma": [None, None]} for entry in trace] for trace in second["trace"]
    ]
    page = show(small | {"rows": rows})
    draw_all(page)
    assert "1 row without" in page.locator("#effort").inner_text()
    assert page.locator("#effort figure").count() == 1


def test_every_kind_of_figure_downloads(show: Show, small: Document, tmp_path: Path) -> None:
    page = show(small, scheme="dark")
    for place in ("curves", "transfer", "share", "effort", "matrices", "confusion"):
        for kind in ("SVG", "PNG"):
            with page.expect_download() as waiting:
                page.locator(f"#{place}").get_by_role("button", name=f"Download as {kind}").first.click()
            waiting.value.save_as(tmp_path / "figure")
            content = (tmp_path / "figure").read_bytes()
            assert waiting.value.suggested_filename.endswith(f".{kind.lower()}")
            assert content[:4] == (b"<svg" if kind == "SVG" else b"\x89PNG")
            assert len(content) > 3000
            if kind == "SVG":
                assert b"rgb(255, 255, 255)" in content  # light, for paper, though the page is dark


def test_colours_follow_the_system_until_chosen(show: Show, small: Document) -> None:
    page = show(small, scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    chart = "getComputedStyle(document.querySelector('.chart .main-svg')).backgroundColor"
    page.locator(".chart .main-svg").first.wait_for()
    assert page.evaluate(background) == page.evaluate(chart) == "rgb(20, 23, 27)"
    page.get_by_label("Colours").select_option("light")
    assert page.evaluate(background) == page.evaluate(chart) == "rgb(255, 255, 255)"
    page.reload()
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    page.get_by_label("Colours").select_option("auto")
    assert page.evaluate(background) == "rgb(20, 23, 27)"


def test_printed_in_light_with_all_figures(show: Show, small: Document) -> None:
    page = show(small, scheme="dark")
    page.wait_for_function("() => window.Plotly")
    assert page.pdf(format="A4")[:5] == b"%PDF-"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    charts = page.locator(".chart").count()
    assert page.locator(".chart:has(.main-svg)").count() == charts
    page.emulate_media(media="print")
    assert page.locator(".chart svg").first.bounding_box()["width"] <= 700
    assert not page.locator("#filters").is_visible()


def test_what_happened_stands_first_and_the_rows_in_its_order(show: Show, small: Document) -> None:
    page = show(small)
    told = page.locator("#verdict p").first
    best = small["rows"][0]
    assert told.inner_text().startswith(
        f"digits, class-IL: {best['method']} with the head {best['head']} has the highest"
    )
    assert f"{best['accuracy']['mean']:.1f} ±" in told.inner_text()
    found = means(page, "accuracy %")
    assert found == sorted(found, reverse=True)


def test_captured_whole_without_scrolling_every_figure_is_drawn(show: Show, small: Document) -> None:
    page = show(small)
    page.wait_for_function("() => [...document.querySelectorAll('.chart')].every(c => c.querySelector('.main-svg'))")


def test_it_rounds_as_python_does(show: Show, small: Document) -> None:
    values = [62.25, 62.35, 94.5, 95.5, 0.125, 0.375, 2.675, -0.25, 99.95, 12.344999]
    page = show(small)
    for digits in (0, 1, 2):
        assert page.evaluate(f"values => values.map(v => fixed(v, {digits}))", values) == [
            f"{v:.{digits}f}" for v in values
        ]


def test_a_filter_that_is_on_is_named(show: Show, document: Document) -> None:
    page = show(document)
    assert page.get_by_role("button", name="Show all").is_disabled()
    page.get_by_role("checkbox", name="efc").check()
    page.get_by_role("checkbox", name="domain").check()
    assert "2 of 8 rows: scenario domain, method efc" in page.locator("#status").inner_text()
    page.get_by_role("button", name="Show all").click()
    assert "8 of 8 rows, the best" in page.locator("#status").inner_text()


def test_500_rows_open_and_sort(show: Show, many: Document) -> None:
    page = show(many)
    assert len(column(page, "method")) == 500
    page.locator("#curves").scroll_into_view_if_needed()
    page.locator("#curves .chart .main-svg").first.wait_for()
    assert page.locator("#matrices figure").count() == 24
    page.locator("#matrices .more").click()
    assert page.locator("#matrices figure").count() == 48
    page.get_by_role("columnheader", name="accuracy %").get_by_role("button").click()
    found = means(page, "accuracy %")
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("width", [390, 1440])
def test_hostile_names_are_text(show: Show, hostile: Document, width: int) -> None:
    page = show(hostile, width)
    draw_all(page)
    names = [row["method"] for row in hostile["rows"]]
    assert column(page, "method") == names
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == page.locator("table b").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert hostile["command"] in page.locator("#reproduce pre").inner_text()
    legend = page.locator("#curves .legendtext").first.text_content()
    assert legend.startswith("<script>")
    chart = page.locator("#matrices .chart").nth(2)
    chart.scroll_into_view_if_needed()
    cell = chart.locator(".xy").first.bounding_box()
    page.mouse.move(cell["x"] + cell["width"] * 0.1, cell["y"] + cell["height"] * 0.9)
    chart.locator(".hoverlayer .hovertext").wait_for()
    assert names[2] in chart.locator(".hoverlayer .hovertext").text_content()
    assert page.evaluate("window.hacked") is None
