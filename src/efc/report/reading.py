"""Results as they lie in a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from efc.errors import EFCError
from efc.runs.identity import Run, digest
from efc.runs.results import results_document, row_document
from efc.runs.store import Store


def read_document(folder: Path, argument: str = "DIR") -> dict[str, Any]:
    """What `results.json` holds; where there is none, all finished runs of the store."""
    file = folder / "results.json"
    if file.exists():
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
            document["rows"][0]["accuracy_matrix"]
        except (OSError, ValueError, KeyError, IndexError, TypeError):
            raise EFCError(f"{argument}: {file} holds no results of efc run or efc bench") from None
        return dict(document)
    if not (folder / "efc.sqlite").exists():
        raise EFCError(
            f"{argument}: there is no results.json in {folder}; name a folder that efc run or efc bench wrote"
        )
    return _stored(folder, argument)


def _stored(folder: Path, argument: str) -> dict[str, Any]:
    """One row for all runs that differ in their seed alone, in the order of their first."""
    rows: dict[str, list[tuple[Run, dict[str, Any]]]] = {}
    with Store(folder, argument=argument) as store:
        for key, settings_text, result in store.query("select id, settings, result from runs order by rowid"):
            settings = json.loads(settings_text)
            same = digest({name: value for name, value in settings.items() if name != "seed"})
            rows.setdefault(same, []).append((Run(settings, key), json.loads(result)))
    if not rows:
        raise EFCError(f"{argument}: no run in {folder} is finished yet")
    documents = []
    for found in rows.values():
        found.sort(key=lambda pair: pair[0].seed)
        documents.append(row_document([run for run, _ in found], [result for _, result in found]))
    return results_document(documents, "")
