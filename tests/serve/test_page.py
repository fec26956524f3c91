"""The page of `efc serve` as somebody meets it: a real server, a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from support.serving import Served, samples, serving

pytest.importorskip("starlette", reason="starlette is not installed (extra: serve)")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed (extra: dev)")

Open = Callable[..., Any]
Points = list[tuple[float, float]]
PATIENCE = 120_000
TOKEN = "open sesame"
CUT_OFF = """() => [...document.querySelectorAll('.chart svg')].flatMap(svg => {
  const edge = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(text => {
    const { left, right } = text.getBoundingClientRect();
    return left < edge.left - 1 || right > edge.right + 1;
  }).map(text => text.textContent);
})"""
"""What of a chart's texts does not fit into it."""
INK = round(load_digits().images.sum((1, 2)).mean())
ONE: Points = [(0.5, 0.1), (0.5, 0.9)]
SEVEN: Points = [(0.28, 0.15), (0.72, 0.15), (0.42, 0.85)]
FOUR: Points = [(0.55, 0.12), (0.25, 0.6), (0.78, 0.6), (0.6, 0.6), (0.6, 0.35), (0.58, 0.9)]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The demonstration, as its tests leave it for each other: each teaches a digit of its own."""
    with serving(tmp_path_factory.mktemp("demo") / "digits.safetensors", "--demo") as served:
        yield served


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A model of four inputs behind a token, with nothing beside it."""
    model = tmp_path_factory.mktemp("rows") / "model.safetensors"
    with serving(model, token=TOKEN, EFC_SERVE_TOKEN=TOKEN) as served:
        yield served


@pytest.fixture
def show(browser: Any) -> Iterator[Open]:
    """Opens pages; at the end none may have complained, nor asked anybody but its own server for anything."""
    contexts, complaints = [], []

    def opened(served: Served, allowed: str = "nothing", **more: Any) -> Any:
        url = f"http://127.0.0.1:{served.port}/"

        def heard(message: Any) -> None:
            if message.type in ("error", "warning") and allowed not in message.text:
                complaints.append(message.text)

        def requested(request: Any) -> None:
            if not request.url.startswith(url):
                complaints.append(f"request: {request.url}")

        context = browser.new_context(viewport={"width": 1440, "height": 900}, **more)
        contexts.append(context)
        context.on("request", requested)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)  # a loaded machine is slow
        page.on("console", heard)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def draw(page: Any, points: Points, size: float = 1.0) -> Any:
    """A stroke with the mouse, from the pad's upper left corner on; the input that the page asked about."""
    page.locator("#pad").scroll_into_view_if_needed()
    page.locator("#clear").click()
    box = page.locator("#pad").bounding_box()
    at = [(box["x"] + size * x * box["width"], box["y"] + size * y * box["height"]) for x, y in points]
    page.mouse.move(*at[0])
    page.mouse.down()
    for x, y in at[1:]:
        page.mouse.move(x, y, steps=6)
    with page.expect_request("**/predict", timeout=PATIENCE):
        page.mouse.up()
    return seen(page)


def draw_by_finger(page: Any, points: Points) -> None:
    """A finger draws, and does not scroll: from the end to the beginning, as it would to see more of the page."""
    page.locator("#pad").scroll_into_view_if_needed()
    box, before = page.locator("#pad").bounding_box(), page.evaluate("scrollY")
    finger = page.context.new_cdp_session(page)
    xs, ys = (
        np.interp(np.linspace(0, len(points) - 1, 7), range(len(points)), values)
        for values in zip(*points[::-1], strict=True)
    )
    for k, (x, y) in enumerate(zip(box["x"] + xs * box["width"], box["y"] + ys * box["height"], strict=True)):
        touched = {"type": "touchMove" if k else "touchStart", "touchPoints": [{"x": x, "y": y}]}
        finger.send("Input.dispatchTouchEvent", touched)
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert page.evaluate("scrollY") == before


def seen(page: Any) -> Any:
    """The small picture, as the network's input: its pixels' opacity counts sixteenths."""
    alphas = page.evaluate(
        "() => { const c = document.getElementById('small');"
        " return [...c.getContext('2d').getImageData(0, 0, 8, 8).data].filter((_, k) => k % 4 === 3); }"
    )
    return np.rint(np.array(alphas) * 16 / 255).astype(int).reshape(8, 8)


def says(page: Any, who: str, what: str) -> None:
    page.locator(f"#said-{who}", has_text=re.compile(f"^{what}$")).wait_for()


def row(page: Any, label: int) -> Any:
    """What is known of a digit, in the list of those that are remembered."""
    return page.locator("#remembered li").filter(has=page.locator(".label", has_text=re.compile(f"^{label}$")))


def count(page: Any, label: int, samples: int) -> None:
    row(page, label).locator(".note", has_text=re.compile(f"^\u00d7 {samples}$")).wait_for()


def taught(served: Served, label: int) -> int:
    """How many samples of a class the server has learned."""
    return sum(each["count"] for each in served.get("/state")["classes"] if each["label"] == label)


