"""The examples run as they stand, and so does every block of code in the README, the manual and the docstrings."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
import typer
from markdown_it import MarkdownIt

from efc.cli import app
from support.warm import python, shell

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUN = ("python", "sh")
NO_CODE = ("text", "math")
SHOWN = ("console", "yaml")
"""Code that cannot be run here, such as what fetches data; the comment before it says why."""


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_example_runs(example: Path, tmp_path: Path) -> None:
    done = python(example.read_text(encoding="utf-8"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, text) of all blocks of a page, in order, as Markdown has them; indented ones have no language."""
    tokens = MarkdownIt().parse(page.read_text(encoding="utf-8"))
    return [(token.info.strip(), token.content) for token in tokens if token.type in ("fence", "code_block")]


def needed(page: Path) -> list[str]:
    """The packages beside those of a plain installation that a page's blocks import, as it says in a comment."""
    return [name for line in re.findall("<!-- needs: (.*) -->", page.read_text("utf-8")) for name in line.split()]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(language in RUN for language, _ in blocks(page))], ids=name
)
def test_blocks_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    """A Python block that begins with the name of a file, as a comment, is that file for the blocks after it."""
    for package in needed(page):
        pytest.importorskip(package, reason=f"{package} is not installed, which {name(page)} needs")
    folder, tools = tmp_path / "here", tmp_path / "tools"
    folder.mkdir()
    tools.mkdir()
    (folder / "docs").symlink_to(ROOT / "docs")
    with shell(tools) as environment:
        for language, text in blocks(page):
            if language not in RUN:
                continue
            if named := re.match(r"# (\w+\.py)\n", text):
                (folder / named[1]).write_text(text, encoding="utf-8")
            if language == "python":
                done = python(text, folder)
            else:
                command = ["sh", "-ec", text]
                done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_what_is_not_run_says_why(page: Path) -> None:
    found = blocks(page)
    assert [text for language, text in found if language not in (*RUN, *NO_CODE, *SHOWN)] == []
    reasons = re.findall(rf"^<!-- not run: .+ -->\n```(?:{'|'.join(SHOWN)})$", page.read_text(encoding="utf-8"), re.M)
    assert len(reasons) == sum(language in SHOWN for language, _ in found)


def commands(page: Path) -> list[list[str]]:
    """The arguments of every ``efc ...`` among the blocks that are not run."""
    text = "\n".join(text.replace("\\\n", " ") for language, text in blocks(page) if language == "console")
    lines = (shlex.split(line, comments=True) for line in text.splitlines())
    return [[word for word in line[1:] if word != "&"] for line in lines if line[:1] == ["efc"]]


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name)
def test_commands_that_are_not_run_are_understood(page: Path) -> None:
    for arguments in commands(page):
        command, rest = typer.main.get_command(app), arguments
        while rest and rest[0] in getattr(command, "commands", {}):
            command, rest = command.commands[rest[0]], rest[1:]
        command.make_context("efc", list(rest))  # raises on an option or a kind of value that does not exist


WITH_EXAMPLES = [path for path in sorted((ROOT / "src/efc").rglob("*.py")) if ">>> " in path.read_text("utf-8")]


@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=name)
def test_examples_in_docstrings(path: Path) -> None:
    module = import_module(".".join(path.relative_to(ROOT / "src").with_suffix("").parts))
    failed, attempted = doctest.testmod(module)
    assert attempted
    assert not failed
