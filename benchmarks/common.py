"""What the speed benchmarks share: data of any size made on the spot, the backprop to compare with, a clock."""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from efc.environment import describe_environment, pick_device
from efc.learners import Learner, TaskData, find_learner

Work = Callable[[], object]


class Backprop:
    """A plain autograd + ``torch.optim.Adam`` step of the same MLP; several runs as one batched product."""

    def __init__(self, sizes: Sequence[int], runs: int, device: torch.device, lr: float = 1e-4) -> None:
        torch.manual_seed(0)
        pairs = list(itertools.pairwise(sizes))
        if runs == 1:
            layers: list[torch.nn.Module] = []
            for d_in, d_out in pairs:
                layers += [torch.nn.Linear(d_in, d_out), torch.nn.ReLU()]
            self.model = torch.nn.Sequential(*layers[:-1]).to(device)
            parameters = list(self.model.parameters())
        else:
            self.W = [(torch.randn(runs, o, i, device=device) * (2 / i) ** 0.5).requires_grad_() for i, o in pairs]
            self.b = [torch.zeros(runs, 1, o, device=device, requires_grad=True) for _, o in pairs]
            parameters = self.W + self.b
        self.runs, self.optimiser = runs, torch.optim.Adam(parameters, lr)

    def step(self, x: Tensor, y: Tensor) -> None:
        """x (R, B, d_0), y (R, B)."""
        self.optimiser.zero_grad()
        if self.runs == 1:
            loss = functional.cross_entropy(self.model(x[0]), y[0])
        else:
            for i, (W, b) in enumerate(zip(self.W, self.b, strict=True)):
                x = torch.baddbmm(b, torch.relu(x) if i else x, W.transpose(1, 2))
            loss = functional.cross_entropy(x.flatten(0, 1), y.flatten()) * self.runs
        loss.backward()
        self.optimiser.step()


class Clusters:
    """Gaussian classes in ``d`` dimensions, non-negative as pixels and features are, a few dozen samples a class."""

    def __init__(self, d: int, classes: int, samples: int, device: torch.device, seed: int = 0) -> None:
        generator = torch.Generator().manual_seed(seed)
        centre = torch.rand(classes, d, generator=generator) * (torch.rand(classes, d, generator=generator) < 0.3)
        self.y = torch.arange(samples) % classes
        noise = 0.3 * torch.randn(samples, d, generator=generator)
        self.x, self.classes = (centre[self.y] + noise).clamp_(0, 1).to(device), classes
        self.y = self.y.to(device)

    def task(self, number: int, of: int) -> TaskData:
        """Task ``number`` of a Class-incremental stream: its classes are new, all so far are asked about."""
        share = self.classes // of
        low, high = number * share, self.classes if number == of - 1 else (number + 1) * share
        mine = (self.y >= low) & (self.y < high)
        return TaskData(self.x[mine], self.y[mine], slice(0, high), slice(low, high), steps=100_000)


def batches(task: TaskData, runs: int, batch: int, n: int, seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    """``n`` batches (R, B, d_0), (R, B), gathered before the clock runs."""
    generator = torch.Generator().manual_seed(seed)
    indices = torch.randint(len(task.y), (n, runs, batch), generator=generator).to(task.y.device)
    return [(task.x[i], task.y[i]) for i in indices]


def in_second_task(
    method: str,
    sizes: Sequence[int],
    runs: int,
    batch: int,
    data: Clusters,
    activation: str = "relu",
    steps: int = 20,
    **options: Any,
) -> tuple[Any, TaskData]:
    """A learner a while into its second task: something to preserve, every class active."""
    cls = find_learner(method)
    made = cls.options_type.from_mapping(options)
    # A trained head: with those that are solved for, only the task's own classes are in the loss.
    learner: Learner = cls(sizes, range(runs), made, "least_squares", activation, data.x.device)
    first, second = data.task(0, 2), data.task(1, 2)
    for task in (first, second):
        learner.begin_task(task)
        for x, y in batches(task, runs, batch, steps):
            learner.step(x, y)
        if task is first:
            learner.end_task(task)
    return learner, second


def timed(device: torch.device, work: Work) -> float:
    """Seconds, with whatever the device still has to do."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    began = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - began


def by_turns(device: torch.device, works: dict[str, Work], repeats: int, warm_up: int = 3) -> dict[str, float]:
    """Median seconds of each, taken in turn, so that whatever else the machine does falls on all alike."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for k in range(warm_up + repeats):
        for name, work in works.items():
            seconds = timed(device, work)
            if k >= warm_up:
                times[name].append(seconds)
    return {name: statistics.median(found) for name, found in times.items()}


class _Storages(TorchDispatchMode):
    """Follows which storages the work reads from outside, and how many bytes those it makes occupy at the most."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[int, int] = {}
        self.outside, self.now, self.peak = 0, 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._meet((args, kwargs), made=False)
        result = func(*args, **(kwargs or {}))
        self._meet(result, made=True)
        return result

    def _meet(self, tree: Any, made: bool) -> None:
        for t in tree_leaves(tree):
            if not isinstance(t, Tensor):
                continue
            storage = t.untyped_storage()
            key, size = storage._cdata, storage.nbytes()
            if key in self.known:
                continue
            self.known[key] = size
            if made:
                self.now += size
                self.peak = max(self.peak, self.now)
                weakref.finalize(storage, self._gone, key)
            else:
                self.outside += size

    def _gone(self, key: int) -> None:
        self.now -= self.known.pop(key)


def peak_bytes(work: Work) -> int:
    """What a step of work on the CPU occupies at its peak, the state it keeps and the batch it reads included."""
    work()
    with _Storages() as storages:
        work()
    return storages.outside + storages.peak


def mark(value: float, goal: float | None) -> str:
    """A goal that is not to be passed, and whether it is met; empty without one."""
    return "" if goal is None else f"{goal:g} {'met' if value <= goal else 'MISSED'}"


def arguments_of(description: str | None, **defaults: Any) -> argparse.Namespace:
    """The command line every benchmark has: ``--device``, ``--json``, and one option for each default."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON instead of a table")
    for name, value in defaults.items():
        kind = Path if value is None else type(value)
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=value)
    arguments = parser.parse_args()
    arguments.device = pick_device(arguments.device)
    torch.set_flush_denormal(True)
    return arguments


def show(arguments: argparse.Namespace, rows: list[dict[str, Any]], title: str) -> None:
    """Print rows, which have the same keys, as a table or as one JSON document."""
    if arguments.json:
        print(json.dumps({"rows": rows, "environment": describe_environment(arguments.device)}, indent=1))
        return
    table = Table(title=title)
    for name in rows[0]:
        table.add_column(name, no_wrap=True)
    for row in rows:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    Console(width=max(Console().width, 150)).print(table)  # names in full, in a narrow terminal too
