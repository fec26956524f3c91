"""Streams of tasks, made of a data set. ``load`` and ``Dataset`` are those of ``efc.data``."""

from efc.data import Dataset, load
from efc.streams.arrival import KINDS, Arrival
from efc.streams.split import SCENARIOS, Part, Stream, Task, split, tasks_for

__all__ = ["KINDS", "SCENARIOS", "Arrival", "Dataset", "Part", "Stream", "Task", "load", "split", "tasks_for"]
