"""`efc doctor` names what is here and what would mend what is not."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import efc
from efc.cli.doctor import EXTRAS


def doctor(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "efc", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)


def test_what_is_here_and_what_is_not(tmp_path: Path) -> None:
    done = doctor("--data-dir", str(tmp_path / "none"))
    assert done.returncode == 0, done.stderr
    assert f"torch {__import__('torch').__version__.partition('+')[0]}" in done.stdout
    assert "mnist: not here; get it with: efc data get mnist" in done.stdout
    assert str(tmp_path / "none") in done.stdout


def test_a_missing_package_is_named_with_its_remedy(tmp_path: Path) -> None:
    """Two packages are hidden from the version lookup, one that is needed and one that is not."""
    code = (
        "import importlib.metadata as m, sys\n"
        "real = m.version\n"
        "def version(name):\n"
        "    if name in ('ray', 'safetensors'):\n"
        "        raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version\n"
        "import efc.cli.doctor as d\n"
        "d.version = version\n"
        "sys.argv = ['efc', 'doctor', '--data-dir', sys.argv[1]]\n"
        "from efc.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    source = str(Path(efc.__file__).parents[1])
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": source})
    assert done.returncode == 1, done.stderr
    mend = "pip install 'equilibrium-fisher-control[ray]'"
    assert f"ray: not installed (optional), for --engine ray: {mend}" in done.stdout
    assert "safetensors: MISSING" in done.stdout


def test_every_extra_for_users_is_told() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    ours = {"docs", "dist", "notebooks", "dev"}  # for those who work on the project
    assert {extra for extra, _ in EXTRAS.values()} == set(project["optional-dependencies"]) - ours
