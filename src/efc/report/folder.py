"""Results as they lie in a folder, and as they are written there."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from efc.errors import EFCError
from efc.files import to_json, write_atomically
from efc.report.figures import accuracy_matrices
from efc.report.page import FILE, write_report
from efc.runs.identity import digest
from efc.runs.results import ResultRow, Results, RunResult
from efc.runs.store import Store

Tell = Callable[[str], None]


def read_results(folder: Path, argument: str = "DIR") -> Results:
    """What `results.json` holds; where there is none, all finished runs of the store."""
    file = folder / "results.json"
    if file.exists():
        try:
            found = Results.from_json(json.loads(file.read_text(encoding="utf-8")))
            found.rows[0]
        except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError):
            raise EFCError(f"{argument}: {file} holds no results of efc run or efc bench") from None
        return found
    if not (folder / "efc.sqlite").exists():
        raise EFCError(
            f"{argument}: there is no results.json in {folder}; name a folder that efc run or efc bench wrote"
        )
    return _stored(folder, argument)


def _stored(folder: Path, argument: str) -> Results:
    """One row for all runs that differ in their seed alone, in the order of their first."""
    rows: dict[str, list[tuple[str, Mapping[str, Any], RunResult]]] = {}
    with Store(folder, argument=argument) as store:
        for key, settings_text, result in store.query("select id, settings, result from runs order by rowid"):
            settings = json.loads(str(settings_text))
            same = digest({name: value for name, value in settings.items() if name != "seed"})
            rows.setdefault(same, []).append((str(key), settings, RunResult.from_json(json.loads(str(result)))))
    if not rows:
        raise EFCError(f"{argument}: no run in {folder} is finished yet")
    found = []
    for runs in rows.values():
        ids, settings_of, results = zip(*sorted(runs, key=lambda run: int(run[1]["seed"])), strict=True)
        found.append(ResultRow.of(settings_of, ids, results))
    return Results(found)


def write_results(folder: Path, results: Results, tell: Tell) -> str:
    """`results.json`, `matrices.png` and `report.html`; returns the JSON."""
    text = to_json(results.to_json())
    file, picture = folder / "results.json", folder / "matrices.png"
    same = file.exists() and file.read_text(encoding="utf-8") == text
    if same and picture.exists() and (folder / FILE).exists():
        return text  # asked again, nothing new
    write_atomically(file, text)
    for path in (picture, folder / FILE):
        path.unlink(missing_ok=True)  # those of other results must not stay if these cannot be drawn
    try:
        accuracy_matrices(results, picture)
    except EFCError as problem:
        tell(f"No picture: {problem}")
    add_report(folder, results, tell)
    return text


def add_report(folder: Path, results: Results, tell: Tell) -> None:
    """`report.html`, or why there is none."""
    try:
        write_report(folder, results)
    except EFCError as problem:
        tell(f"No report: {problem}")


def where_results_are(folder: Path) -> str:
    """The closing message."""
    report = folder / FILE
    return f"Results in {folder}" + (f"; to read them, open {report}" if report.exists() else "")
