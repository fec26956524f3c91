"""One training step of EFC against a plain autograd + Adam step of the same network: same process, by turns, medians.

    python benchmarks/step.py
    python benchmarks/step.py --device cuda --json

EFC stands in the middle of its second task, with something to preserve and every class active: its dearest state.
Beside it the paper's variant, which remembers no activity, and our own SGD; `remembered_MiB` is what remembered
activity keeps of the inputs (once) and of the hidden layers and weights (of every run).
"""

from __future__ import annotations

import itertools
from typing import Any

import torch

from common import Backprop, Clusters, arguments_of, batches, by_turns, in_second_task, show

CASES = (
    ((784, 100, 100, 10), 1),
    ((784, 100, 100, 10), 5),
    ((1280, 1000, 200), 1),
)


def measure(sizes: tuple[int, ...], runs: int, batch: int, repeats: int, sweeps: int, device: torch.device) -> Any:
    data = Clusters(sizes[0], sizes[-1], samples=20 * batch, device=device)
    efc, task = in_second_task("efc", sizes, runs, batch, data, solver_options={"max_steps": sweeps})
    paper, _ = in_second_task("efc-paper", sizes, runs, batch, data, solver_options={"max_steps": sweeps})
    sgd, _ = in_second_task("sgd", sizes, runs, batch, data)
    backprop = Backprop(sizes, runs, device)
    given = itertools.cycle(batches(task, runs, batch, 20))
    told: list[dict[str, torch.Tensor]] = []
    works = {
        "backprop": lambda: backprop.step(*next(given)),
        "sgd": lambda: sgd.step(*next(given)),
        "paper": lambda: paper.step(*next(given)),
        "efc": lambda: told.append(efc.step(*next(given))),
    }
    seconds = by_turns(device, works, repeats)
    samples = len(told) * runs * batch
    return {
        "name": f"step-{'-'.join(map(str, sizes))}-R{runs}",
        "ratio": seconds["efc"] / seconds["backprop"],
        "paper_ratio": seconds["paper"] / seconds["backprop"],
        "sgd_ratio": seconds["sgd"] / seconds["backprop"],
        "backprop_ms": 1e3 * seconds["backprop"],
        "efc_ms": 1e3 * seconds["efc"],
        "sweeps": float(torch.stack([t["sweeps"] for t in told]).sum()) / samples,
        "remembered_MiB": sum(t.nbytes for t in efc.remembered.state_dict().values()) / 2**20,
        "settled_%": 100 - 100 * float(torch.stack([t["unsettled"] for t in told]).sum()) / samples,
    }


def main() -> None:
    arguments = arguments_of(__doc__, batch=256, repeats=60, sweeps=4)
    how = arguments.batch, arguments.repeats, arguments.sweeps, arguments.device
    rows = [measure(sizes, runs, *how) for sizes, runs in CASES]
    show(arguments, rows, f"EFC step / backprop step, batch {arguments.batch}, {arguments.device}")


if __name__ == "__main__":
    main()
