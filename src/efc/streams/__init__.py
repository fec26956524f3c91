"""Data sets as features, and their division into tasks."""

from efc.streams.dataset import Dataset
from efc.streams.load import DATASETS, check_name, load, usual_tasks
from efc.streams.split import SCENARIOS, Part, Stream, Task, split

__all__ = [
    "DATASETS",
    "SCENARIOS",
    "Dataset",
    "Part",
    "Stream",
    "Task",
    "check_name",
    "load",
    "split",
    "usual_tasks",
]
