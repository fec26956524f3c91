"""The manual as it is built, in a real browser: complete, without warnings, and without asking anybody else."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from efc.cli import app

ROOT = Path(__file__).parents[1]
pytest.importorskip("mkdocs", reason="MkDocs is not installed (extra: docs)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("manual") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


UNDER_BUTTON = """() => [...document.querySelectorAll('pre > code')].filter(code => {
  const style = getComputedStyle(code), nav = code.parentNode.querySelector('.md-code__nav');
  return nav && parseFloat(style.paddingRight) < nav.offsetWidth;
}).map(code => code.textContent.slice(0, 60))"""
CUT_OFF = """() => {
  const scrolls = (node) => ['auto', 'scroll'].includes(getComputedStyle(node).overflowX);
  return [...document.querySelectorAll('article table')].filter((table) => {
    let place = table;
    while (place !== document.body && !scrolls(place)) place = place.parentNode;
    return table.getBoundingClientRect().right > innerWidth && !scrolls(place);
  }).map((table) => table.textContent.slice(0, 60));
}"""


def ids(page: Path) -> set[str]:
    return set(re.findall(r'id="([^"]+)"', page.read_text(encoding="utf-8")))


@pytest.mark.parametrize("module", ["efc", "efc.core", "efc.learners", "efc.streams"])
def test_every_public_name_is_in_the_reference(site: Path, module: str) -> None:
    pages = list((site / "reference").glob("*.html"))
    text = "".join(page.read_text(encoding="utf-8") for page in pages)
    known = set().union(*map(ids, pages))
    for name in set(import_module(module).__all__) - {"__version__"}:
        path = f"{module}.{name}"
        table = re.search(rf"<h3 [^>]*><code>[\w-]+</code>: <code>{name}</code>", text)  # options have a table
        assert table or path in known or f"{path}.{name}" in known, f"{path} is not in the reference"
    assert not re.search(r":(func|class|meth|mod|data|attr):<code>", text)


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command and every group of commands, as typed after ``efc``; none that is hidden."""
    yield path
    for name, below in getattr(command, "commands", {}).items():
        if not below.hidden:
            yield from commands(below, (*path, name))


COMMANDS = list(commands(typer.main.get_command(app)))


def sections(page: Path) -> dict[str, str]:
    """What stands below each heading up to the next one, as a reader sees it, by the heading's id."""
    pieces = re.split(r'<h[1-6] id="([^"]+)"[^>]*>', page.read_text(encoding="utf-8"))
    texts = (html.unescape(re.sub(r"<[^>]+>", "", piece)) for piece in pieces[2::2])
    return dict(zip(pieces[1::2], texts, strict=True))


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_commands_are_found() -> None:
    """Groups and what is in them."""
    assert {(), ("run",), ("runs",), ("runs", "compare"), ("data", "encode")} <= set(COMMANDS)
    assert len(COMMANDS) == len(set(COMMANDS)) >= 16


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(("efc", *path)))
def test_every_command_is_in_the_reference(site: Path, path: tuple[str, ...]) -> None:
    """What ``--help`` says in a terminal stands in the manual: what the command does, its usage, every option."""
    shown = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "80"}, prog_name="efc")
    assert shown.exit_code == 0, shown.output
    usage, about = shown.stdout.strip().split("\n\n")[:2]
    section = words(sections(site / "cli.html")["-".join(("efc", *path))])
    assert words(usage.removeprefix("Usage: ")) in section
    assert words(about) in section
    options = re.findall(r"^  (-.*?)(?:  .*)?$", shown.stdout, re.M)
    flags = [flag for option in options for flag in re.findall(r"--[\w-]+", option)]
    assert "--help" in flags
    for flag in flags:
        assert re.search(rf"{flag}(?![\w-])", section), f"{' '.join(path)} {flag} is not in the reference"


def test_nothing_is_in_the_reference_that_is_no_command(site: Path) -> None:
    told = {name for name in sections(site / "cli.html") if name == "efc" or name.startswith("efc-")}
    assert told == {"-".join(("efc", *path)) for path in COMMANDS}


