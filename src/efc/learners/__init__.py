"""Continual learners, one file per method, all on the same run axis, head policies, activation and optimiser."""

from __future__ import annotations

from efc.errors import choose
from efc.learners.base import Learner, TaskData
from efc.learners.efc import EFC, EFCOptions
from efc.learners.ewc import EWC, EWCOptions
from efc.learners.heads import HEADS
from efc.learners.options import Options
from efc.learners.sgd import SGD

LEARNERS: dict[str, type[Learner]] = {cls.name: cls for cls in (EFC, EWC, SGD)}


def find_learner(name: str) -> type[Learner]:
    """Look a method up by name."""
    return LEARNERS[choose("methods", name, LEARNERS)]


__all__ = [
    "EFC",
    "EWC",
    "HEADS",
    "LEARNERS",
    "SGD",
    "EFCOptions",
    "EWCOptions",
    "Learner",
    "Options",
    "TaskData",
    "find_learner",
]
