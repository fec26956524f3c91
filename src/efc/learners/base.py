"""The learner protocol, and the shared frame of all methods: parameters, head policy, schedule, optimiser, state.

A method adds what is its own: :meth:`Learner.descent` (the direction the optimiser is given) and, if it preserves
anything, :meth:`Learner.consolidate`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from efc.core.activations import activation as find_activation
from efc.core.axis import PerRun, per_run
from efc.core.network import Layout, forward, initialise
from efc.core.task import TaskData
from efc.errors import EFCError, choose
from efc.learners.head_policies import HEADS, POLICIES
from efc.learners.optim import make_optimiser
from efc.learners.options import Options
from efc.learners.record import Recorder, Step
from efc.learners.remembered import RememberedActivity
from efc.learners.state import Part

CHUNK = 1024
"""Samples per pass over a whole task (Fisher, head, evaluation)."""


class Learner(ABC):
    """R runs of one method, trained side by side in one process.

    Call ``begin_task``, then ``step`` for every batch, then ``end_task``; ``logits`` at any time.
    """

    name: ClassVar[str]
    """What the method is called in tables and settings; by default the class's name in small letters."""
    options_type: ClassVar[type[Options]] = Options
    shipped_head: ClassVar[str] = "least_squares"
    heads: ClassVar[tuple[str, ...]] = HEADS
    """Head policies the method can be trained with."""
    output: str = "softmax"
    """The loss: cross-entropy over the active classes, or (``linear``) half the squared error."""
    joint: ClassVar[bool] = False
    """Whether each task is to bring the data of all tasks before it: the upper bound, no continual method."""
    replays_old_classes: ClassVar[bool] = False
    """Whether samples of earlier tasks are trained on beside the batches."""
    takes_steps: ClassVar[bool] = True
    """Whether batches are of any use to it; a closed form needs none."""
    recordable: ClassVar[bool] = False
    """Whether a step can be recorded as a CUDA graph: all it does is done by kernels, on tensors that stay in place.
    Not inherited: a subclass that changes the step has to say so itself."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__.lower()

    def __init__(
        self,
        sizes: Sequence[int],
        seeds: Sequence[int],
        options: Options | None = None,
        head: str | None = None,
        activation: str = "relu",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if not seeds:
            raise EFCError("seeds: at least one is needed")
        self.options = self.options_type() if options is None else options
        self.head = choose("head", head or self.shipped_head, self.heads)
        self.activation = activation
        self.sigma = find_activation(activation)
        self.layout = Layout(tuple(sizes))
        self.seeds = list(seeds)
        self.runs = len(self.seeds)
        self.theta = self.initial(dtype).to(device)
        self.layers = self.layout.views(self.theta)
        self.gradient = torch.zeros_like(self.theta)
        self.lr = self.per_run("lr", self.options.lr).reshape(-1, 1)
        self.optimiser = make_optimiser(self.options.optimiser, self.theta)
        self.head_policy = POLICIES[self.head](self)
        if self.options.step == "natural" and (self.joint or not self.takes_steps):
            raise EFCError(f"step: {self.name} has nothing to remember while it learns; use 'plain'")
        self.remembered = RememberedActivity(self) if self.options.remembers else None
        self.schedule = torch.ones((), dtype=dtype, device=device)
        self._step: Step = self._update
        self.active = slice(0, 0)
        self.steps_planned = self.steps_taken = self.tasks_seen = 0

    # -- the protocol ------------------------------------------------------------------------------------------------

    def begin_task(self, task: TaskData) -> None:
        """Prepare for a task: fresh optimiser and schedule, new head rows by the head policy."""
        self.active, self.steps_planned, self.steps_taken = self.head_policy.trained(task), task.steps, 0
        self.gradient.zero_()
        self.optimiser = make_optimiser(self.options.optimiser, self.theta)
        self.head_policy.begin(task)
        if self.remembered is not None:
            self.remembered.begin_task(task)
        self._step = Recorder(self._update) if self.may_record() else self._update

    def step(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """One step on a batch x (R, B, d_0), y (R, B); returns statistics, (R, .) each, if there are any."""
        progress = min(1.0, self.steps_taken / max(1, self.steps_planned))
        self.schedule.fill_(0.5 * (1 + math.cos(math.pi * progress)))
        self.steps_taken += 1
        return self._step(self._with_runs(x), y)

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
        self.theta.sub_(step)
        self.moved(step)
        return statistics

    def end_task(self, task: TaskData) -> None:
        """Take in what has to be remembered of the task; its data may be forgotten afterwards."""
        self.head_policy.end(task)
        self.consolidate(task)
        if self.remembered is not None:
            self.remembered.consolidate(task)
        self.tasks_seen += 1

    def logits(self, x: Tensor, classes: slice) -> Tensor:
        """Free (uncontrolled) outputs (R, B, len(classes)) for x (R, B, d_0) or, shared by all runs, (B, d_0)."""
        return forward(self.layers.active(classes), self.sigma, self._with_runs(x)).z

    def parts(self) -> dict[str, Part]:
        """What has a state beside the parameters, by name. A method that keeps something adds it here."""
        found: dict[str, Part] = {"optimiser": self.optimiser, "head": self.head_policy}
        return found if self.remembered is None else found | {"remembered": self.remembered}

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that determines what the learner does next, as plain tensors."""
        position = [self.steps_planned, self.steps_taken, self.tasks_seen, self.active.start, self.active.stop]
        state = {"theta": self.theta, "position": torch.tensor(position)}
        for name, part in self.parts().items():
            state |= {f"{name}.{key}": value for key, value in part.state_dict().items()}
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over a state; the learner must have been made with the same sizes, runs and options."""
        missing, extra = self.state_dict().keys() - state.keys(), state.keys() - self.state_dict().keys()
        if missing or extra:
            raise EFCError(f"state: missing {sorted(missing)}, unexpected {sorted(extra)}")
        if state["theta"].shape != self.theta.shape:
            raise EFCError(f"state: theta is {tuple(state['theta'].shape)}, expected {tuple(self.theta.shape)}")
        self.theta.copy_(state["theta"])
        self._step = Recorder(self._update) if self.may_record() else self._update
        self.gradient.zero_()
        self.steps_planned, self.steps_taken, self.tasks_seen, start, stop = state["position"].tolist()
        self.active = slice(start, stop)
        for name, part in self.parts().items():
            prefix = f"{name}."
            part.load_state_dict({k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)})

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

    def moved(self, step: Tensor) -> None:
        """Called after every step with what was subtracted from the parameters, (R, P)."""
        return None

    def consolidate(self, task: TaskData) -> None:
        """Remember a finished task. By default nothing is."""
        return None

    def may_record(self) -> bool:
        """Whether this learner's steps are recorded and replayed, which only a GPU can."""
        return self.theta.is_cuda and self.says_recordable()

    @classmethod
    def says_recordable(cls) -> bool:
        """Whether this very class, not one it is derived from, calls itself recordable."""
        return bool(cls.__dict__.get("recordable", False))

    # -- shared helpers ----------------------------------------------------------------------------------------------

    def initial(self, dtype: torch.dtype) -> Tensor:
        """The parameters each run starts from, drawn from its seed."""
        return initialise(self.layout, [torch.Generator().manual_seed(seed) for seed in self.seeds], dtype)

    def one_hot(self, y: Tensor, classes: slice) -> Tensor:
        """One-hot targets over ``classes`` for integer outputs ``y``."""
        indices = torch.arange(classes.start, classes.stop, device=y.device)
        return (y.unsqueeze(-1) == indices).to(self.theta.dtype)

    def passes(self, task: TaskData, classes: slice) -> Iterator[tuple[Tensor, Tensor]]:
        """The whole task in chunks: x (R, B, d_0), one-hot y over ``classes`` (R, B, C)."""
        for x, y in zip(task.x.split(CHUNK), task.y.split(CHUNK), strict=True):
            yield self._with_runs(x), self.one_hot(y, classes).expand(self.runs, -1, -1)

    def per_run(self, name: str, value: PerRun) -> Tensor:
        """An option as (R, 1, 1), whether it was given once or once per run."""
        return per_run(name, value, self.runs, self.theta)

    def _with_runs(self, x: Tensor) -> Tensor:
        x = x.to(self.theta.dtype)
        return x if x.dim() == 3 else x.expand(self.runs, -1, -1)
