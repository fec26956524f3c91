"""The page: its parts put into one file. Everything that comes from results goes in as data, never as markup."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

from efc.errors import MissingError
from efc.files import Json, write_atomically
from efc.report.page_data import page_data
from efc.runs.results import Results

FILE = "report.html"
LIMIT = 5_000_000
"""Bytes a page may have."""
SCRIPTS = ("base.js", "table.js", "charts.js", "figures.js", "effort.js", "diagnosis.js", "stream.js", "main.js")


def write_report(
    folder: Path, results: Results | Mapping[str, Any], file: Path | None = None, protocol: str = ""
) -> Path:
    """Write `report.html` into a folder, or another file; returns its path.

    ``results`` may be the document that `efc.run` gives; ``protocol`` is a sentence that the notes begin with.
    """
    path = file or folder / FILE
    found = results if isinstance(results, Results) else Results.from_json(results)
    write_atomically(path, report_page(found, protocol=protocol))
    return path


def report_page(results: Results, limit: int = LIMIT, protocol: str = "") -> str:
    """The whole page as text.

    Over ``limit`` bytes, the confusion matrices by class, which grow fastest, are left out from the last row on, and
    if that is not enough the curves over epochs.
    """
    static = resources.files("efc.report") / "static"
    parts = {
        "/*style*/": (static / "page.css").read_text(encoding="utf-8"),
        "/*script*/": "\n".join((static / name).read_text(encoding="utf-8") for name in SCRIPTS),
        "/*chart library*/": _chart_library(),
    }
    page = (static / "page.html").read_text(encoding="utf-8")
    for mark, text in parts.items():
        page = page.replace(mark, text, 1)
    data = page_data(results, protocol)
    room = limit - len(page.encode())
    text = _embedded(vars(data))
    excess = len(text.encode()) - room
    for name, row in product(("confusion", "effort"), reversed(data.rows)):
        if excess <= 0:
            break
        excess -= len(_embedded(row[name]).encode()) - len("null")
        row[name] = None
        text = ""
    return page.replace("/*data*/", text or _embedded(vars(data)), 1)


def _embedded(data: Json) -> str:
    """JSON that cannot end the script element it stands in; halves of characters are written out, as JSON may."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").encode("utf-8", "backslashreplace").decode()


def _chart_library() -> str:
    """plotly.js as it lies in the Python package, compressed: 2 MB on the page in place of 5."""
    try:
        script = (resources.files("plotly") / "package_data" / "plotly.min.js").read_bytes()
    except (ImportError, OSError):
        raise MissingError("report", "plotly", "report") from None
    return base64.b64encode(gzip.compress(script, 6, mtime=0)).decode()
