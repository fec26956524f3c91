"""Tasks from a data set: which classes arrive when, and which outputs the head is asked about.

Classes are renumbered in the order of their arrival, so that the outputs of a scenario are always a contiguous range:

| scenario | outputs            | active in training on task t | active at test on task j, after task t |
|----------|--------------------|------------------------------|----------------------------------------|
| `class`  | one per class      | all classes seen up to t     | all classes seen up to t               |
| `task`   | one per class      | the classes of task t        | the classes of task j                  |
| `domain` | classes per task   | all, shared by all tasks     | all                                    |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from efc.core.task import TaskData
from efc.data.dataset import Dataset, IntArray
from efc.errors import EFCError, choose

Mask = npt.NDArray[np.bool_]
SCENARIOS = ("class", "task", "domain")
"""What may be asked at test: any class seen, one of the task's, one of those that all tasks share."""


@dataclass(frozen=True)
class Part:
    """Features (N, d) and outputs (N,) of one task's training, validation or test part."""

    x: Tensor
    y: Tensor

    def to(self, device: torch.device | str) -> Part:
        return Part(self.x.to(device), self.y.to(device))


@dataclass(frozen=True)
class Task:
    """One task: its data, and the outputs that are its own."""

    index: int
    classes: tuple[str, ...]
    outputs: slice
    parts: dict[str, Part]


@dataclass(frozen=True)
class Stream:
    """Tasks in order. Build it with :func:`split`."""

    dataset: str
    scenario: str
    tasks: tuple[Task, ...]
    n_features: int
    n_outputs: int
    left_out: tuple[str, ...] = ()
    """Classes of the data set that belong to no task."""

    def active(self, task: int, after: int) -> slice:
        """Outputs the head is asked about on task ``task`` once task ``after`` has been (or is being) learned."""
        if self.scenario == "class":
            return slice(0, self.tasks[after].outputs.stop)
        return self.tasks[task].outputs

    def data(self, index: int, steps: int, joint: bool = False) -> TaskData:
        """What a learner is told when it trains on a task for ``steps`` steps; ``joint``: on all tasks up to it."""
        if joint:
            return self._joint(index, steps)
        task, part = self.tasks[index], self.tasks[index].parts["train"]
        brings_none = self.scenario == "domain" and index > 0
        new = slice(task.outputs.start, task.outputs.start) if brings_none else task.outputs
        return TaskData(part.x, part.y, self.active(index, index), new, steps)

    def _joint(self, index: int, steps: int) -> TaskData:
        tasks = self.tasks[: index + 1]
        parts = [task.parts["train"] for task in tasks]
        every = slice(0, tasks[-1].outputs.stop)
        groups = tuple(task.outputs for task in tasks) if self.scenario == "task" else (every,)
        x, y = torch.cat([part.x for part in parts]), torch.cat([part.y for part in parts])
        return TaskData(x, y, every, every, steps, groups=groups)

    @property
    def output_names(self) -> tuple[str, ...]:
        """What the outputs stand for; in Domain-IL, where they stand for other classes in each task, their numbers."""
        if self.scenario == "domain":
            return tuple(str(k) for k in range(self.n_outputs))
        return tuple(name for task in self.tasks for name in task.classes)

    def to(self, device: torch.device | str) -> Stream:
        """The same stream with its data on ``device``."""
        tasks = tuple(
            Task(t.index, t.classes, t.outputs, {name: part.to(device) for name, part in t.parts.items()})
            for t in self.tasks
        )
        return replace(self, tasks=tasks)

    def describe(self) -> str:
        """For a person: which classes come when, which never, and what is active."""
        named = len(self.tasks) * len(self.tasks[0].classes) <= 20
        order = " | ".join(" ".join(task.classes) if named else str(len(task.classes)) for task in self.tasks)
        active = {
            "class": "training and test: all classes seen so far",
            "task": "training and test: the classes of the task in question",
            "domain": f"training and test: the same {self.n_outputs} outputs for every task",
        }[self.scenario]
        unused = f" (left out: {' '.join(self.left_out)})" if self.left_out else ""
        kind = f"{self.dataset}, {self.scenario}-incremental, {len(self.tasks)} tasks"
        return f"{kind}: {order}{unused}\nactive outputs, {active}"