def faults(page: Any) -> list[tuple[str, str, list[str]]]:
    found = axe.Axe().run(page).response["violations"]
    return [(fault["id"], fault["impact"], [node["html"] for node in fault["nodes"]][:3]) for fault in found]


def test_the_first_minute(show: Open, demo: Served) -> None:
    page = show(demo)
    guide = page.locator("#guide-text")
    guide.filter(has_text="Draw a ").wait_for()
    draw(page, SEVEN)
    says(page, "efc", "[01]")
    guide.filter(has_text="press its digit").wait_for()
    page.get_by_role("button", name="Teach: this is 7").click()
    count(page, 7, 1)
    assert taught(demo, 7) == 1
    page.locator("#guide-do", has_text="Give it 40 examples of 7").click()
    count(page, 7, 41)
    guide.filter(has_text="And the old ones?").wait_for()
    says(page, "efc", "7")  # asked again as it learned
    held = demo.get("/state")["demo"]["held_out"]
    for learner, place in (("efc", 0), ("beside", 1)):
        shown = [row(page, label).locator(".value").nth(place).inner_text() for label in (0, 1, 7)]
        assert shown == [f"{100 * held[learner][label]:.0f}\u00a0%" for label in ("0", "1", "7")]
    assert all(held["efc"][label] > 0.8 for label in ("0", "1", "7"))
    assert page.locator("#lesson").inner_text() == "Give it 40 examples of 7"


def test_a_drawing_is_made_like_the_digits_it_was_trained_on(show: Open, demo: Served) -> None:
    page = show(demo)
    large = draw(page, ONE)
    says(page, "efc", "1")
    # In the middle, over the whole height, and with a pen that gives it the ink that those digits have on average.
    assert abs(int(large.sum()) - INK) <= 30
    assert np.array_equal(large, large[:, ::-1])
    assert large[:, 3:5].min() >= 12 > 0 == large[:, :2].max()
    # A digit of more strokes has no more ink, and neither its place nor its size makes a difference.
    four = draw(page, FOUR)
    assert abs(int(four.sum()) - INK) <= 30
    assert four[0].sum() > 0 < four[7].sum()
    assert np.abs(four - draw(page, FOUR, size=0.4)).max() <= 3


def test_two_tabs_and_a_reload_show_the_same(show: Open, demo: Served) -> None:
    first, second = show(demo), show(demo)
    draw(first, FOUR)
    first.get_by_role("button", name="Teach: this is 4").click()
    count(first, 4, 1)
    count(second, 4, 1)
    curves = "() => [...document.querySelectorAll('.chart .line')].map(line => line.getAttribute('d'))"
    before, state = first.evaluate(curves), demo.get("/state")
    assert len(before) == 2 + len(state["classes"]) + 2 * len(state["effort"]["psi"])
    assert sum(len(line.split("L")) > 20 for line in before) >= 2 + 2 + 2 * len(state["effort"]["psi"])
    assert second.evaluate(curves) == before
    first.reload()
    count(first, 4, 1)
    assert first.evaluate(curves) == before


def test_by_keyboard_alone(show: Open, demo: Served) -> None:
    page = show(demo)
    pad = page.get_by_role("application", name="Drawing pad")
    pad.wait_for()
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "pad":
            break
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Space")
    page.locator("#spoken", has_text="Pen down").wait_for()
    for _ in range(7):
        page.keyboard.press("ArrowDown")
    page.locator("#spoken", has_text="Row 8, column 4, drawing.").wait_for()
    page.keyboard.press("Space")
    says(page, "efc", "1")
    page.locator("#spoken", has_text=re.compile(r"^EFC says 1, \d+\s%; SGD says \d, \d+\s%\.$")).wait_for()
    before = taught(demo, 1)
    page.keyboard.press("1")
    page.locator("#told", has_text="Learned: this is 1.").wait_for()
    count(page, 1, before + 1)
    page.keyboard.press("Escape")
    assert not seen(page).any()
    # A chart is read point by point.
    chart = page.get_by_role("slider", name="Accuracy on the way")
    chart.focus()
    page.keyboard.press("Home")
    assert re.fullmatch(r"at 2 samples: EFC \d+\s%, SGD \d+\s%", chart.get_attribute("aria-valuetext"))
    page.keyboard.press("ArrowRight")
    assert chart.get_attribute("aria-valuetext").startswith("at 4 samples")


