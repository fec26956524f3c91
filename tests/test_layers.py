"""The rooms of src/efc: each imports only rooms listed above it. Read from the import statements, lazy ones too."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "efc"
ROOMS = (
    "errors", "files", "plugins", "environment", "metrics",
    "core", "encoders", "presets", "data", "streams", "learners", "training", "classifiers", "adapters", "river",
    "runs", "search", "paper", "report", "loggers", "theory", "serve", "api", "cli",
)  # fmt: skip
"""From the ground up; docs/architecture.md draws them."""
DOORS = ("__init__", "__main__")
"""What a user comes in by: they may import any room."""
PURE = {"core": {"torch", "numpy"}, "learners": {"torch", "numpy"}}
"""Rooms that import nothing else from outside the standard library."""


def imported(tree: ast.AST) -> Iterator[str]:
    """The full names of the modules that a file imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a module lies"
            if node.module == "efc":
                yield from (f"efc.{alias.name}" for alias in node.names)
            else:
                yield node.module or ""


def wrong_edges(room: str, source: str) -> list[str]:
    """What a file of a room imports that it must not."""
    found = []
    for name in imported(ast.parse(source)):
        top, _, rest = name.partition(".")
        other = rest.partition(".")[0]
        if top == "efc":
            if other != room and (other not in ROOMS or ROOMS.index(other) > ROOMS.index(room)):
                found.append(name)
        elif room in PURE and top not in PURE[room] | sys.stdlib_module_names:
            found.append(name)
    return found


def files() -> dict[str, list[Path]]:
    """All files by room."""
    found: dict[str, list[Path]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        found.setdefault(file.relative_to(SOURCE).with_suffix("").parts[0], []).append(file)
    return found


def test_every_room_is_listed_and_every_listed_room_is_there() -> None:
    assert files().keys() == {*ROOMS, *DOORS}


def test_at_most_eight_modules_lie_at_the_top() -> None:
    assert len(list(SOURCE.glob("*.py"))) <= 8


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_above_it(room: str) -> None:
    wrong = {str(f.relative_to(SOURCE)): w for f in files()[room] if (w := wrong_edges(room, f.read_text("utf-8")))}
    assert not wrong


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("streams", "from efc.learners.base import TaskData"),
        ("runs", "def f():\n    from efc.report import write_report"),
        ("runs", "import efc.cli.common"),
        ("core", "from efc import learners"),
        ("training", "if TYPE_CHECKING:\n    from efc.runs.plan import Pack"),
        ("learners", "import yaml"),
        ("data", "from efc import run"),
    ],
)
def test_a_wrong_edge_is_found(room: str, source: str) -> None:
    assert wrong_edges(room, source)
    assert not wrong_edges("cli", source.replace("efc import run", "efc import runs"))


def test_no_file_is_too_long_to_read() -> None:
    long = {f.name: n for f in SOURCE.rglob("*.py") if (n := len(f.read_text("utf-8").splitlines())) > 410}
    assert not long


def test_anything_is_rarely_allowed() -> None:
    """``Any`` is where type checking ends. Packages without types are met in the rooms that are left out."""
    without = {"theory", "adapters", "river"}
    texts = [f.read_text("utf-8") for f in SOURCE.rglob("*.py") if without.isdisjoint(f.relative_to(SOURCE).parts)]
    assert sum(len(re.findall(r"\bAny\b", text)) for text in texts) < 100
