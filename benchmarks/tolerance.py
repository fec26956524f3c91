"""What the solver's tolerance costs and what it buys: accuracy, unsettled samples and time of whole EFC trainings.

    python benchmarks/tolerance.py --dataset digits
    python benchmarks/tolerance.py --dataset mnist --device cuda

Class-incremental, the shipped options of each head, five seeds; test accuracy after the last task. ``ratio`` is the
time against that of the default tolerance. Rows ``sweeps-N`` allow N sweeps (default 4) at the default tolerance.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from common import arguments_of, show
from efc.learners import find_learner
from efc.presets import find_preset, training_preset
from efc.streams import load, split
from efc.training.loop import train

VARIANTS: dict[str, dict[str, float]] = {
    "tol-1": {"tol": 1.0},
    "tol-0.1": {"tol": 1e-1},
    "tol-0.01 (default)": {},
    "tol-0.001": {"tol": 1e-3},
    "tol-1e-05": {"tol": 1e-5, "max_steps": 16},
    "sweeps-2": {"max_steps": 2},
    "sweeps-16": {"max_steps": 16},
}


def measure(arguments: Any, stream: Any, head: str, variant: str) -> dict[str, Any]:
    cls = find_learner("efc-paper")
    options = dict(find_preset(arguments.dataset, "class", "efc-paper", head, None)) | {
        "solver_options": VARIANTS[variant]
    }
    sizes = (stream.n_features, 100, 100, stream.n_outputs)
    learner = cls(sizes, range(arguments.seeds), cls.options_type.from_mapping(options), head, device=arguments.device)
    began = time.perf_counter()
    result = train(learner, stream, **training_preset(arguments.dataset))
    final = torch.as_tensor(result.accuracy_matrix[:, -1]).mean(1)
    return {
        "name": f"{arguments.dataset}-{head}-{variant}",
        "seconds": time.perf_counter() - began,
        "accuracy": float(final.mean()),
        "std": float(final.std()),
        "unsettled_%": 100 * float(result.unsettled.mean()),
    }


def main() -> None:
    arguments = arguments_of(__doc__, dataset="digits", seeds=5, data_dir=None)
    stream = split(load(arguments.dataset, data_dir=arguments.data_dir), scenario="class").to(arguments.device)
    rows = []
    for head in ("least_squares", "analytic"):
        found = [measure(arguments, stream, head, variant) for variant in VARIANTS]
        default = found[list(VARIANTS).index("tol-0.01 (default)")]["seconds"]
        rows += [row | {"ratio": row["seconds"] / default} for row in found]
    show(arguments, rows, f"Tolerance against accuracy and time, {arguments.seeds} seeds, {arguments.device}")


if __name__ == "__main__":
    main()
