"""Does strong feedback help learning? Accuracy and unsettled samples, weak to strong, ReLU and smoothed ReLU.

    python benchmarks/strong.py
    python benchmarks/strong.py --streams split --hidden 100,100 --epochs 20 --json
    python benchmarks/strong.py --only "smooth_relu, strong, 10"

EFC with its default options, but for gain, target and solver (weak: anderson, as shipped; strong: newton). ``joint``:
all classes at once, the head drawn at random; ``split``: five tasks of two classes, Class-IL. The learning rate of each
row is the best of four on validation data (a quarter of the training data, seeds 100 and 101); test accuracy of others.
``--only TEXT`` measures the rows that have it in their names.
"""

from __future__ import annotations

from typing import Any

import torch

from common import arguments_of, show
from efc.learners import EFC, EFCOptions
from efc.streams import load, split
from efc.streams.split import Stream
from efc.training.loop import TrainingResult, train

RATES = (1e-3, 3e-3, 1e-2, 3e-2)
TRIED = (100, 101)
ACTIVATIONS = ("relu", "smooth_relu")
STRENGTHS: dict[str, dict[str, Any]] = {
    "weak, 0.1 (shipped)": {"kappa": 0.1},
    "strong, 0.1": {"kappa": 0.1, "target": "strong", "solver": "newton"},
    "strong, 1": {"kappa": 1.0, "target": "strong", "solver": "newton"},
    "strong, 10": {"kappa": 10.0, "target": "strong", "solver": "newton"},
    "strong, 100": {"kappa": 100.0, "target": "strong", "solver": "newton"},
}
"""Target and kappa."""


def trained(
    arguments: Any, stream: Stream, activation: str, options: dict[str, Any], seeds: list[int], part: str
) -> TrainingResult:
    hidden = [int(width) for width in arguments.hidden.split(",")]
    sizes = (stream.n_features, *hidden, stream.n_outputs)
    head = "random" if len(stream.tasks) == 1 else None
    learner = EFC(sizes, seeds, EFCOptions(**options), head, activation, device=arguments.device)
    return train(learner, stream, arguments.epochs, arguments.batch, evaluate=part)


def measure(arguments: Any, kind: str, stream: Stream, activation: str, strength: str) -> dict[str, Any]:
    options = STRENGTHS[strength]
    rates = [rate for rate in RATES for _ in TRIED]
    search = trained(arguments, stream, activation, options | {"lr": rates}, list(TRIED) * len(RATES), "validation")
    scores = torch.as_tensor(search.accuracy_matrix[:, -1]).mean(1).view(len(RATES), -1).mean(1)
    lr = RATES[int(scores.argmax())]
    result = trained(arguments, stream, activation, options | {"lr": lr}, list(range(arguments.seeds)), "test")
    final = torch.as_tensor(result.accuracy_matrix[:, -1]).mean(1)
    assert result.unsettled is not None
    return {
        "name": f"{kind}, {activation}, {strength}",
        "lr": lr,
        "accuracy": float(final.mean()),
        "std": float(final.std()),
        "unsettled_%": 100 * float(result.unsettled.mean()),
    }


def main() -> None:
    arguments = arguments_of(
        __doc__, dataset="digits", hidden="32,32", epochs=10, batch=32, seeds=5, data_dir="", streams="joint", only=""
    )
    data = load(arguments.dataset, data_dir=arguments.data_dir or None)
    streams = {
        "joint": split(data, tasks=1, classes_per_task=len(data.class_names), validation=0.25).to(arguments.device),
        "split": split(data, validation=0.25).to(arguments.device),
    }
    chosen = {kind: streams[kind] for kind in arguments.streams.split(",")}
    rows = [
        measure(arguments, kind, stream, activation, strength)
        for kind, stream in chosen.items()
        for activation in ACTIVATIONS
        for strength in STRENGTHS
        if arguments.only in f"{kind}, {activation}, {strength}"
    ]
    show(arguments, rows, f"Strong feedback, {arguments.dataset}, {arguments.hidden} units, {arguments.seeds} seeds")


if __name__ == "__main__":
    main()
