"""How many equilibria? The share of samples that settle, and of these the share that another start leads elsewhere.

    python benchmarks/equilibria.py

Random nets (four, 10-20-20-5 and 10-20-20-20-5), random inputs and classes, no preservation, target lambda 1, float64.
Newton to 1e-8 from the free state; elsewhere: damped iteration or Newton with every unit passing feedback on at first.
"""

from __future__ import annotations

from typing import Any

import torch

from common import arguments_of, show
from efc.core import Controller, Dynamics, FixedPoint, Layout, Newton, build, initialise

NETS = ((10, 20, 20, 5), (10, 20, 20, 20, 5))
GAINS = (0.1, 1.0, 5.0, 20.0, 100.0)
OTHERS = (FixedPoint(tol=1e-8, damping=0.2, max_steps=400, start="open"), Newton(tol=1e-8, start="open"))


def measure(arguments: Any, sizes: tuple[int, ...], activation: str, kappa: float) -> dict[str, Any]:
    layout, runs = Layout(sizes), 4
    theta = initialise(layout, [torch.Generator().manual_seed(seed) for seed in range(runs)]).double()
    g = torch.Generator().manual_seed(0)
    x = torch.randn(runs, arguments.batch, sizes[0], generator=g, dtype=torch.float64)
    y = torch.eye(sizes[-1], dtype=torch.float64)[torch.randint(sizes[-1], (runs, arguments.batch), generator=g)]
    system = build(
        Dynamics(activation, feedback=arguments.feedback),
        layout.views(theta),
        x,
        y,
        Controller.from_gain(kappa),
        lam=1.0,
    )
    solution = Newton(tol=1e-8).solve(system)
    settled = solution.settled
    return {
        "name": f"{len(sizes) - 2} x {activation}, kappa {kappa:g}",
        "settled_%": 100 * float(settled.double().mean()),
        "elsewhere_%": 100 * float(solution.elsewhere(*OTHERS)[settled].double().mean()),
        "sweeps": float(solution.iterations[settled].double().mean()),
    }


def main() -> None:
    arguments = arguments_of(__doc__, batch=50, feedback="jacobian")
    activations = ("relu", "smooth_relu", "softplus")
    rows = [measure(arguments, s, activation, kappa) for s in NETS for activation in activations for kappa in GAINS]
    show(arguments, rows, f"Equilibria, {arguments.feedback} feedback, {4 * arguments.batch} samples a row")


if __name__ == "__main__":
    main()
