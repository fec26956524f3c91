"""Streams of tasks, made of a data set. ``load`` and ``Dataset`` are those of ``efc.data``."""

from efc.data import Dataset, load
from efc.streams.split import SCENARIOS, Part, Stream, Task, split

__all__ = ["SCENARIOS", "Dataset", "Part", "Stream", "Task", "load", "split"]
