"""What the solvers share: tolerances, the per-sample watch over convergence, and the loop over sweeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from efc.core.linear import steady_state_u
from efc.core.solution import Result, Solution
from efc.core.system import Activity, System, free_activity, sweep
from efc.errors import EFCError, choose

STARTS = ("free", "steady_state")
_RUNNING = -1
_IMPROVED = 0.99
"""A sample makes progress while its best residual falls by one per cent within ``patience`` sweeps."""
_FIRST_SNAPSHOT = 6
_RETURNED = 0.01
"""A sample has come back to an earlier state if its distance from it is this small against its last move."""


@dataclass(frozen=True)
class Solver(ABC):
    """Stopping rule common to all solvers.

    A sample is *converged* when one more sweep would change its rates and ``u`` by less than ``tol`` times what control
    itself changes; it is then frozen. It is *cycling* when it returns to where it was some sweeps ago although single
    sweeps move it, or when its residual has not improved for ``patience`` sweeps.
    """

    tol: float = 1e-3
    max_steps: int = 100

    def __post_init__(self) -> None:
        positive(self.tol, "tol")
        positive(self.max_steps, "max_steps")

    @abstractmethod
    def solve(self, system: System) -> Solution:
        """Find the equilibrium of every sample."""


@dataclass(frozen=True)
class SweepSolver(Solver):
    """A solver whose state is ``u`` (and the slopes of the last sweep): sweep, look, propose the next ``u``.

    ``start="free"`` begins with ``u = kappa (r* - p)``, ``"steady_state"`` with the steady-state theorem's ``u``.
    """

    patience: int = 24
    start: str = "free"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.patience, "patience")
        choose("solver.start", self.start, STARTS)

    @abstractmethod
    def begin(self, system: System) -> Proposal:
        """A fresh proposal rule for one solve."""

    def solve(self, system: System) -> Solution:
        free = free_activity(system)
        u = initial_u(system, self.start)
        slopes, before = free.slopes, free.rates
        watch = Watch(system, self.tol, self.patience)
        propose = self.begin(system)
        for step in range(1, self.max_steps + 1):
            activity = sweep(system, u, slopes)
            done = watch.look(step, u, before, activity)
            if step == self.max_steps or bool(done.all()):
                break
            frozen = done.unsqueeze(-1)
            u = torch.where(frozen, u, propose(u, activity))
            # The first layer's slopes are constant: its input is clamped.
            later = zip(slopes[1:], activity.slopes[1:], strict=True)
            slopes = (*slopes[:1], *(torch.where(frozen, old, new) for old, new in later))
            before = activity.rates
        return watch.solution(u, activity)


class Proposal(ABC):
    """The next ``u`` from the last one and what the sweep made of it."""

    @abstractmethod
    def __call__(self, u: Tensor, activity: Activity) -> Tensor: ...


def initial_u(system: System, start: str) -> Tensor:
    return steady_state_u(system) if start == "steady_state" else system.kappa * system.free_error


class Watch:
    """Follows every sample's residual and decides, once and for all, how its search ended."""

    def __init__(self, system: System, tol: float, patience: int) -> None:
        self.system, self.tol, self.patience = system, tol, patience
        shape, device = system.free_error.shape[:2], system.free_error.device
        self.result = torch.full(shape, _RUNNING, dtype=torch.int64, device=device)
        self.iterations = torch.zeros(shape, dtype=torch.int64, device=device)
        self.residual = torch.full(shape, float("inf"), dtype=system.free_error.dtype, device=device)
        self.best = self.residual.clone()
        self.stalled = torch.zeros(shape, dtype=torch.int64, device=device)
        self.last: State | None = None
        self.snapshot: State | None = None
        self.next_snapshot = _FIRST_SNAPSHOT

    def look(self, step: int, u: Tensor, before: Sequence[Tensor], activity: Activity) -> Tensor:
        """Take note of one sweep; return (R, B) booleans, true where the search is over."""
        answer = State(self.system.kappa * activity.error, activity.rates)
        here = State(u, before)
        scales = control_scales(self.system, answer, self.tol)
        residual = distance(here, answer, scales)
        running = self.result == _RUNNING
        self.residual = torch.where(running, residual, self.residual)
        self.iterations = torch.where(running, step, self.iterations)
        improved = residual < _IMPROVED * self.best
        self.best = torch.where(improved, residual, self.best)
        self.stalled = torch.where(improved, 0, self.stalled + 1)
        cycling = self.stalled >= self.patience
        if self.snapshot is not None and self.last is not None:
            moved = distance(here, self.last, scales)
            cycling |= distance(here, self.snapshot, scales) < _RETURNED * moved
        self.last = here
        if step == self.next_snapshot:
            # Kept for twice as long each time, as in Brent's method: a cycle of any length is found.
            self.snapshot = here
            self.next_snapshot = 2 * step
        outcome = torch.where(cycling, Result.CYCLING, _RUNNING)
        outcome = torch.where(residual <= self.tol, Result.CONVERGED, outcome)
        outcome = torch.where(torch.isfinite(residual), outcome, Result.NON_FINITE)
        self.result = torch.where(running, outcome, self.result)
        return self.result != _RUNNING

    def solution(self, u: Tensor, activity: Activity) -> Solution:
        """The outcome; whoever is still searching has run out of steps."""
        result = torch.where(self.result == _RUNNING, Result.MAX_STEPS, self.result)
        return Solution(self.system, activity, u, result, self.iterations, self.residual)


class State(NamedTuple):
    """Where a sample is: the controller's output and the hidden rates."""

    u: Tensor
    r: Sequence[Tensor]


def control_scales(system: System, answer: State, tol: float) -> list[Tensor]:
    """(R, B) each, for the controller and every hidden layer: what control changes, ``|u|`` and ``|r_i - r_i^free|``.

    Maximum norms. Rounding errors are allowed for: signals that drown in them count as settled.
    """
    noise = 16 * torch.finfo(answer.u.dtype).eps / tol
    scales = [answer.u.abs().amax(-1) + noise * system.kappa.squeeze(-1)]
    for r, free in zip(answer.r, system.free.r[1:], strict=True):
        scales.append((r - free).abs().amax(-1) + noise * free.abs().amax(-1))
    return [scale.clamp_min(torch.finfo(scale.dtype).tiny) for scale in scales]


def distance(one: State, other: State, scales: Sequence[Tensor]) -> Tensor:
    """(R, B): the largest difference over controller and hidden layers, each relative to its scale."""
    worst = (one.u - other.u).abs().amax(-1) / scales[0]
    for r, s, scale in zip(one.r, other.r, scales[1:], strict=True):
        worst = torch.maximum(worst, (r - s).abs().amax(-1) / scale)
    return worst


def positive(value: float, name: str) -> None:
    if not value > 0:
        raise EFCError(f"solver.{name}: must be positive, got {value}")
