"""The manual as it is built, in a real browser: complete, without warnings, and without asking anybody else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

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


def test_every_command_is_in_the_reference(site: Path) -> None:
    text = (site / "cli.html").read_text(encoding="utf-8")
    assert {"efc-run", "efc-bench", "efc-data-encode", "efc-runs-compare"} <= ids(site / "cli.html")
    assert "--checkpoint-minutes" in text


def test_pictures_are_small_and_there(site: Path) -> None:
    shown = [
        (page.parent / source).resolve()
        for page in site.rglob("*.html")
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


def test_examples_are_pages(show: Callable[..., Any]) -> None:
    page = show("own-method.html")
    page.get_by_role("link", name="examples/own_regulariser.py").click()
    page.wait_for_url(re.compile("examples/own_regulariser.html"))
    assert "class StayNear" in page.locator("article").inner_text()
