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
from efc.errors import EFCError, choose, shown, suggest

SOLVERS: dict[str, type[Solver]] = {
    "relaxation": Relaxation,
    "fixed_point": FixedPoint,
    "anderson": Anderson,
    "newton": Newton,
    "steady_state": SteadyState,
}
"""The solvers by name."""


_KINDS: dict[type, tuple[type | tuple[type, ...], str]] = {
    int: (int, "a whole number"), float: ((int, float), "a number"), str: (str, "a name"),
}  # fmt: skip
"""By the type of an option's default: what it may be, and how that is called."""


def make_solver(name: str, **options: Any) -> Solver:
    """The solver called ``name``, with its own options; one that it does not have is refused by name."""
    cls = SOLVERS[choose("solver", name, SOLVERS)]
    usual = {f.name: f.default for f in fields(cls)}
    for key, value in options.items():
        if key not in usual:
            raise EFCError(f"solver.{key}: {name} has no such option{suggest(key, usual)}; it has {', '.join(usual)}")
        kind, told = _KINDS[type(usual[key])]
        if isinstance(value, bool) or not isinstance(value, kind):
            raise EFCError(f"solver.{key}: expected {told}, got {shown(value)}")
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
