"""What the runs of a row have to report of their streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from efc.runs.results import ResultRow

Reported: TypeAlias = Mapping[str, Any]
"""What one seed has to report."""


def streamed(row: ResultRow) -> list[Reported]:
    """One entry for each seed; empty where there were tasks."""
    found = row.further.get("stream", [])
    each = found if isinstance(found, Sequence) and not isinstance(found, str) else []
    return [one for one in each if isinstance(one, Mapping) and "curve" in one]


def setting(row: ResultRow) -> str:
    """What was asked: a scenario, or a stream without boundaries."""
    return str(row.config.get("stream", "")) if streamed(row) else f"{row.scenario}-IL"


def matrix_rows(rows: Sequence[ResultRow]) -> str:
    """What the rows of accuracy matrices are: in a stream there is a checkpoint where each task would end."""
    return "at the checkpoint of" if all(map(streamed, rows)) else "after learning"
