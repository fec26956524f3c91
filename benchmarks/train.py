"""Whole trainings: seconds for R Split-MNIST runs side by side, EFC against back-propagation in the same frame (sgd).

    python benchmarks/train.py --dataset digits
    python benchmarks/train.py --dataset mnist --runs 64 --device cuda

The betas of the paper's EFC are five different ones. 5 tasks, Class-incremental, least-squares head, batch 256.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from common import arguments_of, mark, show
from efc.learners import find_learner
from efc.presets import find_preset
from efc.streams import load, split
from efc.training.loop import train

BETAS = (1.0, 3.0, 10.0, 30.0, 100.0)
SECONDS = 8.0
"""For 64 trainings of EFC on Split-MNIST, on a GPU."""


def measure(arguments: Any, method: str, stream: Any) -> dict[str, Any]:
    cls = find_learner(method)
    options: dict[str, Any] = dict(find_preset(arguments.dataset, "class", method, "least_squares", None))
    if method == "efc-paper":
        options["beta"] = [BETAS[run % len(BETAS)] for run in range(arguments.runs)]
    sizes = (stream.n_features, 100, 100, stream.n_outputs)
    seeds = [run // len(BETAS) for run in range(arguments.runs)]
    made = cls.options_type.from_mapping(options)
    learner = cls(sizes, seeds, made, head="least_squares", device=arguments.device)
    if arguments.device.type == "cuda":
        torch.cuda.synchronize()
    began = time.perf_counter()
    result = train(learner, stream, epochs=arguments.epochs, batch_size=arguments.batch)
    seconds = time.perf_counter() - began
    final = result.accuracy_matrix[:, -1].mean(1)
    row = {"name": f"train-{arguments.dataset}-{method}-R{arguments.runs}", "seconds": seconds}
    row |= {"accuracy": float(np.mean(final)), "best_beta_accuracy": float(np.mean(final))}
    if method == "efc-paper":
        by_beta = [final[k :: len(BETAS)].mean() for k in range(len(BETAS)) if len(final[k :: len(BETAS)])]
        row["best_beta_accuracy"] = float(max(by_beta))
    return row


def main() -> None:
    arguments = arguments_of(__doc__, dataset="digits", runs=5, epochs=20, batch=256, data_dir=None)
    data = load(arguments.dataset, data_dir=None if arguments.data_dir is None else Path(arguments.data_dir))
    stream = split(data, scenario="class").to(arguments.device)
    rows = [measure(arguments, method, stream) for method in ("sgd", "efc-paper", "efc")]
    whole = arguments.device.type == "cuda" and (arguments.dataset, arguments.runs, arguments.epochs) == (
        "mnist",
        64,
        20,
    )
    for row, goal in zip(rows, (None, None, SECONDS if whole else None), strict=True):
        row |= {"ratio": row["seconds"] / rows[0]["seconds"], "goal": mark(row["seconds"], goal)}
    show(arguments, rows, f"{arguments.runs} trainings side by side, {arguments.epochs} epochs, {arguments.device}")


if __name__ == "__main__":
    main()
