"""Equilibrium Fisher Control: continual learning without forgetting and without keeping old samples.

``efc.run(...)`` trains and compares methods; ``efc.EFCClassifier`` and ``efc.ContinualClassifier`` are scikit-learn
estimators, ``efc.EFCHead`` is a torch module for one's own frozen backbone; ``efc.learners``, ``efc.streams`` and
``efc.training`` are the pieces; ``efc.core`` is the mathematics.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Idle OpenMP threads spin by default. On a machine that others use too this made small products a hundred times slower;
# a short spin costs nothing when the machine is free. Read when torch is first loaded, so it stands before that.
os.environ.setdefault("GOMP_SPINCOUNT", "100")

from efc.errors import EFCError

if TYPE_CHECKING:
    from efc.api import run
    from efc.classifiers.estimators import ContinualClassifier, EFCClassifier
    from efc.classifiers.torch_head import EFCHead

    __version__: str

__all__ = ["ContinualClassifier", "EFCClassifier", "EFCError", "EFCHead", "__version__", "run"]

_WHERE = {
    "ContinualClassifier": "efc.classifiers.estimators",
    "EFCClassifier": "efc.classifiers.estimators",
    "EFCHead": "efc.classifiers.torch_head",
    "run": "efc.api",
}
_ROOMS = ("classifiers", "core", "learners", "streams", "training")


def __getattr__(name: str) -> Any:
    """What takes seconds to import (torch, scikit-learn) comes when it is asked for; `efc` can say so meanwhile."""
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    if name in _ROOMS:
        return import_module(f"efc.{name}")
    if name == "__version__":
        return import_module("efc.environment").code_version()
    raise AttributeError(f"module 'efc' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