def split(
    dataset: Dataset,
    tasks: int = 5,
    classes_per_task: int = 2,
    order_seed: int | None = None,
    scenario: str = "class",
    validation: float = 0.1,
    dtype: torch.dtype = torch.float32,
) -> Stream:
    """Cut a data set into tasks of ``classes_per_task`` classes, in natural or (``order_seed``) shuffled order.

    Where the classes do not come out even, the last task has fewer. A stratified share ``validation`` of the training
    data is held out; the test data are never touched for that.
    """
    choose("scenario", scenario, SCENARIOS)
    if tasks < 1 or classes_per_task < 1:
        raise EFCError(f"tasks: need at least one task of one class, got {tasks} of {classes_per_task}")
    if not 0 <= validation < 1:
        raise EFCError(f"validation: must be at least 0 and below 1, got {validation}")
    K = len(dataset.class_names)
    if tasks > (most := tasks_for(K, classes_per_task, scenario)):
        raise EFCError(
            f"tasks: {tasks} tasks of {classes_per_task} classes need {tasks * classes_per_task} classes, "
            f"{dataset.name} has {K}; use tasks={most}, or auto"
        )
    order = np.arange(K)
    if order_seed is not None:
        order = np.random.default_rng(order_seed).permutation(order)
    held_out = _held_out(dataset.y_train, validation)
    bounds = [min(K, t * classes_per_task) for t in range(tasks + 1)]
    built = []
    for index, (start, stop) in enumerate(pairwise(bounds)):
        labels = order[start:stop]
        shift = 0 if scenario == "domain" else start
        parts = {
            "train": _part(dataset, "train", ~held_out, labels, shift, dtype),
            "validation": _part(dataset, "train", held_out, labels, shift, dtype),
            "test": _part(dataset, "test", np.ones(len(dataset.y_test), bool), labels, shift, dtype),
        }
        for name in ("train", "test"):
            present = (parts[name].y - shift).unique().tolist()
            if missing := [label for k, label in enumerate(labels) if k not in present]:
                told = f"class {dataset.class_names[missing[0]]!r} has no {name} samples"
                raise EFCError(f"{dataset.name}: {told}; leave it out, or add some")
        names = tuple(dataset.class_names[label] for label in labels)
        built.append(Task(index, names, slice(shift, shift + len(labels)), parts))
    n_outputs = classes_per_task if scenario == "domain" else bounds[-1]
    left_out = tuple(dataset.class_names[label] for label in order[bounds[-1] :])
    return Stream(dataset.name, scenario, tuple(built), dataset.x_train.shape[1], n_outputs, left_out)


def tasks_for(classes: int, classes_per_task: int, scenario: str = "class") -> int:
    """How many tasks use up the classes; in Domain-IL, whose tasks all have the same outputs, as far as they come out
    even."""
    return max(1, classes // classes_per_task if scenario == "domain" else -(-classes // classes_per_task))


def _held_out(y: IntArray, share: float) -> Mask:
    """Mark the validation samples: the same share of every class, the same ones every time."""
    mask = np.zeros(len(y), bool)
    for label in np.unique(y):
        members = np.random.default_rng([20260204, int(label)]).permutation(np.flatnonzero(y == label))
        mask[members[: round(share * len(members))]] = True
    return mask


def _part(dataset: Dataset, part: str, keep: Mask, labels: IntArray, shift: int, dtype: torch.dtype) -> Part:
    """The samples of ``labels`` among ``keep``, outputs numbered from ``shift`` in the order of ``labels``."""
    x, y = (dataset.x_train, dataset.y_train) if part == "train" else (dataset.x_test, dataset.y_test)
    chosen = np.flatnonzero(keep & np.isin(y, labels))
    position = np.full(len(dataset.class_names), -1, dtype=np.int64)
    position[labels] = shift + np.arange(len(labels))
    features = torch.as_tensor(np.ascontiguousarray(x[chosen])).to(dtype)
    return Part(features if dataset.scale == 1 else features.mul_(dataset.scale), torch.as_tensor(position[y[chosen]]))
