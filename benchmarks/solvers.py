"""Sweeps and time each solver needs, from weak to strong feedback: settled samples, sweeps, time against backprop.

    python benchmarks/solvers.py
    python benchmarks/solvers.py --tol 1e-5 --json

Networks in the middle of their second task (preservation on), 784-100-10 and 784-100-100-10, batch 256; ``ratio`` is
the time of one solve against a plain autograd + Adam step of the same network. A name ends in kappa and lambda.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from common import Backprop, Clusters, arguments_of, batches, by_turns, in_second_task, show
from efc.core.control import Controller, Dynamics
from efc.core.solvers import Solver, make_solver
from efc.core.system import System, build
from efc.learners.efc import EFC

NETWORKS = (((784, 100, 10), "relu"), ((784, 100, 100, 10), "softplus"), ((784, 100, 100, 10), "relu"))
FEEDBACK = ((0.1, 0.01), (1.0, 0.1), (1.0, 1.0), (10.0, 1.0), (100.0, 1.0))
"""kappa and lambda."""
SOLVERS: dict[str, dict[str, Any]] = {
    "relaxation": {"max_steps": 400},
    "fixed_point": {"max_steps": 100},
    "anderson": {"max_steps": 40},
    "newton": {"max_steps": 40},
}


def systems(learner: EFC, x: torch.Tensor, y: torch.Tensor, feedback: str) -> dict[tuple[float, float], System]:
    dynamics = Dynamics(learner.activation, "softmax", feedback)
    theta, terms = learner.layers.active(learner.active), learner.preservation_terms()
    target = learner.one_hot(y, learner.active)
    return {
        (kappa, lam): build(dynamics, theta, x, target, Controller.from_gain(kappa).to(x), lam=lam, terms=terms)
        for kappa, lam in FEEDBACK
    }


def measure(arguments: Any, sizes: tuple[int, ...], activation: str, feedback: str) -> list[dict[str, Any]]:
    data = Clusters(sizes[0], sizes[-1], samples=20 * arguments.batch, device=arguments.device)
    learner, task = in_second_task("efc-paper", sizes, 1, arguments.batch, data, activation=activation)
    x, y = batches(task, 1, arguments.batch, 1)[0]
    backprop = Backprop(sizes, 1, arguments.device)
    rows = []
    for (kappa, lam), system in systems(learner, x, y, feedback).items():
        solvers: dict[str, Solver] = {name: make_solver(name, tol=arguments.tol, **o) for name, o in SOLVERS.items()}
        works: dict[str, Any] = {name: partial(solver.solve, system) for name, solver in solvers.items()}
        works["backprop"] = partial(backprop.step, x, y)
        seconds = by_turns(arguments.device, works, arguments.repeats, warm_up=1)
        for name, solver in solvers.items():
            solution = solver.solve(system)
            settled = solution.settled
            sweeps = solution.iterations[settled].double().mean() if bool(settled.any()) else torch.tensor(float("nan"))
            rows.append({
                "name": f"{name}-{len(sizes) - 2}x{activation}-{feedback}-{kappa:g}-{lam:g}",
                "ratio": seconds[name] / seconds["backprop"],
                "settled_%": 100 * float(settled.double().mean()),
                "sweeps": float(sweeps),
                "cycling_%": 100 * float((solution.result == 1).double().mean()),
            })  # fmt: skip
    return rows


def main() -> None:
    arguments = arguments_of(__doc__, tol=1e-3, batch=256, repeats=3)
    rows = [
        row
        for sizes, activation in NETWORKS
        for feedback in ("jacobian", "least_control")
        for row in measure(arguments, sizes, activation, feedback)
    ]
    show(arguments, rows, f"Solvers to a residual of {arguments.tol:g}, batch {arguments.batch}, {arguments.device}")


if __name__ == "__main__":
    main()
