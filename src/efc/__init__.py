"""Equilibrium Fisher Control: continual learning without forgetting and without keeping old samples.

``efc.run(...)`` trains and compares methods; ``efc.learners``, ``efc.streams`` and ``efc.training`` are the pieces;
``efc.core`` is the mathematics.
"""

import os

# Idle OpenMP threads spin by default. On a machine that others use too this made small products a hundred times slower;
# a short spin costs nothing when the machine is free. Read when torch is first loaded, so it stands before that.
os.environ.setdefault("GOMP_SPINCOUNT", "100")

from efc.environment import code_version
from efc.errors import EFCError
from efc.experiment import run

__version__ = code_version()
__all__ = ["EFCError", "__version__", "run"]
