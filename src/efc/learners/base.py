"""The learner protocol: what every method has, whether it descends a gradient or solves for its weights at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from itertools import repeat
from typing import ClassVar

import torch
from torch import Tensor

from efc.core.activations import activation as find_activation
from efc.core.axis import PerRun, per_run
from efc.core.network import Layout, forward, initialise
from efc.core.task import TaskData
from efc.errors import EFCError, choose
from efc.learners.arrivals import Arrivals
from efc.learners.inputs import Change, FollowsInputs, Standardiser
from efc.learners.options import Options
from efc.learners.state import Generators, Part

SCATTER = 0.5
"""The deviation of the first layer's thresholds for standardised inputs."""
CHUNK = 1024
"""Samples per pass over a whole task (Fisher, head, evaluation)."""


class Learner(ABC):
    """R runs of one method, trained side by side in one process.

    A method that descends a gradient derives from :class:`~efc.learners.GradientLearner`; one that does not (a closed
    form) from this class, and learns in :meth:`consolidate`. Whoever trains it calls, for each task in turn,

    1. ``begin_task(task)``, before the first batch;
    2. ``step(x, y)`` for every batch of every epoch, if ``takes_steps``;
    3. ``end_task(task)``, which calls ``consolidate(task)``; the task's data may be forgotten afterwards.

    ``logits`` may be called at any time, ``state_dict`` and ``load_state_dict`` between any two of these calls.

    Where nobody knows of tasks, ``observe(x, y)`` is the whole protocol of a learner that ``streams``.

    Args:
        sizes: layer sizes, from the inputs over the hidden layers to the outputs of all tasks together.
        seeds: one per run; a run's initial weights and whatever else it draws come from its seed alone.
        options: hyper-parameters of the method; by default its own, ``options_type()``.
        head: name of the head policy, one of ``heads``; by default ``shipped_head``.
        activation: name of the hidden units' activation.
        device: where the parameters live.
        dtype: in what precision, ``torch.float32`` or ``torch.float64``.
    """

    name: ClassVar[str]
    """What the method is called in tables and settings; by default the class's name in small letters."""
    options_type: ClassVar[type[Options]] = Options
    heads: ClassVar[Collection[str]] = ("analytic",)
    """Head policies the method can be trained with; what solves for its head itself has an analytic one."""
    shipped_head: ClassVar[str] = "analytic"
    output: str = "softmax"
    """The loss: cross-entropy over the active classes, or (``linear``) half the squared error."""
    joint: ClassVar[bool] = False
    """Whether each task is to bring the data of all tasks before it: the upper bound, no continual method."""
    replays_old_classes: ClassVar[bool] = False
    """Whether samples of earlier tasks are trained on beside the batches."""
    takes_steps: ClassVar[bool] = False
    """Whether batches are of any use to it; true of a class that has a ``step``, unless it says otherwise."""
    recordable: ClassVar[bool] = False
    """Whether a step can be recorded as a CUDA graph: all it does is done by kernels, on tensors that stay in place.
    Not inherited: a subclass that changes the step has to say so itself."""
    streams: ClassVar[bool] = False
    """Whether it can learn without tasks, by :meth:`observe`. Not inherited either."""
    stream_head: ClassVar[str] = "analytic"
    """The head policy it is given where there are no tasks, unless another one is named."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__.lower()
        if "step" in cls.__dict__ and "takes_steps" not in cls.__dict__:
            cls.takes_steps = True

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
        if self.options.step == "natural" and (self.joint or not self.takes_steps):
            raise EFCError(f"step: {self.name} has nothing to remember while it learns; use 'plain'")
        self.head = choose("head", head or self.shipped_head, self.heads)
        self.activation = activation
        self.sigma = find_activation(activation)
        self.layout = Layout(tuple(sizes))
        self.seeds = list(seeds)
        self.runs = len(self.seeds)
        self.theta = self.initial(dtype).to(device)
        self.layers = self.layout.views(self.theta)
        standardised = self.options.inputs == "standardised"
        self.inputs = Standardiser(self.layout.sizes[0], device) if standardised else None
        self.scaled = self.options.inputs == "scaled"
        self.active = slice(0, 0)
        self.steps_planned = self.steps_taken = self.tasks_seen = 0
        self.arrivals: Arrivals | None = None
        self.set_up()

    # -- the protocol ------------------------------------------------------------------------------------------------

    def begin_task(self, task: TaskData) -> None:
        """Prepare for a task: what its inputs say of their scale is taken in first."""
        if self.inputs is not None and self.arrivals is None:
            if self.joint:  # all data come again, and training begins afresh
                self.inputs.reset()
            change = self.inputs.take_in(task.x)
            if change is not None:
                self.follow_inputs(change)
        self.active, self.steps_planned, self.steps_taken = task.active, task.steps, 0

    def step(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        """One step on a batch x (R, B, d_0), y (R, B); returns statistics, (R, .) each, if there are any.

        What takes no steps does nothing.
        """
        return {}

    def step_on(self, task: TaskData, index: Tensor) -> dict[str, Tensor]:
        """:meth:`step` on samples of the task that has begun, by their numbers (R, B)."""
        return self.step(task.x[index], task.y[index])

    def end_task(self, task: TaskData) -> None:
        """Take in what has to be remembered of the task; its data may be forgotten afterwards."""
        self.consolidate(task)
        self.tasks_seen += 1

    def observe(self, x: Tensor, y: Tensor) -> None:
        """Learn from what has just arrived, x (B, d_0) and outputs y (B,), for B down to one, all runs alike.

        No task begins or ends. Outputs are numbered as they first appear. How a stream is cut into batches makes no
        difference to what is learned.
        """
        self.begin_stream().take_in(x, y)

    def begin_stream(self) -> Arrivals:
        """Learn without tasks from now on; what stands between two batches."""
        if self.arrivals is None:
            self.check_streams(self.head)
            self.arrivals = Arrivals(self)
        return self.arrivals

    @classmethod
    def check_streams(cls, head: str) -> None:
        """Refuse what cannot learn without tasks."""
        if not cls.__dict__.get("streams", False):
            raise EFCError(f"{cls.name}: it needs tasks with a beginning and an end; without them it cannot learn")

    def settle(self) -> None:
        """Bring the answers up to date with all that was observed; without it they may lag by a few samples."""
        if self.arrivals is not None:
            self.arrivals.refresh(exact=True)

    def logits(self, x: Tensor, classes: slice) -> Tensor:
        """Free (uncontrolled) outputs (R, B, len(classes)) for x (R, B, d_0) or, shared by all runs, (B, d_0)."""
        return forward(self.layers.active(classes), self.sigma, self._with_runs(x)).z

    def follow_inputs(self, change: Change) -> None:
        """Inputs are standardised in another way from now on: what is kept follows."""
        change.weights(self.layout, self.theta)
        for part in self.parts().values():
            if isinstance(part, FollowsInputs):
                part.follow_inputs(change)

    def parts(self) -> dict[str, Part]:
        """What has a state beside the parameters, by name. A method that keeps something adds it here."""
        found: dict[str, Part] = {} if self.inputs is None else {"inputs": self.inputs}
        return found if self.arrivals is None else found | {"arrivals": self.arrivals}

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that determines what the learner does next, as plain tensors."""
        position = [self.steps_planned, self.steps_taken, self.tasks_seen, self.active.start, self.active.stop]
        state = {"theta": self.theta, "position": torch.tensor(position)}
        for name, part in self.parts().items():
            state |= {f"{name}.{key}": value for key, value in part.state_dict().items()}
        return state

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over a state; the learner must have been made with the same sizes, runs and options."""
        if any(key.startswith("arrivals.") for key in state):
            self.begin_stream()
        missing, extra = self.state_dict().keys() - state.keys(), state.keys() - self.state_dict().keys()
        if missing or extra:
            raise EFCError(f"state: missing {sorted(missing)}, unexpected {sorted(extra)}")
        if state["theta"].shape != self.theta.shape:
            raise EFCError(f"state: theta is {tuple(state['theta'].shape)}, expected {tuple(self.theta.shape)}")
        self.theta.copy_(state["theta"])
        self.steps_planned, self.steps_taken, self.tasks_seen, start, stop = state["position"].tolist()
        self.active = slice(start, stop)
        for name, part in self.parts().items():
            prefix = f"{name}."
            part.load_state_dict({k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)})

    # -- without tasks: what `Arrivals` asks for ---------------------------------------------------------------------

    def begin_afresh(self, window: TaskData) -> None:
        """Forget everything; ``window`` is all there was."""
        self.theta.copy_(self.initial(self.theta.dtype))
        self.active, self.tasks_seen = window.active, 0
        self.set_up()

    def meet(self, nothing: TaskData) -> None:
        """New outputs have appeared; their samples come next."""
        self.active = nothing.active

    def learn_piece(self, x: Tensor, y: Tensor) -> None:
        """A few samples x (B, d_0), y (B,)."""
        return None

    def close_window(self, window: TaskData) -> None:
        """Remember what is to be remembered of the last samples; they may be forgotten afterwards."""
        return None

    def open_window(self, nothing: TaskData) -> None:
        """The next samples are about to come."""
        return None

    def collect(self, some: TaskData) -> None:
        """Add samples to the moments of what is solved for."""
        return None

    def answer(self, top: int, afresh: bool) -> None:
        """Solve for what is solved for, with outputs up to ``top``; ``afresh``: with a ridge chosen anew."""
        return None

    # -- what a method adds ------------------------------------------------------------------------------------------

    def set_up(self) -> None:
        """Called when all that the arguments give is in place: make what the method has beside the parameters. What
        learns without tasks may call it again, to begin afresh.

        A subclass that has a base with a ``set_up`` of its own calls that first.
        """
        return None

    @property
    def holds_out(self) -> bool:
        """Whether it wants some samples of each task not to be stepped on: ``TaskData.held``."""
        return False

    @abstractmethod
    def consolidate(self, task: TaskData) -> None:
        """Remember a finished task, or learn it as a whole."""

    def measures(self, x: Tensor) -> dict[str, Tensor]:
        """What the method has to report of itself after training, (R, .) each; ``x`` (B, d_0) are inputs of the last
        task. Goes into the results beside the accuracies."""
        return {}

    @classmethod
    def numbers_kept(cls, samples: int, sizes: Sequence[int], options: Options) -> int:
        """How many float32-sized numbers per run it keeps beside parameters, optimiser and head, for ``samples`` of
        training data in all: what decides how many runs fit into memory side by side."""
        return 0

    @classmethod
    def says_recordable(cls) -> bool:
        """Whether this very class, not one it is derived from, calls itself recordable."""
        return bool(cls.__dict__.get("recordable", False))

    # -- shared helpers ----------------------------------------------------------------------------------------------

    def initial(self, dtype: torch.dtype) -> Tensor:
        """The parameters each run starts from, drawn from its seed.

        Where inputs are standardised, the first layer's units have their thresholds scattered over the cloud of inputs:
        with none, all of them would lie at its centre.
        """
        generators = [torch.Generator().manual_seed(seed) for seed in self.seeds]
        theta = initialise(self.layout, generators, dtype, self.options.initial)
        if self.options.inputs == "standardised" and len(self.layout.sizes) > 2:
            drawn = Generators(self.seeds, purpose=3).normal(self.layout.sizes[1])
            self.layout.views(theta).biases[0].copy_(SCATTER * drawn)
        return theta

    def one_hot(self, y: Tensor, classes: slice) -> Tensor:
        """One-hot targets over ``classes`` for integer outputs ``y``."""
        indices = torch.arange(classes.start, classes.stop, device=y.device)
        return (y.unsqueeze(-1) == indices).to(self.theta.dtype)

    def passes(self, task: TaskData, classes: slice) -> Iterator[tuple[Tensor, Tensor]]:
        """The whole task in chunks: x (R, B, d_0), one-hot y over ``classes`` (R, B, C)."""
        for x, y in zip(task.x.split(CHUNK), task.y.split(CHUNK), strict=True):
            yield self._with_runs(x), self.one_hot(y, classes).expand(self.runs, -1, -1)

    def weighted(self, task: TaskData, classes: slice) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
        """The same, and what each sample counts, (B,); None where all count the same."""
        weights = repeat(None) if task.weights is None else task.weights.split(CHUNK)
        for (x, y), counts in zip(self.passes(task, classes), weights, strict=False):
            yield x, y, counts

    def per_run(self, name: str, value: PerRun) -> Tensor:
        """An option as (R, 1, 1), whether it was given once or once per run."""
        return per_run(name, value, self.runs, self.theta)

    def standardised(self, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Inputs (..., d_0) as the network gets them, scaled or not, in its precision or in ``dtype``."""
        dtype = dtype or self.theta.dtype
        if self.scaled:
            return (x.to(dtype) - self.options.input_mean) / self.options.input_deviation
        return x.to(dtype) if self.inputs is None else self.inputs(x, dtype)

    def _with_runs(self, x: Tensor) -> Tensor:
        x = self.standardised(x)
        return x if x.dim() == 3 else x.expand(self.runs, -1, -1)
