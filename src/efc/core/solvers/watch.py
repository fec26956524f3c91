"""The per-sample watch over convergence."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from efc.core.solution import Result, Solution
from efc.core.solvers.rows import Rows
from efc.core.system import Activity, System

_IMPROVED = 0.99
"""A sample makes progress while its best residual falls by one per cent within ``patience`` sweeps."""
_FIRST_SNAPSHOT = 2
_RETURNED = 0.01
"""A sample has come back to an earlier state if its distance from it is this small against its last move."""

State = Sequence[Tensor]
"""Where a sample is: the controller's output, then whatever else a solver goes by, (R, B, .) each."""


class Watch:
    """Follows every sample's residual and decides, once and for all, that its search is over. (R, B, 1) throughout."""

    per_sample = ("done", "cycling", "iterations", "residual", "best", "stalled", "last", "snapshot")

    def __init__(self, system: System, tol: float, patience: int, max_steps: int, units: float = 16) -> None:
        self.system, self.tol, self.patience = system, tol, patience
        self.impatient = patience < max_steps
        like = system.free_error[..., :1]
        self.done: Tensor | None = None
        """None before the first look."""
        self.cycling = torch.zeros_like(like, dtype=torch.bool)
        self.iterations = torch.zeros_like(like, dtype=torch.int64)
        self.residual = self.best = torch.full_like(like, float("inf"))
        self.stalled = self.iterations
        self.last: State | None = None
        self.snapshot: State | None = None
        self.next_snapshot = _FIRST_SNAPSHOT
        # A controller's output that drowns in rounding errors counts as settled.
        self.tiny = torch.finfo(system.kappa.dtype).tiny
        self.noise = rounding(system.kappa, tol, units) * system.kappa + self.tiny

    def look(self, step: int, here: State, answer: State, scales: State | None = None) -> Tensor:
        """Take note of a step from ``here`` that leads to ``answer``; return (R, B, 1): true where the search is over.

        Differences are relative to ``scales``, by default the largest component of ``answer``, state by state.
        """
        first, *rest = [largest(t) for t in answer] if scales is None else scales
        scales = [first + self.noise, *(t + self.tiny for t in rest)]
        residual = distance(here, answer, scales)
        if self.done is None:
            self.residual, running, self.iterations = residual, ~self.cycling, self.iterations + step
        else:
            running = ~self.done
            self.residual = torch.where(running, residual, self.residual)
            self.iterations = self.iterations + running
        going_on = (self.residual > self.tol) & (self.residual < float("inf"))  # NaN is neither
        cycling = self._goes_round(here, scales)
        if cycling is not None:
            self.cycling = self.cycling | (cycling & going_on & running)
            going_on = going_on & ~self.cycling
        self.last = here
        if step == self.next_snapshot:
            # Kept for twice as long each time, as in Brent's method: a cycle of any length is found.
            self.snapshot, self.next_snapshot = here, 2 * step
        self.done = ~going_on
        return self.done

    def close(self, enough: float) -> Tensor:
        """End the search of every run in which this share of the samples has settled; as :meth:`look`, who is done."""
        assert self.done is not None
        share = (self.residual <= self.tol).to(self.residual.dtype).mean(1, keepdim=True)
        self.done = self.done | (share >= enough)
        return self.done

    def solution(self, u: Tensor, activity: Activity) -> Solution:
        """The outcome; whoever is still searching has run out of steps."""
        result = torch.full_like(self.iterations, Result.MAX_STEPS)
        result.masked_fill_(self.cycling, Result.CYCLING)
        result.masked_fill_(self.residual <= self.tol, Result.CONVERGED)
        result.masked_fill_(~(self.residual < float("inf")), Result.NON_FINITE)  # NaN too
        found = (t.squeeze(-1) for t in (result, self.iterations, self.residual))
        return Solution(self.system, activity, u, *found)

    def narrow(self, system: System, rows: Rows) -> Watch:
        """A watch over some of the samples, that knows what this one knows of them."""
        few = copy.copy(self)
        few.system = system
        for name in self.per_sample:
            setattr(few, name, rows.take(getattr(self, name)))
        return few

    def widen(self, few: Watch, rows: Rows) -> None:
        """Take over the outcome for some of the samples."""
        for name in ("cycling", "iterations", "residual"):
            rows.put(getattr(self, name), getattr(few, name))

    def _goes_round(self, here: State, scales: State) -> Tensor | None:
        """Who is back where it was some steps ago, or without progress for too long. None: too soon to say."""
        found = None
        if self.impatient:
            improved = self.residual < _IMPROVED * self.best
            self.best = torch.where(improved, self.residual, self.best)
            self.stalled = (self.stalled + 1).masked_fill(improved, 0)
            found = self.stalled >= self.patience
        if self.snapshot is not None and self.last is not None:
            moved = distance(here, self.last, scales)
            returned = distance(here, self.snapshot, scales) < _RETURNED * moved
            found = returned if found is None else found | returned
        return found


def largest(t: Tensor) -> Tensor:
    """Maximum norm along the last axis, which stays with size one."""
    return t.abs().amax(-1, keepdim=True)


def distance(one: State, other: State, scales: State) -> Tensor:
    """(R, B, 1): the largest difference over all that makes up a state, each relative to its scale."""
    worst = largest(one[0] - other[0]) / scales[0]
    for s, t, scale in zip(one[1:], other[1:], scales[1:], strict=True):
        worst = torch.maximum(worst, largest(s - t) / scale)
    return worst


def rounding(like: Tensor, tol: float, units: float = 16) -> float:
    """A share of a quantity that rounding errors of so many units could move by ``tol`` of itself."""
    return units * torch.finfo(like.dtype).eps / tol
