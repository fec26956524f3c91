"""A training step recorded once as a CUDA graph and replayed: a GPU then waits for no Python between its kernels."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

Step = Callable[[Tensor, Tensor], dict[str, Tensor]]

WARM_UP = 3
"""Ordinary steps before one is recorded: libraries set themselves up in the first."""


class Recording(NamedTuple):
    """A graph, the tensors it reads its batch from, and those it leaves its statistics in."""

    graph: torch.cuda.CUDAGraph
    x: Tensor
    y: Tensor
    statistics: dict[str, Tensor]


class Recorder:
    """Takes the place of a step that changes tensors in place and never looks at them from the host.

    A batch of another shape gets a recording of its own. Whatever the step reads must stay where it is: make a new
    recorder for a new task.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self.met: Counter[torch.Size] = Counter()
        self.recordings: dict[torch.Size, Recording] = {}

    def __call__(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        self.met[x.shape] += 1
        if self.met[x.shape] <= WARM_UP:
            return self.step(x, y)
        if x.shape not in self.recordings:
            self.recordings[x.shape] = self._record(x, y)
        recording = self.recordings[x.shape]
        recording.x.copy_(x)
        recording.y.copy_(y)
        recording.graph.replay()
        return {name: t.clone() for name, t in recording.statistics.items()}

    def _record(self, x: Tensor, y: Tensor) -> Recording:
        graph, x, y = torch.cuda.CUDAGraph(), x.clone(), y.clone()
        with _no_garbage_collection(), torch.cuda.graph(graph):
            statistics = self.step(x, y)
        return Recording(graph, x, y, statistics)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A graph of an earlier learner that is found to be garbage while another is recorded would spoil the recording."""
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
