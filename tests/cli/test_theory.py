"""`efc theory` before it computes anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from efc.cli import app
from efc.errors import MissingError


def test_without_matplotlib_it_says_so_before_it_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = CliRunner().invoke(app, ["theory", "bounds", "--quick", "--out", str(tmp_path / "o")])
    assert isinstance(done.exception, MissingError)
    assert "matplotlib is missing; install it with: pip install" in str(done.exception)
    assert not (tmp_path / "o").exists()
