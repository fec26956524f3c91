"""What each method costs, relative to plain training (sgd): time of a step, time to take a task in, state it keeps.

    python benchmarks/methods.py --dataset mnist --json costs.json

All learners stand side by side in one process, at the same place: in the middle of the second task, five runs, a batch
of 256. Their steps are timed in turn, so that what else the machine does falls on all alike; the figure is the median.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from efc.environment import describe_environment, pick_device
from efc.learners import LEARNERS, Learner, TaskData, find_learner
from efc.streams import load, split


def timed(device: torch.device, work: Callable[[], object]) -> float:
    """Seconds, with whatever the device still has to do."""
    began = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began


def steps(learner: Learner, task: TaskData, batch: int, n: int) -> None:
    for k in range(n):
        index = torch.arange(k * batch, (k + 1) * batch, device=task.y.device) % len(task.y)
        learner.step(task.x[index].expand(learner.runs, -1, -1), task.y[index].expand(learner.runs, -1))


def kept(learner: Learner) -> int:
    """Bytes of a checkpoint, per run: parameters, optimiser and all the method keeps."""
    return sum(t.numel() * t.element_size() for t in learner.state_dict().values()) // learner.runs


def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    device = pick_device(arguments.device)
    stream = split(load(arguments.dataset, data_dir=arguments.data_dir), scenario="class").to(device)
    sizes = (stream.n_features, *(int(width) for width in arguments.hidden.split(",")), stream.n_outputs)
    learners = {name: find_learner(name)(sizes, range(arguments.runs), device=device) for name in LEARNERS}
    seconds = {name: stream.data(1, 1000, learner.joint) for name, learner in learners.items()}
    consolidation: dict[str, float] = {}
    step_times: dict[str, list[float]] = {name: [] for name in learners}
    for name, learner in learners.items():
        first = stream.data(0, 1000, learner.joint)
        learner.begin_task(first)
        steps(learner, first, arguments.batch, 20)
        consolidation[name] = timed(device, partial(learner.end_task, first))
        learner.begin_task(seconds[name])
        steps(learner, seconds[name], arguments.batch, 5)
    for _ in range(arguments.repeats):
        for name, learner in learners.items():
            one = partial(steps, learner, seconds[name], arguments.batch, 1)
            step_times[name].append(timed(device, one))
    median = {name: statistics.median(times) for name, times in step_times.items()}
    epoch = -(-len(stream.data(0, 1).y) // arguments.batch) * median["sgd"]
    return [
        {
            "name": name,
            "ratio": median[name] / median["sgd"],
            "milliseconds": 1e3 * median[name],
            "consolidation_epochs": consolidation[name] / epoch,
            "state_ratio": kept(learner) / kept(learners["sgd"]),
        }
        for name, learner in learners.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--hidden", default="100,100")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_flush_denormal(True)
    rows = measure(arguments)
    table = Table("method", "step / sgd", "ms a step", "end of task, in epochs of sgd", "state / sgd")
    for row in rows:
        table.add_row(
            row["name"], f"{row['ratio']:.2f}", f"{row['milliseconds']:.1f}", f"{row['consolidation_epochs']:.2f}",
            f"{row['state_ratio']:.2f}",
        )  # fmt: skip
    Console().print(table)
    if arguments.json is not None:
        environment = describe_environment(pick_device(arguments.device))
        arguments.json.write_text(json.dumps({"rows": rows, "environment": environment}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
