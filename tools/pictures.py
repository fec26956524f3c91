"""The tour's pictures, by the tour's own commands: runs the shell blocks of ``docs/index.md`` in a folder of its own.

Needs Chromium, for the report's screenshot. ``make pictures`` writes them to ``docs/pictures``.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

DOCS = Path(__file__).parents[1] / "docs"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def screenshot(page: Path) -> bytes:
    """The top of the report, as one meets it."""
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        sys.exit(f"no browser here: one of {', '.join(BROWSERS)} is needed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        view = browser.new_page(viewport={"width": 1440, "height": 1100})
        view.goto(page.as_uri())
        view.locator(".main-svg").first.wait_for()
        shot = view.screenshot()
        browser.close()
    return shot


def store(picture: bytes | Path, target: Path, width: int) -> None:
    """A PNG of at most 128 colours, ``width`` wide: these are flat pictures, and small files."""
    image = Image.open(io.BytesIO(picture) if isinstance(picture, bytes) else picture).convert("RGB")
    if image.width > width:
        image = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
    target.parent.mkdir(exist_ok=True)
    image.quantize(128, dither=Image.Dither.NONE).save(target, optimize=True)
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


if __name__ == "__main__":
    main()
