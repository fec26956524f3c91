"""What ``efc theory --all`` found, into the manual: figures and claims to ``docs/theory``, the table into ``theory.md``.

python tools/theory_page.py results/theory-mnist
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from pictures import DOCS, store

from efc.theory.run import markdown


def main(folder: Path) -> None:
    text = (folder / "theory.json").read_text(encoding="utf-8")
    found = json.loads(text)
    for document in found:
        name = f"{document['experiment']}.png"
        store(folder / name, DOCS / "theory" / name, 1400)
    (DOCS / "theory" / "theory.json").write_text(text, encoding="utf-8")
    page = DOCS / "theory.md"
    old = page.read_text(encoding="utf-8")
    table = f"<!-- table -->\n{markdown(found)}<!-- end of table -->"
    page.write_text(
        re.sub(r"<!-- table -->.*?<!-- end of table -->", lambda _: table, old, flags=re.S), encoding="utf-8"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
