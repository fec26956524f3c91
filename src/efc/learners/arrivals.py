"""Learning as data arrive: no tasks, no boundaries, batches of any size.

What arrives is learned in pieces of ``PIECE`` samples, however the stream was cut, and remembered in windows of
``WINDOW``: nobody says when to consolidate, so it is done every so many samples. The samples of the window under way
are all that is kept of the stream.

In the first window little is known of the inputs' scale. The learner then begins afresh whenever its samples have
doubled, and learns those there are in their order, once. From the second window on it goes on for good, and inputs are
standardised as the first window says: moments of inputs that were cut off at ten deviations of another scale would not
be those of what is asked about later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from efc.core.task import TaskData
from efc.errors import EFCError

if TYPE_CHECKING:
    from efc.learners.base import Learner

PIECE = 16
"""Samples of a step."""
WINDOW = 512
"""Samples that are remembered together."""
STALE = 4
"""A head that is solved for is solved again when the samples of a class have grown by one in so many."""


class Arrivals:
    """Where a learner without tasks stands in its stream, and the samples of the window under way.

    Args:
        learner: the learner that is to learn from the stream.
    """

    def __init__(self, learner: Learner) -> None:
        if learner.tasks_seen or learner.active != slice(0, 0):
            raise EFCError(f"observe: this {learner.name} has learned tasks; what learns from a stream begins with it")
        self.learner = learner
        d, K = learner.layout.sizes[0], learner.layout.sizes[-1]
        device = learner.theta.device
        self.x = torch.zeros(0, d, dtype=torch.float64, device=device)
        """(n, d_0): the inputs of the window under way, as they arrived."""
        self.y = torch.zeros(0, dtype=torch.long, device=device)
        self.counts = torch.zeros(K, dtype=torch.long)
        """Samples of each output so far."""
        self.solved = torch.zeros(K, dtype=torch.long)
        """Those that the head was last solved with."""
        self.seen = self.collected = 0
        """Samples so far, and those of the window that the head's moments hold."""

    @property
    def top(self) -> int:
        """How many outputs have been seen."""
        return int((self.counts > 0).sum())

    def take_in(self, x: Tensor, y: Tensor) -> None:
        """Learn from samples x (B, d_0) and their outputs y (B,), in their order."""
        self._check(x, y)
        x, y = x.to(self.x), y.to(self.y)
        while len(y):
            n = self._room()
            self._append(x[:n], y[:n])
            x, y = x[n:], y[n:]
            me = self.learner
            if self.seen <= WINDOW and _power_of_two(self.seen):
                self._begin_afresh()
            elif self.seen % PIECE == 0:
                me.learn_piece(self.x[-PIECE:], self.y[-PIECE:])
            if self.seen % WINDOW == 0:
                self._close()
            if _power_of_two(self.seen):
                self._solve(afresh=True)
        self.refresh()

    def _room(self) -> int:
        """How many samples there may be until something is to be done."""
        room = PIECE - self.seen % PIECE
        return min(room, (1 << self.seen.bit_length()) - self.seen) if self.seen < WINDOW else room

    def _append(self, x: Tensor, y: Tensor) -> None:
        known = self.top
        self.x, self.y = torch.cat([self.x, x]), torch.cat([self.y, y])
        self.counts = self.counts + torch.bincount(y.cpu(), minlength=len(self.counts))
        self.seen += len(y)
        if self.top > known:
            nothing = TaskData(self.x[:0], self.y[:0], slice(0, self.top), slice(known, self.top), steps=0)
            self.learner.meet(nothing)

    def _begin_afresh(self) -> None:
        me = self.learner
        self.collected = 0
        self.solved = torch.zeros_like(self.solved)
        if me.inputs is not None:
            me.inputs.reset()
            me.inputs.take_in(self.x)
        me.begin_afresh(self.window(first=True))

    def _close(self) -> None:
        """A window is full: what is to be remembered of it is, and its samples go."""
        me = self.learner
        self.collect()
        me.close_window(self.window())
        self.x, self.y, self.collected = self.x[:0], self.y[:0], 0
        me.open_window(self.window())

    def window(self, first: bool = False) -> TaskData:
        """The samples of the window under way, as a task; all its outputs are new to what begins with it."""
        return TaskData(self.x, self.y, slice(0, self.top), slice(0 if first else self.top, self.top), steps=0)

    def collect(self) -> None:
        """Bring the head's moments up to date."""
        if self.collected < len(self.y):
            whole = self.window()
            rest = slice(self.collected, None)
            self.learner.collect(TaskData(self.x[rest], self.y[rest], whole.active, slice(0, 0), steps=0))
            self.collected = len(self.y)

    def refresh(self, exact: bool = False) -> None:
        """Solve for the head, if there is enough news, or (``exact``) any."""
        news = self.counts - self.solved
        if bool((STALE * news > self.counts).any() or (exact and news.any())):
            self._solve(afresh=False)

    def _solve(self, afresh: bool) -> None:
        """The ridge is chosen ``afresh`` when the samples have doubled: it must not depend on how the stream is cut."""
        self.collect()
        self.learner.answer(self.top, afresh)
        self.solved = self.counts.clone()

    def _check(self, x: Tensor, y: Tensor) -> None:
        if x.dim() != 2 or x.shape[1] != self.x.shape[1] or y.shape != x.shape[:1]:
            raise EFCError(
                f"observe: expected inputs (B, {self.x.shape[1]}) and outputs (B,), got {tuple(x.shape)} and "
                f"{tuple(y.shape)}"
            )
        if not bool(torch.isfinite(x).all()):
            raise EFCError("observe: some inputs are not finite; NaN and infinity have no place among them")
        known = self.top
        for k in dict.fromkeys(y.tolist()):
            if not 0 <= k <= known or k >= len(self.counts):
                raise EFCError(
                    f"observe: output {k} came after {known} others, of {len(self.counts)}; number them as they appear"
                )
            known += k == known

    def state_dict(self) -> dict[str, Tensor]:
        at = torch.tensor([self.seen, self.collected])
        return {"x": self.x, "y": self.y, "counts": self.counts, "solved": self.solved, "at": at}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.x, self.y = (state[name].to(getattr(self, name), copy=True) for name in ("x", "y"))
        self.counts, self.solved = (state[name].cpu().clone() for name in ("counts", "solved"))
        self.seen, self.collected = state["at"].tolist()


def _power_of_two(n: int) -> bool:
    return n & (n - 1) == 0
