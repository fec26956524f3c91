"""One learner on classes that arrive over time: what the estimators and the torch module have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import SupportsIndex, TypedDict

import torch
from torch import Tensor

from efc.classifiers.carry import lasting_state, take_over
from efc.classifiers.diagnosis import TaskFacts, facts, subset
from efc.core.activations import ACTIVATIONS
from efc.core.network import Parameters, forward
from efc.environment import pick_device
from efc.errors import EFCError, choose
from efc.learners import GradientLearner, Learner, Options, TaskData, find_learner
from efc.learners.base import CHUNK
from efc.learners.head_policies import AnalyticHead
from efc.learners.options import Values
from efc.learners.state import Generators
from efc.training.loop import batches, few_threads


@dataclass(frozen=True)
class Setup:
    """What a learner is made of, and how it is trained; checked when it is made.

    Args:
        n_features: length of an input.
        hidden: widths of the hidden layers.
        method: name of the method, or one's own as ``module:Class``.
        head: name of the head policy.
        activation: name of the hidden units' activation.
        epochs: passes over each task's data.
        batch_size: samples in a step.
        seed: of the initial weights, and of the order of samples.
        device: ``cpu``, ``cuda``, ``cuda:N`` or ``auto``.
        dtype: ``torch.float32`` or ``torch.float64``.
        options: the method's options, those that are not to have their default value.
    """

    n_features: int
    hidden: tuple[int, ...]
    method: str = "efc"
    head: str = "analytic"
    activation: str = "relu"
    epochs: int = 20
    batch_size: int = 32
    seed: int = 0
    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    options: Values = field(default_factory=dict)

    def __post_init__(self) -> None:
        for width in self.hidden:
            whole("hidden layer sizes", width)
        for name in ("n_features", "epochs", "batch_size"):
            whole(name, getattr(self, name))
        choose("activation", self.activation, ACTIVATIONS)
        choose("head", self.head, self.learner_type.heads)
        if self.dtype not in (torch.float32, torch.float64):
            raise EFCError(f"dtype: the learner computes in float32 or float64, not {self.dtype}")
        _ = self.checked  # a mistake in the options is told at once

    @property
    def learner_type(self) -> type[Learner]:
        return find_learner(self.method)

    @cached_property
    def checked(self) -> Options:
        """The options, parsed once."""
        return self.learner_type.options_type.from_mapping(self.options)

    def lasting(self) -> dict[str, object]:
        """What must be the same from task to task."""
        names, checked = ("n_features", "method", "head", "activation", "seed"), self.checked
        options = {key: value for key, value in checked.named(self.options).items() if key not in checked.changeable()}
        options["pull"] = checked.remembers  # with no pull at all, no activity is remembered
        return {"hidden layer sizes": self.hidden, **{name: getattr(self, name) for name in names}, "options": options}

    def make(self, n_outputs: int) -> Learner:
        return self.learner_type(
            (self.n_features, *self.hidden, n_outputs),
            [self.seed],
            self.checked,
            head=self.head,
            activation=self.activation,
            device=pick_device(self.device),
            dtype=self.dtype,
        )


def usual_head(method: str) -> str:
    """The head policy of whoever names none: the one that follows the features, where the method takes it."""
    learner = find_learner(method)
    return "input_compensated" if "input_compensated" in learner.heads else learner.shipped_head


def usual_options(standardise: bool) -> dict[str, object]:
    """The options of whoever names none: for data of any scale, and features that are kept only if they help."""
    return {"inputs": "standardised" if standardise else "raw", "drift": "checked", "skip": "on"}


def whole(name: str, value: object, least: int = 1) -> int:
    """A whole number of at least ``least``; numpy's count too."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or int(value) < least:
        raise EFCError(f"{name}: must be a whole number of at least {least}, got {value!r}")
    return int(value)


class Pickled(TypedDict):
    """What of a :class:`Growing` goes into a pickle."""

    setup: Setup
    state: dict[str, Tensor]


