"""Where the data come from, and how they are cut into tasks."""

from __future__ import annotations

from collections.abc import Callable

from efc.errors import choose
from efc.streams import digits
from efc.streams.dataset import Dataset
from efc.streams.split import PARTS, SCENARIOS, Part, Stream, Task, split

DATASETS: dict[str, Callable[[], Dataset]] = {"digits": digits.load}


def load(name: str) -> Dataset:
    """Load a data set by name."""
    return DATASETS[choose("dataset", name, DATASETS)]()


__all__ = ["DATASETS", "PARTS", "SCENARIOS", "Dataset", "Part", "Stream", "Task", "load", "split"]
