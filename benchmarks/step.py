"""One training step of EFC against a plain autograd + Adam step of the same network: same process, by turns, medians.

    python benchmarks/step.py
    python benchmarks/step.py --device cuda --json

All gather their batch out of a task's data first, as training does. EFC has its default options and stands in the
middle of its second task, with something to preserve and every class active: its most expensive state. Beside it: the
same with neither pull nor gamma, the paper's variant, and our own SGD. `remembered_MiB` is what remembered activity
keeps of the inputs (once) and of the hidden layers and weights (of every run).
"""

from __future__ import annotations

import itertools
from typing import Any

import torch

from common import Backprop, Clusters, arguments_of, by_turns, in_second_task, mark, show

NARROW, WIDE = (784, 100, 100, 10), (1280, 1000, 200)
CASES = ((NARROW, 1), (NARROW, 5), (WIDE, 1))
ON_GPU = (*CASES, (NARROW, 64))
GOALS = {(NARROW, 1): 2.0, (NARROW, 5): 1.8}
"""Of EFC's step against autograd's, on two cores."""
PLAIN_GOAL, RECORDED_GOAL = 1.6, 2.0
"""Without preservation, on two cores; and against our own SGD where both are recorded, on a GPU."""


def measure(sizes: tuple[int, ...], runs: int, batch: int, repeats: int, sweeps: int, device: torch.device) -> Any:
    data = Clusters(sizes[0], sizes[-1], samples=20 * batch, device=device)
    limit = {"solver_options": {"max_steps": sweeps}}
    efc, task = in_second_task("efc", sizes, runs, batch, data, **limit)
    plain, _ = in_second_task("efc", sizes, runs, batch, data, pull=0.0, beta=0.0, **limit)
    paper, _ = in_second_task("efc-paper", sizes, runs, batch, data, **limit)
    sgd, _ = in_second_task("sgd", sizes, runs, batch, data)
    backprop = Backprop(sizes, runs, device)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randint(len(task.y), (20, runs, batch), generator=generator).to(device)
    given = itertools.cycle(drawn)
    told: list[dict[str, torch.Tensor]] = []

    def plain_step() -> None:
        index = next(given)
        backprop.step(task.x[index], task.y[index])

    works = {
        "backprop": plain_step,
        "sgd": lambda: sgd.step_on(task, next(given)),
        "efc, no preservation": lambda: plain.step_on(task, next(given)),
        "efc-paper": lambda: paper.step_on(task, next(given)),
        "efc": lambda: told.append(efc.step_on(task, next(given))),
    }
    seconds = by_turns(device, works, repeats)
    on_gpu, narrow = device.type == "cuda", sizes == NARROW
    goals = {"efc": GOALS.get((sizes, runs)), "efc, no preservation": PLAIN_GOAL if runs in (1, 5) and narrow else None}
    network = f"step-{'-'.join(map(str, sizes))}-R{runs}"
    rows = []
    for name, found in seconds.items():
        ratio = found / seconds["backprop"]
        rows.append({
            "name": network, "method": name, "ms": 1e3 * found, "ratio": ratio,
            "goal": mark(ratio, None if on_gpu else goals.get(name)), "to_sgd": found / seconds["sgd"],
            "its_goal": mark(found / seconds["sgd"], RECORDED_GOAL if on_gpu and narrow and name == "efc" else None),
            "sweeps": "", "settled_%": "", "remembered_MiB": "",
        })  # fmt: skip
    samples = len(told) * runs * batch
    rows[-1] |= {
        "sweeps": float(torch.stack([t["sweeps"] for t in told]).sum()) / samples,
        "settled_%": 100 - 100 * float(torch.stack([t["unsettled"] for t in told]).sum()) / samples,
        "remembered_MiB": sum(t.nbytes for t in efc.remembered.state_dict().values()) / 2**20,
    }
    return rows


def main() -> None:
    arguments = arguments_of(__doc__, batch=256, repeats=60, sweeps=4)
    how = arguments.batch, arguments.repeats, arguments.sweeps, arguments.device
    cases = ON_GPU if arguments.device.type == "cuda" else CASES
    rows = [row for sizes, runs in cases for row in measure(sizes, runs, *how)]
    show(arguments, rows, f"EFC step / backprop step, batch {arguments.batch}, {arguments.device}")


if __name__ == "__main__":
    main()
