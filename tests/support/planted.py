"""Code that somebody else has put there: whether it ran can be seen."""

from __future__ import annotations

from pathlib import Path

SOURCE = """
from pathlib import Path
Path(__file__).with_name("it ran").write_text("")
import torch
from efc.core import Parameters
from efc.learners import SGD
class Planted(SGD):
    name = "friendly"
    streams = True
def function(theta):
    return Parameters(*(tuple(torch.zeros_like(t) for t in group) for group in theta))
"""
NAMES = (
    "planted:Planted",
    "planted.py:Planted",
    "planted:function",
    "planted.py:function",
    "efc.learners:SGD",
    "efc.learners.sgd:SGD",
    "efc.learners.sgd:os",
    "efc:__loader__",
    "os:system",
    "planted:",
    ":Planted",
)
"""What a file might name: this code, in and out of the package, and names that no import takes."""


class Planted:
    """``planted.py`` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "planted.py").write_text(SOURCE)

    @property
    def ran(self) -> bool:
        """Whether it has been imported, by any process."""
        return (self.folder / "it ran").exists()
