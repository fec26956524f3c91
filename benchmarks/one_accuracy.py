"""Do the solvers give one accuracy? Whole trainings with each, at its shipped tolerance and at a tight one.

    python benchmarks/one_accuracy.py
    python benchmarks/one_accuracy.py --seeds 20
    python benchmarks/one_accuracy.py --only relaxation

Split-Digits, Class-IL, `efc-paper` with the least-squares head and its shipped settings; test accuracy of every seed.
``--only TEXT`` measures the rows that have it in their names.
"""

from __future__ import annotations

from typing import Any

import torch

from common import arguments_of, show
from efc.learners import find_learner
from efc.presets import find_preset, training_preset
from efc.streams import load, split
from efc.training.loop import train

TIGHT = {"tol": 1e-6, "max_steps": 50}
SOLVERS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in ("anderson", "fixed_point", "newton", "relaxation", "steady_state")},
    "anderson, tol 1e-3": ("anderson", {"tol": 1e-3}),
    "anderson, tol 1e-4": ("anderson", {"tol": 1e-4, "max_steps": 8}),
    **{f"{name}, tight": (name, TIGHT) for name in ("anderson", "fixed_point", "newton")},
}


def main() -> None:
    arguments = arguments_of(__doc__, seeds=5, only="")
    stream = split(load("digits")).to(arguments.device)
    cls, preset = find_learner("efc-paper"), dict(find_preset("digits", "class", "efc-paper", "least_squares", None))
    training = {k: v for k, v in training_preset("digits").items() if k != "hidden"}
    sizes, rows = (stream.n_features, 100, 100, stream.n_outputs), []
    for row, (name, options) in SOLVERS.items():
        if arguments.only not in row:
            continue
        made = cls.options_type.from_mapping(preset | {"solver": name, "solver_options": options})
        learner = cls(sizes, range(arguments.seeds), made, "least_squares", device=arguments.device)
        final = torch.as_tensor(train(learner, stream, **training).accuracy_matrix[:, -1]).mean(1).tolist()
        mean = sum(final) / len(final)
        seeds = " ".join(f"{accuracy:.2f}" for accuracy in final)
        shown = {"seeds": seeds} if arguments.json or len(final) <= 8 else {}  # more do not fit into a table
        rows.append({"name": row, "accuracy": mean if arguments.json else f"{mean:.2f}"} | shown)
    show(arguments, rows, f"Split-Digits, efc-paper, {arguments.seeds} seeds, {arguments.device}")


if __name__ == "__main__":
    main()