def test_the_curve_of_each_class(show: Open, demo: Served) -> None:
    """Its legend is walked by keyboard; who sees no curve is told the same."""
    for label in range(10):
        demo.ask("/demo/lesson?wait=1", {"label": label, "samples": 4})
    state, points = demo.get("/state"), demo.get("/history")["points"]
    page = show(demo)
    legend = page.get_by_role("list", name="Accuracy of each class")
    buttons = legend.get_by_role("button")
    buttons.nth(9).wait_for()
    last = points[-1]["per_class"]
    assert [button.split() for button in buttons.all_inner_texts()] == [
        [str(label), f"{100 * last[str(label)] + 1e-9:.0f}", "%"] for label in range(10)
    ]
    looks = "() => [...document.querySelectorAll('.legend button')].map(button => {"
    looks += "const style = getComputedStyle(button.querySelector('path'));"
    looks += "return style.stroke + style.strokeDasharray; })"
    assert len(set(page.evaluate(looks))) == len(state["classes"]) == 10
    chart = page.get_by_role("slider", name="Accuracy of each class")
    chart.focus()
    page.keyboard.press("End")
    told = chart.get_attribute("aria-valuetext")
    assert re.findall(r"(\d) (\d+)\s%", told) == [(str(k), f"{100 * last[str(k)] + 1e-9:.0f}") for k in range(10)]
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent").startswith("1")
    faded = page.locator(".chart .line.faded")
    assert faded.count() == 9  # while it is in focus
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    assert faded.count() == 9
    assert buttons.nth(1).get_attribute("aria-pressed") == "true"
    page.keyboard.press("Home")
    assert re.fullmatch(r"at 2 samples: 1 \d+\s%", chart.get_attribute("aria-valuetext"))
    assert buttons.nth(1).inner_text().split()[1] == re.findall(r"\d+", chart.get_attribute("aria-valuetext"))[-1]
    buttons.nth(1).click()
    page.locator("h1").hover()
    page.evaluate("document.activeElement.blur()")
    assert faded.count() == 0


def test_what_looks_wrong_is_a_line_until_it_is_long_ago(show: Open, tmp_path: Path) -> None:
    with serving(tmp_path / "m.safetensors") as served:
        served.learn([[1, 2, 3, 4]] * 20, [0, 1] * 10)
        page = show(served)
        line = page.locator("#findings p")
        line.filter(has_text="Something looked wrong with batch 1: all samples so far are the same").wait_for()
        assert faults(page) == []
        x, y = samples(250)
        served.learn(x, y)
        page.locator("#findings").wait_for(state="hidden")
        assert served.get("/state")["findings"][0]["kind"] == "constant"


def test_readable_at_any_width_in_any_light(show: Open, demo: Served) -> None:
    page = show(demo, has_touch=True)
    page.locator("#charts .line").first.wait_for()
    for width, by in ((1440, draw), (390, draw_by_finger)):
        page.set_viewport_size({"width": width, "height": 900})
        by(page, ONE)
        says(page, "efc", "1")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            assert faults(page) == [], (width, scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(CUT_OFF) == []
    heights = "[...document.querySelectorAll('#labels button')].map(button => button.clientHeight)"
    assert min(page.evaluate(heights)) >= 40


def test_refused_in_the_servers_words_and_lost_and_found_again(show: Open, demo: Served) -> None:
    page = show(demo, allowed="Failed to load resource")
    draw(page, ONE)
    says(page, "efc", "1")
    page.get_by_label("new label").fill("seven")
    page.keyboard.press("Enter")
    page.get_by_role("alert").filter(has_text="label").wait_for()
    says(page, "efc", "1")
    page.context.set_offline(True)
    page.locator("#notice", has_text="The server does not answer.").wait_for()
    page.context.set_offline(False)
    page.locator("#notice").wait_for(state="hidden")


def test_a_row_of_numbers_behind_a_token(show: Open, rows: Served) -> None:
    page = show(rows, allowed="401")
    page.locator("#token-why", has_text="wants a token").wait_for()
    assert faults(page) == []
    page.get_by_role("textbox", name="Token").fill("wrong")
    page.keyboard.press("Enter")
    page.locator("#token-why", has_text="does not know this token").wait_for()
    page.get_by_role("button", name="Not now").click()
    page.get_by_role("button", name="Enter the token").click()
    page.get_by_role("textbox", name="Token").fill(TOKEN)
    page.keyboard.press("Enter")
    field = page.get_by_label("One row of 4 numbers")
    field.wait_for()
    assert not page.locator("#pad").is_visible()
    field.fill("1, x, 3, 4")
    page.get_by_role("button", name="Predict").click()
    assert page.locator("#row-fault").inner_text() == "Value 2 is no number: “x”."
    for label, values in (("<b>ash</b>", "9, 0, 0, 0"), ("birch", "0, 9, 0, 0")) * 2:
        field.fill(values)
        page.get_by_label("new label").fill(label)
        page.keyboard.press("Enter")
        page.locator("#told", has_text=f"this is {label}").wait_for()
    field.fill("8, 0, 0, 0")
    says(page, "efc", re.escape("<b>ash</b>"))
    page.get_by_role("button", name="Teach: this is birch").wait_for()
    assert page.locator("main b:visible").count() == 0  # a name is text
    assert not page.locator("#said-beside").is_visible()
    assert faults(page) == []
    page.reload()  # the tab keeps its token
    page.locator("#about", has_text="classes <b>ash</b> and birch").wait_for()
    assert not page.locator("#token").is_visible()
