"""How control went during training, over seeds: the traces of a row's runs as curves over all epochs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from efc.metrics import Array
from efc.runs.results import ResultRow


@dataclass(frozen=True)
class Curves:
    """Mean and standard deviation over seeds, (K, E): one curve per layer. NaN where no seed has a value."""

    mean: Array
    std: Array

    @classmethod
    def of(cls, values: Array) -> Curves:
        """From (seeds, E, K)."""
        finite = np.ma.masked_invalid(values)
        spread = finite.std(0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1:])
        return cls(finite.mean(0).filled(np.nan).T, np.ma.filled(spread, 0.0).T)

    def at(self, kept: NDArray[np.int64]) -> Curves:
        return Curves(self.mean[:, kept], self.std[:, kept])


@dataclass(frozen=True)
class Course:
    """A row's training, epoch by epoch of all tasks, E of them."""

    at: NDArray[np.int64]
    """(E,): the epoch's number, counted from 1 over all tasks."""
    task: NDArray[np.int64]
    epoch: NDArray[np.int64]
    """Within its task."""
    psi: Curves
    """The norm of the learning signal, by layer; the last is the output."""
    gamma: Curves
    """That of the preservation signal."""
    unsettled: Curves
    """Per cent of the samples: one curve."""

    @property
    def layers(self) -> list[str]:
        n = len(self.psi.mean)
        return [f"layer {i}" for i in range(1, n)] + ["output"]

    @property
    def borders(self) -> list[float]:
        """Where on the axis of epochs a new task begins."""
        return [float(x) + 0.5 for x in self.at[:-1][np.diff(self.task) > 0]]

    def thinned(self, most: int) -> Course:
        """About ``most`` of the epochs: every k-th of a task, and its last."""
        step = -(-len(self.at) // most)
        last = np.append(np.diff(self.task) > 0, True)
        kept = np.flatnonzero(((self.epoch - 1) % step == 0) | last)
        curves = {name: getattr(self, name).at(kept) for name in ("psi", "gamma", "unsettled")}
        return replace(self, at=self.at[kept], task=self.task[kept], epoch=self.epoch[kept], **curves)


def course(row: ResultRow) -> Course | None:
    """From a row of a results document; None without equilibrium, or where no trace was recorded."""
    traces = [trace for trace in row.trace or [] if trace]
    if not traces:
        return None
    first = traces[0]

    def values(name: str) -> Array:
        found = np.array([[getattr(entry, name) for entry in trace] for trace in traces], dtype=float)
        return found.reshape(len(traces), len(first), -1)

    return Course(
        np.arange(1, len(first) + 1),
        np.array([entry.task for entry in first]),
        np.array([entry.epoch for entry in first]),
        Curves.of(values("psi")),
        Curves.of(values("gamma")),
        Curves.of(100 * values("unsettled")),
    )
