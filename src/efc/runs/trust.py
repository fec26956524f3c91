"""Code of one's own that a configuration may import: what its user names, and what files name if they are trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from efc.plugins import named_code, untrusted

REMEDY = "if you trust that file, pass --trust (in Python trust=True), or name it on the command line yourself"


@dataclass(frozen=True)
class Trust:
    """By default nothing is imported.

    Args:
        names: what the user has named, as ``module:Name``.
        files: whether files (``--config``, ``--preset``) may name code, too.
    """

    names: frozenset[str] = frozenset()
    files: bool = False

    @classmethod
    def of(cls, *layers: Mapping[str, object], files: bool = False) -> Trust:
        """Who types settings (flags, ``--set``, keywords in Python) means the code that they name."""
        named = [
            value
            for layer in layers
            for key, value in layer.items()
            if key in ("methods", "rows", "encoder")
            or isinstance(value, Mapping)  # the others are paths, devices, data sets
        ]
        texts = list(named_code(named))
        several = [part.strip() for text in texts for part in text.split(",")]  # --methods one:Class,other:Class
        return cls(frozenset([*texts, *several]), files)

    def check(self, argument: str, value: object) -> None:
        """Refuse plain data that name code which is not trusted."""
        for name in named_code(value):
            if not self.files and name not in self.names:
                raise untrusted(f"{argument}: a file of settings", name, REMEDY)


NOTHING = Trust()
