"""Interchangeable equilibrium solvers: frozen objects with ``solve(system) -> Solution``."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from efc.core.solvers.anderson import Anderson
from efc.core.solvers.base import Solver
from efc.core.solvers.fixed_point import FixedPoint
from efc.core.solvers.newton import Newton
from efc.core.solvers.relaxation import Relaxation
from efc.core.solvers.steady_state import SteadyState
from efc.errors import EFCError, choose, suggest

SOLVERS: dict[str, type[Solver]] = {
    "relaxation": Relaxation,
    "fixed_point": FixedPoint,
    "anderson": Anderson,
    "newton": Newton,
    "steady_state": SteadyState,
}
"""The solvers by name."""


def make_solver(name: str, **options: Any) -> Solver:
    """The solver called ``name``, with its own options; one that it does not have is refused by name."""
    cls = SOLVERS[choose("solver", name, SOLVERS)]
    known = [f.name for f in fields(cls)]
    for key in options:
        if key not in known:
            raise EFCError(f"solver.{key}: {name} has no such option{suggest(key, known)}; it has {', '.join(known)}")
    return cls(**options)


__all__ = [
    "SOLVERS",
    "Anderson",
    "FixedPoint",
    "Newton",
    "Relaxation",
    "Solver",
    "SteadyState",
    "make_solver",
]
