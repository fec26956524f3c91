"""The tour's pictures, by the tour's own commands: runs the shell blocks of ``docs/index.md`` in a folder of its own.
And the page of ``efc serve --demo``, after its first minute.

Needs Chromium, for the screenshots. ``make pictures`` writes them to ``docs/pictures``.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

DOCS = Path(__file__).parents[1] / "docs"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SEVEN = ((0.27, 0.2), (0.48, 0.17), (0.72, 0.17), (0.58, 0.48), (0.45, 0.86))
SLOW = 300_000


@contextmanager
def browser() -> Iterator[Browser]:
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        sys.exit(f"no browser here: one of {', '.join(BROWSERS)} is needed")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def screenshot(page: Path) -> bytes:
    """The top of the report, as one meets it."""
    with browser() as chromium:
        view = chromium.new_page(viewport={"width": 1440, "height": 1100})
        view.goto(page.as_uri())
        view.locator(".main-svg").first.wait_for()
        return view.screenshot()


def demonstration() -> bytes:
    """A 7 is drawn and taught, then the other digits, one after the other, as the page proposes."""
    command = [sys.executable, "-m", "efc", "serve", "--demo", "--no-open", "--port", "0"]
    with browser() as chromium, subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            view = chromium.new_page(viewport={"width": 1360, "height": 1100}, reduced_motion="reduce")
            view.goto(server.stdout.readline().strip())
            draw(view, SEVEN)
            view.get_by_role("button", name="Teach: this is 7").click()
            for proposal in ("Give it 40 examples of 7", "Go on with"):
                view.get_by_role("button", name=proposal).first.click(timeout=SLOW)
            view.locator("#guide-text", has_text="Ten digits").wait_for(timeout=SLOW)
            draw(view, SEVEN)
            view.locator("#said-efc", has_text="7").wait_for()
            view.locator("h1").click()
            return view.screenshot(full_page=True)
        finally:
            server.terminate()


def draw(view: Page, points: Sequence[tuple[float, float]]) -> None:
    box = view.locator("#pad").bounding_box()
    assert box is not None
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in points]
    view.mouse.move(*places[0])
    view.mouse.down()
    for x, y in places[1:]:
        view.mouse.move(x, y, steps=30)
    view.mouse.up()


def store(picture: bytes | Path, target: Path, width: int, pale: bool = False, most: int = 128) -> None:
    """A PNG of at most ``most`` colours, ``width`` wide: these are flat pictures, and small files. Thin lines keep
    their colours, or, if the picture is ``pale``, large surfaces theirs."""
    image = Image.open(io.BytesIO(picture) if isinstance(picture, bytes) else picture).convert("RGB")
    if image.width > width:
        image = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
    target.parent.mkdir(exist_ok=True)
    method = Image.Quantize.MEDIANCUT if pale else Image.Quantize.MAXCOVERAGE
    colours = image.quantize(most, method, kmeans=int(pale), dither=Image.Dither.NONE)
    colours.save(target, optimize=True)
    print(f"{target.relative_to(DOCS.parent)}: {image.width} x {image.height}, {target.stat().st_size / 1000:.0f} KB")


def main() -> None:
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for block in re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M):
            subprocess.run(["sh", "-ec", block], cwd=folder, check=True)
        results = Path(folder) / "results" / "tour"
        store(screenshot(results / "report.html"), DOCS / "pictures" / "report.png", 1200)
        for name in ("curves.png", "matrix.png"):
            store(results / name, DOCS / "pictures" / name, 1000)
    store(demonstration(), DOCS / "pictures" / "serve.png", 1200, pale=True, most=256)


if __name__ == "__main__":
    main()
