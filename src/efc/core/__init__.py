"""The mathematics: pure functions of tensors over a leading run axis (R, B, D). Nothing here prints or reads a file."""

from efc.core.activations import ACTIVATIONS, Activation, activation
from efc.core.control import Controller, Dynamics
from efc.core.fisher import accumulate, diagonal_fisher
from efc.core.network import Layout, Parameters, Trace, backward, forward, initialise, mean_loss_gradient
from efc.core.plasticity import weight_change
from efc.core.preservation import Callback, Quadratic, Regulariser, strengths
from efc.core.solution import Result, Solution
from efc.core.solvers import (
    SOLVERS,
    Anderson,
    FixedPoint,
    Newton,
    Relaxation,
    Solver,
    SteadyState,
    make_solver,
)
from efc.core.system import System, build

__all__ = [
    "ACTIVATIONS",
    "SOLVERS",
    "Activation",
    "Anderson",
    "Callback",
    "Controller",
    "Dynamics",
    "FixedPoint",
    "Layout",
    "Newton",
    "Parameters",
    "Quadratic",
    "Regulariser",
    "Relaxation",
    "Result",
    "Solution",
    "Solver",
    "SteadyState",
    "System",
    "Trace",
    "accumulate",
    "activation",
    "backward",
    "build",
    "diagonal_fisher",
    "forward",
    "initialise",
    "make_solver",
    "mean_loss_gradient",
    "strengths",
    "weight_change",
]
