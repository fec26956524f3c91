"""Tables give up columns, not letters, when the terminal is narrow."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console
from rich.table import Table

from efc.report.fitting import Fitting, shortened

ROW = {"id": "x" * 8, "dataset": "y" * 20, "accuracy": "93.8", "code": "z" * 30}


def shown(width: int) -> str:
    def make(without: Sequence[str]) -> Table:
        kept = {name: cell for name, cell in ROW.items() if name not in without}
        table = Table(*kept)
        table.add_row(*kept.values())
        return table

    out = io.StringIO()
    Console(file=out, width=width).print(Fitting(make, ["code", "dataset"]))
    return out.getvalue()


@pytest.mark.parametrize(
    ("width", "kept"), [(100, set(ROW)), (60, {"id", "dataset", "accuracy"}), (25, {"id", "accuracy"})]
)
def test_columns_go_in_order_and_what_stays_is_whole(width: int, kept: set[str]) -> None:
    told = shown(width)
    assert {name for name, cell in ROW.items() if cell in told} == kept
    assert "…" not in told
    assert max(map(len, told.splitlines())) <= width


def test_a_name_keeps_its_end() -> None:
    assert shortened("npz:/a/very/long/path/to/frames.npz", 22) == "npz:/a/…/to/frames.npz"
    assert len(shortened("x" * 100, 22)) == 22
    assert shortened("digits", 22) == "digits"
