"""What a logger is."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from efc.loggers.values import Parameters, Value
from efc.runs.identity import Run


class Logger(ABC):
    """Writes finished runs to one place, which it asks whether a run is there already: there is no other bookkeeping.

    It is made, and says what is missing, before anything is trained. Writing is serialised by :class:`Logs`.
    """

    name: ClassVar[str]

    @classmethod
    def check(cls) -> None:
        """Import what is needed; an :class:`EFCError` says how to install it."""
        return None

    @abstractmethod
    def __init__(self, folder: Path) -> None:
        """Open, or make, the place under the folder of all logs."""

    @abstractmethod
    def holds(self, run: str) -> bool:
        """Whether this run is there, whole."""

    @abstractmethod
    def forget(self, run: str) -> None:
        """Take away what is there of a run, if anything is."""

    @abstractmethod
    def write(self, run: Run, parameters: Parameters, values: Sequence[Value]) -> None:
        """Write a run that is not there."""

    def close(self) -> None:
        """Let go of everything."""
        return None


def title(run: Run) -> str:
    """A name for a person; with the id after it, for a file."""
    s = run.settings
    parts = (s.dataset, s.scenario, s.method.rpartition(":")[2], s.head, f"seed{run.seed}")
    return re.sub(r"[^\w.@+-]+", "-", "-".join(parts))[-120:]
