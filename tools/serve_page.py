"""What ``benchmarks/serve.py --json docs/results/serve.json`` measured, into the table of docs/serve.md.

python tools/serve_page.py
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
MARKS = ("<!-- written by tools/serve_page.py -->", "<!-- end -->")
NUMBERS = {1: "one core", 2: "two cores", 4: "four cores"}
BUSY = 0.5
"""Programs that run beside it, from which on it is said how many there are."""


def measured(document: Mapping[str, Any]) -> str:
    """The table, and on what it was measured."""
    lines = ["| | goal | measured |", "|---|---|---|"]
    for part in document.values():
        for goal in part["goals"]:
            mark = "" if goal["met"] else " **(missed)**"
            lines.append(f"| {goal['what']} | {goal['goal']} | {goal['measured']}{mark} |")
    cores = {part["cores"] for part in document.values()}
    where = " and ".join(NUMBERS.get(n, f"{n} cores") for n in sorted(cores))
    torch = ", ".join(sorted({part["environment"]["torch"] for part in document.values()}))
    busy = max(part["busy"] for part in document.values())
    told = f"while up to {busy:.0f} other programs computed" if busy >= BUSY else "with nothing else to do"
    first = [name for name, part in document.items() if part.get("priority", 0) < 0]
    if busy >= BUSY and first:
        told += f" (which had to give way, for: {', '.join(first)})"
    return "\n".join([*lines, "", f"Measured on {where}, {told}, with torch {torch}.", ""])


def page(text: str, document: Mapping[str, Any]) -> str:
    """docs/serve.md with the table of this document."""
    start, end = text.index(MARKS[0]) + len(MARKS[0]), text.index(MARKS[1])
    return f"{text[:start]}\n\n{measured(document)}\n{text[end:]}"


def main() -> None:
    file = DOCS / "serve.md"
    document = json.loads((DOCS / "results" / "serve.json").read_text(encoding="utf-8"))
    file.write_text(page(file.read_text(encoding="utf-8"), document), encoding="utf-8")


if __name__ == "__main__":
    main()
