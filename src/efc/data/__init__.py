"""Data sets: declared sources, verified downloads, one prepared form on disk, and any of them as features."""

from efc.data.catalogue import DATASETS, check_name, count_classes, load, usual_classes
from efc.data.dataset import Dataset

__all__ = ["DATASETS", "Dataset", "check_name", "count_classes", "load", "usual_classes"]
