"""Where a test lies: `tests` has the rooms of `src/efc`, and a test is named after the file it tests.

`src/efc/runs/store.py` is tested by `tests/runs/test_store.py`. Where that would be too long there are parts,
`test_store_SOMETHING.py`. A room as a whole is tested by a file with the room's name: `tests/learners/test_learners.py`
is for `src/efc/learners/__init__.py` and for what all learners have in common.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "efc"
WHOLE = {
    "test_device.py": "all that computes, on another device",
    "test_dist.py": "the packages, as tools/dist.py makes them",
    "test_examples.py": "the examples, README and manual as they stand",
    "test_layers.py": "what rooms may import",
    "test_manual.py": "the manual as it is built",
    "test_mirror.py": "this",
    "test_notebooks.py": "the notebooks of the examples",
    "test_suite_data.py": "the data sets of benchmarks/suite_data.py",
    "test_same_numbers.py": "the commands against numbers recorded before the modules were moved",
}
"""Tests of the project, not of a file."""
EXCEPTIONS = {
    "cli/test_fuzz.py": "random command lines, for all commands",
    "serve/test_page.py": "the page in src/efc/serve/static",
}
FILES = sorted(path.relative_to(TESTS) for path in TESTS.rglob("test_*.py"))


def sources(test: Path) -> list[Path]:
    """The files that a test may be named after, the likeliest first."""
    room = SOURCE / test.parent
    words = test.stem.removeprefix("test_").split("_")
    named = [room / f"{'_'.join(words[:n])}.py" for n in range(len(words), 0, -1)]
    return [*named, room / "__init__.py"] if "_".join(words) == test.parent.name else named


@pytest.mark.parametrize("test", FILES, ids=str)
def test_every_test_is_named_after_what_it_tests(test: Path) -> None:
    if str(test) not in WHOLE and str(test) not in EXCEPTIONS:
        assert any(path.is_file() for path in sources(test)), f"there is no {sources(test)[0].relative_to(SOURCE)}"


def test_the_mirror_can_tell() -> None:
    """A known answer for each of the rules."""
    assert sources(Path("runs/test_store.py")) == [SOURCE / "runs" / "store.py"]
    assert sources(Path("learners/test_learners.py"))[-1] == SOURCE / "learners" / "__init__.py"
    assert SOURCE / "training" / "loop.py" in sources(Path("training/test_loop_effort.py"))
    assert not any(path.is_file() for path in sources(Path("runs/test_nothing.py")))
    assert not any(path.is_file() for path in sources(Path("test_store.py")))


def test_what_is_excepted_is_there() -> None:
    assert {*WHOLE, *EXCEPTIONS} <= set(map(str, FILES))


def test_helpers_lie_in_one_folder() -> None:
    others = [
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if path.parent != TESTS / "support" and not path.name.startswith("test_") and path.name != "conftest.py"
    ]
    assert others == []
    assert not list((TESTS / "support").glob("test_*.py"))


@pytest.mark.parametrize("test", FILES, ids=str)
def test_no_test_needs_another(test: Path) -> None:
    """What two tests need is a helper."""
    for node in ast.walk(ast.parse((TESTS / test).read_text(encoding="utf-8"))):
        module = node.module if isinstance(node, ast.ImportFrom) else None
        assert not (module or "").rpartition(".")[2].startswith("test_"), f"{test} imports {module}"
