"""What a run is: everything that determines a number is hashed, and nothing else."""

from __future__ import annotations

import ast
import shutil
from collections.abc import Iterator
from pathlib import Path

import efc
from efc.runs.identity import DETERMINES, code_of, digest_of_code, package_code

ROOT = Path(efc.__file__).parent
NEUTRAL = {
    "errors.py": "sentences",
    "files.py": "how files are written",
    "plugins.py": "how a class is found; its own file is hashed",
    "environment.py": "what is written down; the device is part of it",
    "presets": "they become options, which are hashed",
    "runs/__init__.py": "nothing",
    "runs/checkpoint.py": "gives back bit for bit what it was given, or nothing",
    "runs/diagnosed.py": "refuses, or gives what it was given",
    "runs/config.py": "makes settings, which are hashed",
    "runs/identity.py": "this",
    "runs/reading.py": "refuses, or gives what it was given",
    "runs/settings_file.py": "reads settings, which are hashed",
    "runs/trust.py": "refuses, or lets through",
    "runs/results.py": "holds the numbers of a run, computes none",
}
"""What is imported when a pack is trained and has no part in its numbers, and why."""


def imported(file: Path) -> Iterator[Path]:
    """The files of the package that a file imports."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        module = node.module if isinstance(node, ast.ImportFrom) else None
        for name in [f"{module}.{name}" for name in names] + [module or ""] if module else names:
            place = ROOT.joinpath(*name.split(".")[1:]) if name.startswith("efc.") else None
            if place is not None:
                yield from (p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file())


def test_all_that_is_imported_to_train_a_pack_is_hashed_or_known_to_be_neutral() -> None:
    found, waiting = set(), [ROOT / "runs" / "worker.py"]
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += imported(file)
    names = {file.relative_to(ROOT).as_posix() for file in found}
    assert {"runs/worker.py", "metrics.py", "training/loop.py", "streams/split.py", "data/own.py"} <= names
    known = (*DETERMINES, *NEUTRAL)
    assert not {name for name in names if not any(name == each or name.startswith(f"{each}/") for each in known)}


def test_a_patched_measure_is_other_code_and_another_table_is_not(tmp_path: Path) -> None:
    """The package copied, and a line added to files of it."""
    shutil.copytree(ROOT, tmp_path / "efc", ignore=shutil.ignore_patterns("__pycache__"))
    before = digest_of_code(tmp_path / "efc")
    assert code_of("sgd") == package_code()
    assert package_code().endswith(f"-{before}")
    for name in ("report/terminal.py", "cli/runs.py", "runs/store.py"):
        append(tmp_path / "efc" / name)
    assert digest_of_code(tmp_path / "efc") == before
    seen = {before}
    for name in ("runs/worker.py", "metrics.py", "data/digits.py", "training/loop.py"):
        append(tmp_path / "efc" / name)
        seen.add(digest_of_code(tmp_path / "efc"))
    assert len(seen) == 5


def append(file: Path) -> None:
    with file.open("a") as target:
        target.write("\n# changed\n")
