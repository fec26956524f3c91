"""What ``efc theory --all`` found, into the manual: figures, claims, and the tables of ``theory.md``.

python tools/theory_page.py results/theory-digits                          # the small version: table, numbers, figures
python tools/theory_page.py results/theory-digits results/theory-mnist     # and the paper's network beside it
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from efc.theory.run import beside, markdown, together
from pictures import DOCS, store

TABLES = {"theory.json": "table", "theory-mnist.json": "table of both"}
"""Where the numbers are kept, and the mark of the table made of them."""


def read(folder: Path) -> list[dict[str, Any]]:
    """All documents of a folder; where they were put is of no interest."""
    found: list[dict[str, Any]] = json.loads((folder / "theory.json").read_text(encoding="utf-8"))
    for document in found:
        document["command"] = re.sub(r" --out \S+", "", document["command"])
    return found


def put(mark: str, table: str) -> None:
    """A table of the page anew."""
    page = DOCS / "theory.md"
    old = page.read_text(encoding="utf-8")
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    if begin not in old or end not in old:
        sys.exit(f"{page.name}: the marks {begin} and {end}, between which the table stands, are missing")
    new = re.sub(f"{begin}.*?{end}", lambda _: f"{begin}\n{table}{end}", old, flags=re.S)
    page.write_text(new, encoding="utf-8")


def main(folders: Sequence[Path]) -> None:
    found = [read(folder) for folder in folders]
    for name, documents in zip(TABLES, found, strict=False):
        (DOCS / "theory" / name).write_text(together(documents), encoding="utf-8")
    for document in found[0]:
        name = f"{document['experiment']}.png"
        store(folders[0] / name, DOCS / "theory" / name, 1400)
    put("table", markdown(found[0]))
    if len(found) > 1:
        put("table of both", beside(*found))


if __name__ == "__main__":
    main([Path(folder) for folder in sys.argv[1:]])
