"""How a step's time grows with width, depth, batch, classes and runs, for EFC and for plain backprop; and its memory.

    python benchmarks/scaling.py
    python benchmarks/scaling.py --device cuda --json

EFC has its default options; a layer of more than 1000 inputs remembers their 100 leading directions (``rank``). Along
each axis a power law is fitted (time ~ size^exponent) to medians taken by turns. ``ratio`` is EFC's time over
backprop's at the largest size. Memory is what all tensors of a step occupy at its peak (measured on the CPU alone).
"""

from __future__ import annotations

import gc
import itertools
from typing import Any

import numpy as np
import torch

from common import Backprop, Clusters, arguments_of, batches, by_turns, in_second_task, mark, peak_bytes, show

AXES: dict[str, tuple[int, ...]] = {
    "width": (256, 512, 1024, 2048),
    "depth": (1, 2, 4, 8),
    "batch": (256, 512, 1024, 2048),
    "classes": (10, 50, 100, 200),
    "runs": (2, 4, 8, 16),
}
BASE = {"width": 512, "depth": 2, "batch": 256, "classes": 10, "runs": 1}
INPUTS = 512
LARGE = (1280, 1000, 200)
"""For memory: 200 classes, 32 runs."""
MEMORY_GOAL, NEAR = 1.8, 0.1
"""Peak memory against backprop's, and by how much exponents may be above its."""


def along(device: torch.device, repeats: int, width: int, depth: int, batch: int, classes: int, runs: int) -> Any:
    return measure(device, repeats, (INPUTS, *[width] * depth, classes), batch, runs, steps=20)


def measure(device: torch.device, repeats: int, sizes: tuple[int, ...], batch: int, runs: int, steps: int) -> Any:
    """Seconds and, on the CPU, bytes of a step of backprop and of EFC."""
    gc.collect()  # learners of earlier sizes refer to themselves
    data = Clusters(sizes[0], sizes[-1], samples=4 * batch, device=device)
    rank = {"rank": 100} if max(sizes) > 1000 else {}
    efc, task = in_second_task("efc", sizes, runs, batch, data, steps=steps, **rank)
    backprop = Backprop(sizes, runs, device)
    given = itertools.cycle(batches(task, runs, batch, 4))
    works = {"backprop": lambda: backprop.step(*next(given)), "efc": lambda: efc.step(*next(given))}
    seconds = by_turns(device, works, repeats)
    on_cpu = device.type == "cpu"
    return {name: (seconds[name], peak_bytes(work) if on_cpu else float("nan")) for name, work in works.items()}


def main() -> None:
    arguments = arguments_of(__doc__, repeats=9)
    rows = []
    for axis, values in AXES.items():
        found = [along(arguments.device, arguments.repeats, **(BASE | {axis: value})) for value in values]
        seconds = {name: [f[name][0] for f in found] for name in found[0]}
        exponent = {name: float(np.polyfit(np.log(values), np.log(t), 1)[0]) for name, t in seconds.items()}
        rows.append({
            "name": f"scaling-{axis}-{values[0]}-to-{values[-1]}",
            "ratio": seconds["efc"][-1] / seconds["backprop"][-1],
            "exponent": exponent["efc"],
            "backprop_exponent": exponent["backprop"],
            "goal": mark(exponent["efc"], None if axis == "classes" else round(exponent["backprop"] + NEAR, 2)),
            "memory_ratio": found[-1]["efc"][1] / found[-1]["backprop"][1],
            "its_goal": mark(
                found[-1]["efc"][1] / found[-1]["backprop"][1], MEMORY_GOAL if axis in ("width", "batch") else None
            ),
            "efc_MiB": found[-1]["efc"][1] / 2**20,
        })  # fmt: skip
    large = measure(arguments.device, 1, LARGE, 256, 32, steps=5)
    rows.append({
        "name": f"large-{'-'.join(map(str, LARGE))}-R32",
        "ratio": large["efc"][0] / large["backprop"][0],
        "exponent": float("nan"),
        "backprop_exponent": float("nan"),
        "goal": "",
        "memory_ratio": large["efc"][1] / large["backprop"][1],
        "its_goal": "",
        "efc_MiB": large["efc"][1] / 2**20,
    })  # fmt: skip
    show(arguments, rows, f"Growth of a step, {INPUTS} inputs, {BASE}, {arguments.device}")


if __name__ == "__main__":
    main()