class Growing:
    """A learner that is given one task after another, each with any classes, old and new.

    Classes are numbered by the caller in the order in which they appear; a new one takes the head's next output. A task
    that fails, or is interrupted, leaves everything as it was before it.

    Args:
        setup: what the learner is made of, and how it is trained.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.learner: Learner | None = None
        self.tasks: list[list[int]] = []
        """The outputs each task was about."""
        self.generators = Generators([setup.seed], purpose=1)
        self.kept: tuple[Tensor, Tensor] | None = None
        """All tasks' data, for a method that is to be given them again (joint)."""
        self.counts = torch.zeros(0, dtype=torch.long)
        """Samples of each output so far."""
        self.heat = torch.zeros(2, dtype=torch.float64)
        """Sum over samples of their task's temperature, and their number."""
        setup.make(1)  # a mistake in the options is told before there are any data

    @property
    def n_outputs(self) -> int:
        return 0 if self.learner is None else int(self.learner.layout.sizes[-1])

    @property
    def device(self) -> torch.device:
        return pick_device(self.setup.device) if self.learner is None else self.learner.theta.device

    def adopt(self, setup: Setup) -> None:
        """Go on with other settings, as far as what is kept allows."""
        mine, given = self.setup.lasting(), setup.lasting()
        changed = [name for name in mine if mine[name] != given[name]]
        if changed:
            raise EFCError(f"{', '.join(changed)}: cannot be changed between two tasks; begin anew")
        self.setup = setup

    def learn(self, x: Tensor, y: Tensor) -> TaskFacts:
        """The next task: x (N, n_features) and the outputs y (N,); returns what is known of it when it is learned."""
        setup, known = self.setup, self.n_outputs
        outputs = sorted(set(y.tolist()))
        count = max(known, outputs[-1] + 1)
        if missing := [k for k in range(known, count) if k not in outputs]:
            raise EFCError(f"outputs: new ones must follow those there are, {missing} were left out")
        learner = self._continued(count)
        generators = Generators([setup.seed], purpose=1)
        generators.load_state_dict(self.generators.state_dict())
        x, y = x.to(learner.theta.device), y.to(learner.theta.device)
        given, brought = (x, y), torch.bincount(y.cpu(), minlength=count)
        before = torch.nn.functional.pad(self.counts, (0, count - known))
        new, kept = slice(known, count), None
        if learner.joint:  # it begins afresh: to it, all outputs are new
            new = slice(0, count)
            if self.kept is not None:
                x, y = torch.cat([self.kept[0].to(x), x]), torch.cat([self.kept[1].to(y), y])
            kept = (x, y)
        with few_threads(learner, setup.batch_size):
            unsettled = self._train(learner, x, y, new, generators)
        _check_finite(learner)
        self.learner, self.generators, self.kept = learner, generators, kept
        self.tasks, self.counts = [*self.tasks, outputs], before + brought
        self.heat = self.heat + _heat(learner, *given)
        some = subset(len(given[1])).to(given[1].device)
        return facts(brought, before, unsettled, self.exact_logits(given[0][some]), given[1][some].cpu())

    def _train(self, learner: Learner, x: Tensor, y: Tensor, new: slice, generators: Generators) -> float | None:
        """Returns the share of samples without equilibrium, where there is such a thing."""
        setup = self.setup
        unsettled: list[Tensor] = []
        held = held_out(y, generators) if setup.checked.drift == "checked" else None
        shown = torch.arange(len(y), device=y.device) if held is None else (~held).nonzero().flatten()
        steps = setup.epochs * -(-len(shown) // setup.batch_size)
        task = TaskData(x, y, active=slice(0, new.stop), new=new, steps=steps, held=held)
        learner.begin_task(task)
        for _ in range(setup.epochs if learner.takes_steps else 0):
            for some in batches(len(shown), setup.batch_size, generators.each, y.device):
                index = shown[some]
                statistics = learner.step(x[index], y[index])
                if "unsettled" in statistics:
                    unsettled.append(statistics["unsettled"].sum())
        _check_finite(learner)  # before features that are no good are taken back without a word
        learner.end_task(task)
        return float(torch.stack(unsettled).sum()) / (setup.epochs * len(shown)) if unsettled else None

    def _continued(self, n_outputs: int) -> Learner:
        """A new learner with that many outputs that knows what the present one does."""
        learner = self.setup.make(n_outputs)
        if self.learner is not None:
            take_over(learner, lasting_state(self.learner), self.n_outputs)
        return learner

    def logits(self, x: Tensor, task: int | None = None) -> Tensor:
        """(N, outputs) for x (N, n_features); with a task's number, -inf for the outputs that task was not about."""
        if self.learner is None:
            return x.new_zeros(len(x), 0)
        z = self.learner.logits(x.to(self.device), slice(0, self.n_outputs))[0]
        return z if task is None else z.masked_fill(~self._members(task).to(z.device), float("-inf"))

    def exact_logits(self, x: Tensor, task: int | None = None) -> Tensor:
        """The same in float64, brought to the CPU: there a sample's answer does not depend on its neighbours.

        In float32 it does, in the last digits, because a matrix product sums differently for other sizes.
        """
        learner = self.learner
        if learner is None or type(learner).logits not in (Learner.logits, GradientLearner.logits):
            return torch.cat([self.logits(part, task).double().cpu() for part in x.split(CHUNK)])
        theta = Parameters(*(tuple(t.double() for t in group) for group in learner.layers))
        ready = (learner.standardised(part.to(self.device), torch.float64)[None] for part in x.split(CHUNK))
        z = torch.cat([_outputs(learner, theta, part).cpu() for part in ready])
        return z if task is None else z.masked_fill(~self._members(task), float("-inf"))

    @property
    def temperature(self) -> float:
        """By what the outputs are divided before their softmax: a mean over the tasks' samples."""
        return float(self.heat[0] / self.heat[1]) if float(self.heat[1]) > 0 else 1.0

    def _members(self, task: int) -> Tensor:
        number = whole("task", task, least=0)
        if number >= len(self.tasks):
            raise EFCError(f"task: {number} is not among the {len(self.tasks)} learned so far, counted from 0")
        return membership([self.tasks[number]], self.n_outputs)[0]

    def to(self, device: torch.device | str, dtype: torch.dtype) -> None:
        """Move to a device, and compute in ``dtype`` from now on."""
        self.setup = replace(self.setup, device=str(device), dtype=dtype)
        self.load_state_dict(self.state_dict())

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that determines what comes next, as copies on the CPU."""
        state = {"tasks": membership(self.tasks, self.n_outputs), "counts": self.counts, "heat": self.heat}
        state |= self.generators.state_dict()
        if self.kept is not None:
            state |= {"kept.x": self.kept[0], "kept.y": self.kept[1]}
        if self.learner is not None:
            state |= {f"learner.{key}": value for key, value in lasting_state(self.learner).items()}
        return {key: value.detach().to("cpu", copy=True).contiguous() for key, value in state.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over the state of one with the same setup; what it has is replaced only if all of it fits."""
        if "tasks" not in state or "generators" not in state:
            raise EFCError("state: this is not the state of a learner whose head grows")
        tasks, learner, kept = state["tasks"].bool(), None, None
        if len(tasks):
            learner = self.setup.make(tasks.shape[1])
            prefix = "learner."
            own = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
            take_over(learner, own, tasks.shape[1])
            if learner.joint:
                kept = (state["kept.x"].to(learner.theta.device), state["kept.y"].to(learner.theta.device))
        generators = Generators([self.setup.seed], purpose=1)
        generators.load_state_dict({"generators": state["generators"]})
        self.learner, self.generators, self.kept = learner, generators, kept
        self.tasks = [row.nonzero().flatten().tolist() for row in tasks]
        nothing = torch.zeros(tasks.shape[1], dtype=torch.long)  # files of early versions do not say
        self.counts = state.get("counts", nothing).cpu().clone()
        self.heat = state.get("heat", torch.zeros(2, dtype=torch.float64)).cpu().clone()

    def __getstate__(self) -> Pickled:
        return {"setup": self.setup, "state": self.state_dict()}

    def __setstate__(self, given: Pickled) -> None:
        self.setup = given["setup"]
        self.load_state_dict(given["state"])


def _check_finite(learner: Learner) -> None:
    if not bool(torch.isfinite(learner.theta).all()):
        raise EFCError("training diverged: the weights are no longer finite; lower the learning rate, pull or beta")


def _heat(learner: Learner, x: Tensor, y: Tensor) -> Tensor:
    """What a task adds to ``Growing.heat``; nothing where the head is not solved for."""
    policy = learner.head_policy if isinstance(learner, GradientLearner) else None
    if not isinstance(policy, AnalyticHead):
        return torch.zeros(2, dtype=torch.float64)
    some = subset(len(y)).to(y.device)
    every = slice(0, int(learner.layout.sizes[-1]))
    task = TaskData(x[some], y[some], active=every, new=slice(0, 0), steps=0)
    n = float(len(y))
    return torch.stack([n * policy.temperature(task)[0].cpu(), torch.tensor(n, dtype=torch.float64)])


def _outputs(learner: Learner, theta: Parameters, x: Tensor) -> Tensor:
    """(B, outputs) for inputs (1, B, d) as the network gets them, with parameters of their precision."""
    z = forward(theta, learner.sigma, x).z
    if isinstance(learner, GradientLearner):
        beside = learner.head_policy.beside(x, slice(0, z.shape[-1]))
        z = z if beside is None else z + beside
    return z[0]


HELD = 0.2
"""The share of a task's samples that no step is taken on where its features are checked."""


def held_out(y: Tensor, generators: Generators) -> Tensor | None:
    """(N,): a fifth of every class's samples, drawn by chance; None where that would leave too few to say anything."""
    found = torch.zeros(len(y), dtype=torch.bool, device=y.device)
    for output in y.unique().tolist():
        members = (y == output).nonzero().flatten()
        drawn = torch.randperm(len(members), generator=generators.each[0])[: int(HELD * len(members))]
        found[members[drawn.to(members.device)]] = True
    return found if int(found.sum()) >= 10 else None


def membership(tasks: Sequence[Sequence[int]], n_outputs: int) -> Tensor:
    """(tasks, outputs): whether a task was about an output."""
    found = torch.zeros(len(tasks), n_outputs, dtype=torch.bool)
    for row, outputs in zip(found, tasks, strict=True):
        row[list(outputs)] = True
    return found
