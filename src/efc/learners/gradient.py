"""The frame of all methods that descend a gradient: optimiser, schedule, head policy, remembered activity, recording.

A method adds what is its own: :meth:`GradientLearner.descent` (the direction the optimiser is given) and, if it
preserves anything, :meth:`GradientLearner.consolidate`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from efc.core.network import forward
from efc.core.task import TaskData
from efc.errors import EFCError
from efc.learners.arrivals import PIECE
from efc.learners.base import CHUNK, Learner
from efc.learners.head_policies import HEADS, POLICIES
from efc.learners.optim import Optimiser, make_optimiser
from efc.learners.options import Options
from efc.learners.record import Recorder, Step
from efc.learners.remembered import RememberedActivity
from efc.learners.state import Part

MOST = 2**28
"""Numbers a task's inputs may have for a copy of them to be kept, as the network gets them, while it is learned."""


class GradientLearner(Learner):
    """A method that takes a step against a direction of its own on every batch: it writes :meth:`descent`.

    ``begin_task`` makes a fresh optimiser and schedule and lets the head policy set the head's rows. Each ``step``
    calls ``descent``, adds the pull of remembered activity, lets the optimiser make a step of the direction, makes it a
    natural one if so asked, lets ``shaped`` change it, subtracts it and calls ``moved``. ``end_task`` lets the head
    policy finish, then calls ``consolidate``, then takes in the task's activity.

    Args:
        sizes: layer sizes, from the inputs over the hidden layers to the outputs of all tasks together.
        seeds: one per run; a run's initial weights and whatever else it draws come from its seed alone.
        options: hyper-parameters of the method; by default its own, ``options_type()``.
        head: name of the head policy, one of ``heads``; by default ``shipped_head``.
        activation: name of the hidden units' activation.
        device: where the parameters live.
        dtype: in what precision, ``torch.float32`` or ``torch.float64``.
    """

    heads: ClassVar[Collection[str]] = HEADS
    shipped_head = "input_compensated"
    stream_head = "zero"

    def set_up(self) -> None:
        super().set_up()
        self.gradient = torch.zeros_like(self.theta)
        self.lr = self.per_run("lr", self.options.lr).reshape(-1, 1)
        self.optimiser = self._fresh_optimiser()
        self.head_policy = POLICIES[self.head](self)
        self.remembered = RememberedActivity(self) if self.options.remembers else None
        self.schedule = torch.ones((), dtype=self.theta.dtype, device=self.theta.device)
        self._step: Step = self._update
        self.ready: tuple[Tensor, Tensor] | None = None

    def begin_task(self, task: TaskData) -> None:
        super().begin_task(task)
        self.ready = None
        self.gradient.zero_()
        if self.arrivals is None:
            self.active = self.head_policy.trained(task)
            self.optimiser = self._fresh_optimiser()
        self.head_policy.begin(task)
        if self.remembered is not None:
            self.remembered.begin_task(task)
        self._choose_step()

    def step(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        return self._step_of_schedule(self._with_runs(x), y)

    def step_on(self, task: TaskData, index: Tensor) -> dict[str, Tensor]:
        if type(self).step is not GradientLearner.step or task.x.numel() > MOST:  # a step of someone's own
            return super().step_on(task, index)
        return self._step_of_schedule(self._inputs_of(task)[index], task.y[index])

    def _inputs_of(self, task: TaskData) -> Tensor:
        """The task's inputs (N, d_0) as the network gets them, worked out once instead of in every epoch."""
        if self.ready is None or self.ready[0] is not task.x:
            parts = [
                self.standardised(some) for some in task.x.split(task.x.shape[0] if self.inputs is None else CHUNK)
            ]
            self.ready = task.x, parts[0] if len(parts) == 1 else torch.cat(parts)
        return self.ready[1]

    def _step_of_schedule(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """A step on inputs (R, B, d_0) as the network gets them."""
        if self.options.schedule == "cosine":
            progress = min(1.0, self.steps_taken / max(1, self.steps_planned))
            self.schedule.fill_(0.5 * (1 + math.cos(math.pi * progress)))
        self.steps_taken += 1
        return self._step(x, y)

    def _fresh_optimiser(self) -> Optimiser:
        return make_optimiser(self.options.optimiser, self.theta, self.options.momentum)

    def _update(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """The part of a step that is work on tensors alone."""
        statistics = self.descent(x, self.one_hot(y, self.active))
        remembered = self.remembered if self.tasks_seen > 0 else None
        held = None if remembered is None else self.held()
        if remembered is not None and self.options.pulls:
            remembered.pull(self.theta, self.gradient)
            if held is not None:
                self.gradient.masked_fill_(held, 0.0)
        step = self.optimiser.step(self.gradient, self.lr * self.schedule)
        if remembered is not None and self.options.step == "natural":
            step = remembered.project(step)
            if held is not None:
                step.masked_fill_(held, 0.0)
        step = self.shaped(step)
        self.theta.sub_(step)
        self.moved(step)
        return statistics

    def end_task(self, task: TaskData) -> None:
        self.ready = None
        self.head_policy.end(task)
        super().end_task(task)
        if self.remembered is not None:
            self.remembered.consolidate(task)

    def logits(self, x: Tensor, classes: slice) -> Tensor:
        x = self._with_runs(x)
        z = forward(self.layers.active(classes), self.sigma, x).z
        beside = self.head_policy.beside(x, classes)
        return z if beside is None else z + beside

    @property
    def holds_out(self) -> bool:
        return self.head_policy.checks

    def parts(self) -> dict[str, Part]:
        found = super().parts() | {"optimiser": self.optimiser, "head": self.head_policy}
        return found if self.remembered is None else found | {"remembered": self.remembered}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self.gradient.zero_()
        self._choose_step()

    # -- without tasks -----------------------------------------------------------------------------------------------

    @classmethod
    def check_streams(cls, head: str) -> None:
        super().check_streams(head)
        if not POLICIES[head].streams:
            able = ", ".join(name for name, policy in POLICIES.items() if policy.streams)
            raise EFCError(f"head: {head!r} needs tasks; without them there are {able}")

    def begin_afresh(self, window: TaskData) -> None:
        super().begin_afresh(window)
        self.begin_task(window)
        for x, y in zip(window.x.split(PIECE), window.y.split(PIECE), strict=True):
            self._descend(x, y)

    def meet(self, nothing: TaskData) -> None:
        super().meet(nothing)
        if not self.head_policy.owns_head:
            self.begin_task(nothing)

    def learn_piece(self, x: Tensor, y: Tensor) -> None:
        """A step; where the head is solved for, its moments add up because the features no longer move."""
        if not self.head_policy.owns_head:
            self._descend(x, y)

    def _descend(self, x: Tensor, y: Tensor) -> None:
        self.schedule.fill_(1.0)
        self.steps_taken += 1
        self._step(self._with_runs(x), y.expand(self.runs, -1))

    def close_window(self, window: TaskData) -> None:
        """What is remembered of a task is remembered of a window; features that no longer move need no memory."""
        if not self.head_policy.owns_head:
            self.end_task(window)

    def open_window(self, nothing: TaskData) -> None:
        if not self.head_policy.owns_head:
            self.begin_task(nothing)

    def collect(self, some: TaskData) -> None:
        self.head_policy.collect(some)

    def answer(self, top: int, afresh: bool) -> None:
        self.head_policy.answer(top, afresh)

    # -- what a method adds ------------------------------------------------------------------------------------------

    @abstractmethod
    def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """Write the direction the optimiser descends, (R, P), into ``self.gradient``; ``y`` is one-hot (R, B, C)."""

    def pull_strength(self) -> Tensor:
        """The weight p (R, 1, 1) of the pull ``p dW A`` of remembered activity, in units of what is descended."""
        return self.per_run("pull", getattr(self.options, "pull", 0.0))

    def held(self) -> Tensor | None:
        """Parameters (R, P) that must not move at all, whatever is remembered of activity; None if all may."""
        return None

    def shaped(self, step: Tensor) -> Tensor:
        """What is subtracted from the parameters, (R, P), in place of the optimiser's step. By default the same."""
        return step

    def moved(self, step: Tensor) -> None:
        """Called after every step with what was subtracted from the parameters, (R, P)."""
        return None

    def consolidate(self, task: TaskData) -> None:
        """Remember a finished task. By default nothing is."""
        return None

    @classmethod
    def numbers_kept(cls, samples: int, sizes: Sequence[int], options: Options) -> int:
        kept = super().numbers_kept(samples, sizes, options)
        return kept + RememberedActivity.numbers_kept(sizes, options)

    # -- recording ---------------------------------------------------------------------------------------------------

    def may_record(self) -> bool:
        """Whether this learner's steps are recorded and replayed, which only a GPU can."""
        return self.theta.is_cuda and self.says_recordable() and self.arrivals is None

    def _choose_step(self) -> None:
        """An ordinary step, or a fresh recording of it: what it reads may lie elsewhere now."""
        self._step = Recorder(self._update) if self.may_record() else self._update