def test_pictures_are_small_and_there(site: Path) -> None:
    shown = [
        (page.parent / source).resolve()
        for page in site.rglob("*.html")
        if page.name != "404.html"  # which may be asked for anywhere, and names all from the root
        for source in re.findall(r'<img [^>]*src="(?!data:)([^"]+)"', page.read_text(encoding="utf-8"))
    ]
    assert len(shown) >= 4
    for picture in shown:
        assert picture.is_relative_to(site.resolve())
        assert picture.stat().st_size < 200_000


@pytest.fixture
def show(browser: Any, site: Path) -> Iterator[Callable[..., Any]]:
    """Opens a page of the manual; at the end nothing may have been complained of, nor asked of anybody else."""
    contexts, complaints = [], []

    def opened(name: str, width: int = 1440, scheme: str = "light") -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)  # a loaded machine is slow
        page.on("console", lambda told: complaints.append(told.text) if told.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(f"failed: {request.url}"))
        page.on(
            "request", lambda r: None if r.url.startswith(("file:", "data:", "about:")) else complaints.append(r.url)
        )
        page.goto((site / name).as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.mark.parametrize("name", ["index.html", "concepts.html", "cli.html", "reference/core.html", "results.html"])
def test_readable_at_any_width_in_any_light(show: Callable[..., Any], name: str) -> None:
    for width, scheme in ((390, "light"), (1440, "dark")):
        page = show(name, width, scheme)
        assert page.locator("h1").inner_text()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")


def test_equations_are_drawn(show: Callable[..., Any]) -> None:
    page = show("concepts.html")
    blocks = page.locator("div.math > math[display=block]")
    assert blocks.count() >= 8
    assert all(box is not None and box["height"] > 10 for box in (block.bounding_box() for block in blocks.all()))
    text = page.locator("article").text_content()
    assert set("ψβκ⊙") <= set(text)
    prose = re.sub(r"<pre.*?</pre>", "", page.locator("article").inner_html(), flags=re.S)
    assert not re.search(r"\\[a-z]{2,}|\$", prose)  # nothing is left as it was typed


def test_search_works_from_a_folder(show: Callable[..., Any]) -> None:
    page = show("index.html")
    box, results = page.get_by_role("textbox", name="Search"), page.locator(".md-search-result__link")
    until = time.monotonic() + 60
    while not results.count() and time.monotonic() < until:  # what is typed before the page's script listens is lost
        box.fill("")
        box.press_sequentially("preservation signal")
        page.wait_for_timeout(2000)
    results.first.click()
    page.wait_for_url(re.compile("html"))
    assert "preservation" in page.locator("article").inner_text().lower()


def test_products_in_angle_brackets_are_shown(show: Callable[..., Any]) -> None:
    text = show("theory.html").locator("article").inner_text()
    assert "<I, F_A>" in text
    assert "<F~_A, F_A>" in text


def test_the_header_has_logo_and_version(show: Callable[..., Any]) -> None:
    page = show("index.html")
    assert version("equilibrium-fisher-control") in page.title() + page.locator("header").inner_text()
    assert page.locator("header .md-logo img").evaluate("image => image.naturalWidth > 0")


def test_no_code_lies_under_the_copy_button_and_no_table_is_cut_off(show: Callable[..., Any]) -> None:
    page = show("estimator.html", 390)
    assert page.evaluate(UNDER_BUTTON) == []
    page = show("theory.html", 390)
    assert page.evaluate(CUT_OFF) == []
    cards = page.locator("table[data-cards]").first
    assert cards.bounding_box()["width"] <= 390  # a row of words is a card: nothing to scroll sideways for
    cell = cards.locator("td[data-column=measured]").first
    assert "measured" in page.evaluate("cell => getComputedStyle(cell, '::before').content", cell.element_handle())


def test_examples_are_pages(show: Callable[..., Any]) -> None:
    page = show("own-method.html")
    page.get_by_role("link", name="examples/own_regulariser.py").click()
    page.wait_for_url(re.compile("examples/own_regulariser.html"))
    assert "class StayNear" in page.locator("article").inner_text()
