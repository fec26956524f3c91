"""How many directions of old activity are worth keeping, and how many to pull by: accuracy on validation data.

    python benchmarks/rank.py --dataset mnist
    python benchmarks/rank.py --dataset npz:cifar10_resnet18.npz --hidden 100
    python benchmarks/rank.py --dataset npz:cifar10_resnet18.npz --hidden 100 --what directions

EFC with its default rate, pull and beta on raw inputs, and a trained head (least squares), where the pull matters most.
Class-IL, five tasks of two classes, ten epochs, a quarter of the training data held out. `rank`: what is kept; 0 keeps
the whole matrices. `directions`: through how many leading ones whole matrices act; 0: all. The data must be here (`efc
data get`).
"""

from __future__ import annotations

from typing import Any

import efc.core.moments
from common import arguments_of, show
from efc.learners import EFC, EFCOptions
from efc.streams import load, split
from efc.training.loop import train

RANKS, DIRECTIONS = (0, 1, 3, 10, 30, 100), (0, 256, 192, 128, 64)
FIRST_SEED = 100


def main() -> None:
    arguments = arguments_of(__doc__, dataset="mnist", hidden="100,100", epochs=10, seeds=5, data_dir="", what="rank")
    data = load(arguments.dataset, data_dir=arguments.data_dir or None)
    stream = split(data, tasks=5, classes_per_task=2, validation=0.25).to(arguments.device)
    sizes = (stream.n_features, *(int(width) for width in arguments.hidden.split(",")), stream.n_outputs)
    seeds = range(FIRST_SEED, FIRST_SEED + arguments.seeds)
    rows: list[dict[str, Any]] = []
    for value in RANKS if arguments.what == "rank" else DIRECTIONS:
        if arguments.what == "directions":
            efc.core.moments.DIRECTIONS, efc.core.moments.WIDE = value, 2 * value or max(sizes) + 1
        options = EFCOptions(rank=value if arguments.what == "rank" else 0, inputs="raw")
        learner = EFC(sizes, seeds, options, head="least_squares", device=arguments.device)
        final = train(learner, stream, arguments.epochs, 256, evaluate="validation").accuracy_matrix[:, -1].mean(1)
        apart = final - rows[0]["per_seed"] if rows else final - final
        assert learner.remembered is not None
        kept = {key: value.nbytes for key, value in learner.remembered.state_dict().items()}
        of_one = kept.pop("anchor") + sum(size for key, size in kept.items() if not key.startswith("0."))
        bytes_ = of_one / len(seeds) + sum(size for key, size in kept.items() if key.startswith("0."))
        rows.append({
            arguments.what: value, "validation_%": float(final.mean()), "std": float(final.std(ddof=1)),
            "minus_all": float(apart.mean()), "its_std": float(apart.std(ddof=1)), "MiB": bytes_ / 2**20,
            "per_seed": final,
        })  # fmt: skip
    for row in rows:
        row["per_seed"] = " ".join(f"{accuracy:.1f}" for accuracy in row["per_seed"])
    show(arguments, rows, f"{arguments.dataset}, EFC, {len(seeds)} seeds: what is kept of one run")


if __name__ == "__main__":
    main()
