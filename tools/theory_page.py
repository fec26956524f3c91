"""What ``efc theory --all`` found, into the manual: figures, claims, and the table of ``theory.md``.

python tools/theory_page.py results/theory-mnist
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from efc.files import to_json
from efc.theory.run import markdown
from pictures import DOCS, store


def main(folder: Path) -> None:
    found = json.loads((folder / "theory.json").read_text(encoding="utf-8"))
    for document in found:
        name = f"{document['experiment']}.png"
        store(folder / name, DOCS / "theory" / name, 1400)
        document["command"] = re.sub(r" --out \S+", "", document["command"])  # where it was put is of no interest
    (DOCS / "theory" / "theory.json").write_text(to_json(found), encoding="utf-8")
    page = DOCS / "theory.md"
    old = page.read_text(encoding="utf-8")
    table = f"<!-- table -->\n{markdown(found)}<!-- end of table -->"
    page.write_text(
        re.sub(r"<!-- table -->.*?<!-- end of table -->", lambda _: table, old, flags=re.S), encoding="utf-8"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
