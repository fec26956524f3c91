"""The examples run as they stand, and so does the Python in the README."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_example_runs(example: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, text) of the Python and shell blocks of a page, in order.

    A Python block that begins with the name of a file, as a comment, is that file for the blocks after it.
    """
    return re.findall(r"^```(python|sh)\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_blocks_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    assert blocks(page)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for language, text in blocks(page):
        if named := re.match(r"# (\w+\.py)\n", text):
            (tmp_path / named[1]).write_text(text, encoding="utf-8")
        command = [sys.executable, "-c", text] if language == "python" else ["sh", "-ec", text]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=os.environ | {"PATH": path})
        assert done.returncode == 0, done.stderr
