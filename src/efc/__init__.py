"""Equilibrium Fisher Control: continual learning without forgetting and without keeping old samples.

``efc.run(...)`` trains and compares methods; ``efc.learners``, ``efc.streams`` and ``efc.training`` are the pieces;
``efc.core`` is the mathematics.
"""

from efc.environment import code_version
from efc.errors import EFCError
from efc.experiment import run

__version__ = code_version()
__all__ = ["EFCError", "__version__", "run"]
