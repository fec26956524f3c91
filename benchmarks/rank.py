"""How many directions of old activity are worth remembering: accuracy on validation data against the memory kept.

    python benchmarks/rank.py --dataset mnist
    python benchmarks/rank.py --dataset npz:cifar10_resnet18.npz --hidden 100

EFC with its default options and head, Class-IL, five tasks of two classes, ten epochs, a quarter of the training data
held out; rank 0 keeps the whole matrices. The data must be here (`efc data get`).
"""

from __future__ import annotations

from typing import Any

from common import arguments_of, show
from efc.learners import EFC, EFCOptions
from efc.streams import load, split
from efc.training.loop import train

RANKS = (1, 3, 10, 30, 100, 0)
SEEDS = range(100, 103)


def main() -> None:
    arguments = arguments_of(__doc__, dataset="mnist", hidden="100,100", epochs=10, data_dir="")
    data = load(arguments.dataset, data_dir=arguments.data_dir or None)
    stream = split(data, tasks=5, classes_per_task=2, validation=0.25).to(arguments.device)
    hidden = [int(width) for width in arguments.hidden.split(",")]
    rows: list[dict[str, Any]] = []
    for rank in RANKS:
        sizes = (stream.n_features, *hidden, stream.n_outputs)
        learner = EFC(sizes, SEEDS, EFCOptions(rank=rank), device=arguments.device)
        result = train(learner, stream, arguments.epochs, 256, evaluate="validation")
        final = result.accuracy_matrix[:, -1].mean(1)
        assert learner.remembered is not None
        kept = {key: value.nbytes for key, value in learner.remembered.state_dict().items()}
        of_one = kept.pop("anchor") + sum(size for key, size in kept.items() if not key.startswith("0."))
        bytes_ = of_one / len(SEEDS) + sum(size for key, size in kept.items() if key.startswith("0."))
        rows.append(
            {"rank": rank, "validation_%": float(final.mean()), "std": float(final.std(ddof=1)), "MiB": bytes_ / 2**20}
        )
    show(arguments, rows, f"{arguments.dataset}, EFC, {len(SEEDS)} seeds: what is kept of one run")


if __name__ == "__main__":
    main()
