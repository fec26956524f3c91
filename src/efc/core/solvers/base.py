"""What the solvers share: tolerances, the loop over sweeps, and the rule by which the next ``u`` is proposed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from efc.core.linear import steady_state_u
from efc.core.network import Trace
from efc.core.solution import Solution
from efc.core.solvers.rows import Rows, few_left
from efc.core.solvers.watch import State, Watch
from efc.core.system import Activity, System, free_slopes, sweep
from efc.errors import EFCError, choose

STARTS = ("free", "steady_state", "open")
MEASURES = ("relative", "absolute")
RECORDED = 16
"""Sweeps a recorded solve may take; all of them are run every time."""


@dataclass(frozen=True)
class Solver(ABC):
    """Stopping rule common to all solvers.

    A sample is *converged* when what a sweep takes in (``u``, and the signals on their way down) and what it would hand
    to the next sweep differ by less than ``tol`` of their size; it is then frozen. It is *cycling* when it returns to
    where it was some sweeps ago although single sweeps move it, or when its residual has not improved for ``patience``
    sweeps.
    """

    tol: float = 1e-2
    max_steps: int = 100

    def __post_init__(self) -> None:
        positive(self.tol, "tol")
        positive(self.max_steps, "max_steps")

    @property
    def recordable(self) -> bool:
        """Whether a CUDA graph can hold it: a handful of sweeps, every time, and nothing the host has to look at."""
        return False

    @abstractmethod
    def solve(self, system: System) -> Solution:
        """Find the equilibrium of every sample."""


@dataclass(frozen=True)
class SweepSolver(Solver):
    """A solver whose state is ``u`` (and the slopes of the last sweep): sweep, look, propose the next ``u``.

    ``start="free"`` begins with ``u = kappa (r* - p)``, ``"steady_state"`` with the steady-state theorem's ``u``;
    ``"open"`` is like ``"free"``, but in the first sweep every unit of layers 2..L-1 passes feedback on, as if it were
    switched on: a start far from the free state, to find out whether there are several equilibria.
    ``enough`` is the share of a run's batch that has to settle: the search for the others ends with theirs.
    ``measure="absolute"`` takes ``tol`` for the change of ``u`` alone, as it is.
    """

    patience: int = 24
    start: str = "free"
    enough: float = 1.0
    measure: str = "relative"

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(self.patience, "patience")
        choose("solver.start", self.start, STARTS)
        choose("solver.measure", self.measure, MEASURES)
        if not 0 < self.enough <= 1:
            raise EFCError(f"solver.enough: must be above 0 and at most 1, got {self.enough}")

    @property
    def recordable(self) -> bool:
        return self.start == "free" and self.max_steps <= RECORDED

    @abstractmethod
    def begin(self, system: System) -> Proposal:
        """A fresh proposal rule for one solve."""

    def solve(self, system: System) -> Solution:
        search = Search(self, system)
        for step in range(1, self.max_steps + 1):
            search.sweep()
            if step > 1 or self.max_steps == 1:  # nobody settles in the first sweep, unless there is nothing to do
                done = search.look(step)
                if step == self.max_steps or over(done):
                    break
                search.narrow()
            search.advance()
        return search.solution()


class Proposal(ABC):
    """The next ``u`` from the last one and what the sweep made of it."""

    system: System

    @abstractmethod
    def __call__(self, u: Tensor, activity: Activity) -> Tensor: ...

    @abstractmethod
    def narrow(self, rows: Rows) -> None:
        """Go on with these samples alone: whatever is kept per sample has to be picked."""


class Search:
    """Where a :class:`SweepSolver` stands."""

    def __init__(self, solver: SweepSolver, system: System) -> None:
        self.system, self.enough, self.absolute = system, solver.enough, solver.measure == "absolute"
        self.u, self.slopes = initial_u(system, solver.start), initial_slopes(system, solver.start)
        self.watch = Watch(system, solver.tol, solver.patience, solver.max_steps)
        self.propose = solver.begin(system)
        self.activity: Activity
        self.whole: tuple[Rows, Tensor, Activity, Watch] | None = None

    def sweep(self) -> None:
        self.activity = sweep(self.system, self.u, self.slopes)

    def look(self, step: int) -> Tensor:
        here, answer = sweep_states(self.system, self.u, self.slopes, self.activity)
        if self.absolute:
            done = self.watch.look(step, here[:1], answer[:1], [torch.ones_like(self.u[..., :1])])
        else:
            done = self.watch.look(step, here, answer)
        return done if self.enough == 1 else self.watch.close(self.enough)

    def advance(self) -> None:
        """Take up the proposed ``u`` and the new slopes, except where the search is over."""
        proposed, slopes, done = self.propose(self.u, self.activity), self.activity.slopes, self.watch.done
        del self.activity  # to make room for the next
        if done is None:
            self.u, self.slopes = proposed, slopes
            return
        self.u = torch.where(done, self.u, proposed)
        # The first layer's slopes are constant: its input is clamped.
        later = zip(self.slopes[1:], slopes[1:], strict=True)
        self.slopes = (*slopes[:1], *(torch.where(done, old, new) for old, new in later))

    def narrow(self) -> None:
        """Once few samples are left, go on with them alone."""
        width = max(a.shape[-1] for a in self.system.free.a)
        whole = self.whole is None and self.enough == 1  # a share is one of the whole batch
        rows = few_left(self.watch.done, width) if whole else None
        if rows is None:
            return
        self.whole = rows, self.u, self.activity, self.watch
        self.system = rows_of(self.system, rows)
        self.u, self.slopes, self.activity = rows.take((self.u, self.slopes, self.activity))
        self.watch = self.watch.narrow(self.system, rows)
        self.propose.system = self.system
        self.propose.narrow(rows)

    def solution(self) -> Solution:
        if self.whole is None:
            return self.watch.solution(self.u, self.activity)
        rows, u, activity, watch = self.whole
        rows.put(u, self.u)
        rows.put(activity, self.activity)
        watch.widen(self.watch, rows)
        return watch.solution(u, activity)


def sweep_states(system: System, u: Tensor, slopes: Sequence[Tensor], activity: Activity) -> tuple[State, State]:
    """What a sweep took in, and what it hands on: ``u`` and the signals ``sigma'(a_i) g_i`` layers 2..L-1 send down."""
    here, answer = [u], [system.kappa * activity.error]
    if system.dynamics.feedback != "learned":
        for layer, slope in zip(activity.hidden[1:], slopes[1:], strict=True):
            here.append(slope * layer.g)
            answer.append(layer.psi if system.dynamics.feedback == "jacobian" else layer.slope * layer.g)
    return here, answer


def rows_of(system: System, rows: Rows) -> System:
    """The same system for some of the samples."""
    constants = ("slope_1", "gamma_1", "compared_free", "free_error")
    x, *rates = system.free.r  # no sweep reads the input
    free = Trace(rows.take(system.free.a), (x, *rows.take(rates)))
    return replace(system, free=free, **{name: rows.take(getattr(system, name)) for name in constants})


def initial_u(system: System, start: str) -> Tensor:
    return steady_state_u(system) if start == "steady_state" else system.kappa * system.free_error


def initial_slopes(system: System, start: str) -> tuple[Tensor, ...]:
    slopes = free_slopes(system)
    return (*slopes[:1], *map(torch.ones_like, slopes[1:])) if start == "open" else slopes


def over(done: Tensor) -> bool:
    """Whether every sample's search is over; never while a CUDA graph is recorded, where nobody may look."""
    return not (done.is_cuda and torch.cuda.is_current_stream_capturing()) and bool(done.all())


def positive(value: float, name: str) -> None:
    if not value > 0:
        raise EFCError(f"solver.{name}: must be positive, got {value}")
