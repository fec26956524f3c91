"""One learner on classes that arrive over time: what the estimators and the torch module have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import TypedDict

import torch
from torch import Tensor

from efc.classifiers.calibration import misfit_of, solved_for
from efc.classifiers.carry import lasting_state, take_over
from efc.classifiers.checks import check_shapes, check_size, check_state
from efc.classifiers.setup import Setup, whole
from efc.classifiers.units import check_numbers, cut_off, faint
from efc.core.network import Parameters, forward
from efc.environment import pick_device
from efc.errors import EFCError
from efc.learners import GradientLearner, Learner, TaskData
from efc.learners.arrivals import PIECE, WINDOW
from efc.learners.base import CHUNK
from efc.learners.readout import TRIED
from efc.learners.state import Generators
from efc.training.batches import ClassWeight, epoch_of, prepared
from efc.training.diagnosis import Finding, TaskFacts, answers, facts, far, subset
from efc.training.loop import few_threads

LARGEST = 1e200
"""Outputs beyond this are no answers: a softmax of them may not be finite."""


Heard = Callable[[int], None]


def nobody(epoch: int) -> None:
    """Who is told of epochs by default."""


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
        self.misfit = torch.zeros(TRIED, dtype=torch.float64)
        """For each temperature that the outputs may be divided by, how badly their softmax fitted the tasks so far."""
        self.unit = torch.ones(1, dtype=torch.float64)
        """What these temperatures are counted in, for the head as it is after the last task."""
        setup.make(1)  # a mistake in the options is told before there are any data

    @classmethod
    def restored(cls, setup: Setup, state: Mapping[str, Tensor]) -> Growing:
        """One with this setup and state; a setup that does not go with it is refused before a learner is made."""
        check_fit(setup, state)
        found = cls(setup)
        found.load_state_dict(state)
        return found

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

    def learn(self, x: Tensor, y: Tensor, class_weight: ClassWeight = None, heard: Heard = nobody) -> TaskFacts:
        """The next task: x (N, n_features) and the outputs y (N,); returns what is known of it when it is learned.

        ``heard`` is told of every epoch that is over, counted from 1.
        """
        setup, known = self.setup, self.n_outputs
        if setup.stream:
            raise EFCError("learn: this learner observes a stream, without tasks; begin anew to give it tasks")
        check_numbers(x)
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
            unsettled = self._train(learner, x, y, new, generators, class_weight, heard)
        _check_finite(learner)
        self.learner, self.generators, self.kept = learner, generators, kept
        self.tasks, self.counts = [*self.tasks, outputs], before + brought
        misfit, self.unit = misfit_of(learner, *given, class_weight)
        self.misfit = self.misfit + misfit
        some = subset(len(given[1])).to(given[1].device)
        told = answers(self.exact_logits(given[0][some])[None], given[1][some].cpu())
        return facts(brought, before, unsettled, told[0])

    def _train(
        self,
        learner: Learner,
        x: Tensor,
        y: Tensor,
        new: slice,
        generators: Generators,
        class_weight: ClassWeight,
        heard: Heard,
    ) -> float | None:
        """Returns the share of samples without equilibrium, where there is such a thing."""
        setup = self.setup
        unsettled: list[Tensor] = []
        given = TaskData(x, y, active=slice(0, new.stop), new=new, steps=0)
        task = prepared(given, learner, setup.epochs, setup.batch_size, class_weight)
        learner.begin_task(task)
        for epoch in range(setup.epochs if learner.takes_steps else 0):
            for index in epoch_of(task, setup.batch_size, generators.each):
                statistics = learner.step_on(task, index)
                if "unsettled" in statistics:
                    unsettled.append(statistics["unsettled"].sum())
            heard(epoch + 1)
        _check_finite(learner)  # before features that are no good are taken back without a word
        learner.end_task(task)
        return float(torch.stack(unsettled).sum()) / (setup.epochs * len(task.shown)) if unsettled else None

    def observe(self, x: Tensor, y: Tensor) -> None:
        """What has just arrived, x (B, n_features) and outputs y (B,), numbered as they appear; no task is meant."""
        if self.learner is None and not self.setup.stream:
            self.setup = replace(self.setup, stream=True)
        if not self.setup.stream:
            raise EFCError("observe: this learner has been given tasks; begin anew to let it learn from a stream")
        check_numbers(x)
        if len(y) == 0:
            return
        known, count = self.n_outputs, max(self.n_outputs, int(y.max()) + 1)
        learner = self.learner if self.learner is not None and count == known else self._continued(count)
        with few_threads(learner, PIECE):
            learner.observe(x.to(learner.theta.device), y)
        _check_finite(learner)
        brought = torch.bincount(y.cpu(), minlength=count)
        self.learner, self.tasks = learner, [list(range(count))]
        self.counts = torch.nn.functional.pad(self.counts, (0, count - known)) + brought

    def settle(self) -> None:
        """Bring the answers up to date with all that was observed."""
        if self.learner is not None:
            self.learner.settle()

    def fork(self) -> Growing:
        """Another one that goes on alike, bit for bit, and shares nothing that changes with this one."""
        found = object.__new__(Growing)
        found.__dict__ = self.__dict__ | {"learner": deepcopy(self.learner), "generators": deepcopy(self.generators)}
        return found

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

    def far(self, x: Tensor) -> list[Finding]:
        """Whether inputs (N, n_features) lie far outside what was learned from."""
        inputs = None if self.learner is None else self.learner.inputs
        return [] if inputs is None else far(inputs.far(x.detach().to(self.device)).cpu())

    def units(self, x: Tensor | None = None) -> list[Finding]:
        """What is wrong with the units of what was learned; ``x`` (N, n_features): what a stream has just brought."""
        learner = self.learner
        if learner is None or learner.inputs is None:
            return []
        fixed = learner.arrivals is not None and learner.arrivals.seen > WINDOW
        return [*faint(learner.inputs), *(cut_off(learner.inputs, x) if fixed and x is not None else [])]

    def check_answers(self) -> None:
        """Refuse weights that make outputs too large of inputs at the limits, or of plain ones where there are none."""
        if self.learner is not None and not self.setup.own_code:
            reach = 1.0 if self.learner.inputs is None else 1e30
            x = torch.tensor([0.0, reach, -reach], dtype=torch.float64)[:, None].expand(3, self.setup.n_features)
            if not bool((self.exact_logits(x).abs() < LARGEST).all()):
                raise EFCError("state: the weights are so large that the outputs are not finite")

    @property
    def temperature(self) -> float:
        """By what the outputs are divided before their softmax: the one that fitted all tasks so far best."""
        policy = solved_for(self.learner)
        if policy is None or not bool(self.misfit.any()):
            return 1.0
        return float(policy.readout.temperatures[self.misfit.argmin()] * self.unit)

    def probabilities(self, scores: Tensor) -> Tensor:
        """(N, classes) for outputs, -inf where a class is not possible: as ``predict_proba`` of the estimators says."""
        possible = torch.isfinite(scores).double()
        doubt = 1.0 / (float(self.counts.sum()) + 2.0)
        sure = torch.softmax(scores / self.temperature, 1)
        return (1 - doubt) * sure + doubt * possible / possible.sum(1, keepdim=True)

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
        state = {"tasks": membership(self.tasks, self.n_outputs), "counts": self.counts}
        state |= {"misfit": self.misfit, "unit": self.unit} | self.generators.state_dict()
        if self.kept is not None:
            state |= {"kept.x": self.kept[0], "kept.y": self.kept[1]}
        if self.learner is not None:
            state |= {f"learner.{key}": value for key, value in lasting_state(self.learner).items()}
        return {key: value.detach().to("cpu", copy=True).contiguous() for key, value in state.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over the state of one with the same setup; what it has is replaced only if all of it fits."""
        check_fit(self.setup, state)
        tasks, learner, kept = state["tasks"].bool(), None, None
        if len(tasks):
            prefix = "learner."
            own = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
            stream = any(key.startswith("arrivals.") for key in own)
            self.setup = replace(self.setup, stream=stream)
            learner = self.setup.make(tasks.shape[1])
            if stream:
                learner.begin_stream()
            if not self.setup.own_code:
                check_shapes(lasting_state(learner), own)
            take_over(learner, own, tasks.shape[1])
            if learner.joint:
                kept = (state["kept.x"].to(learner.theta.device), state["kept.y"].to(learner.theta.device))
                _check_kept(*kept, self.setup.n_features, tasks.shape[1])
        generators = Generators([self.setup.seed], purpose=1)
        generators.load_state_dict({"generators": state["generators"]})
        self.learner, self.generators, self.kept = learner, generators, kept
        self.tasks = [row.nonzero().flatten().tolist() for row in tasks]
        nothing = torch.zeros(tasks.shape[1], dtype=torch.long)  # files of early versions do not say
        self.counts = state.get("counts", nothing).cpu().clone()
        self.misfit = state.get("misfit", torch.zeros(TRIED, dtype=torch.float64)).cpu().clone()
        self.unit = state.get("unit", torch.ones(1, dtype=torch.float64)).cpu().clone()

    def __getstate__(self) -> Pickled:
        return {"setup": self.setup, "state": self.state_dict()}

    def __setstate__(self, given: Pickled) -> None:
        self.setup = given["setup"]
        self.load_state_dict(given["state"])


def check_fit(setup: Setup, state: Mapping[str, Tensor]) -> None:
    """Refuse a state that cannot be one of such a learner."""
    check_state(state, setup.own_code)
    if not setup.own_code and len(state["tasks"]):
        sizes = (setup.n_features, *setup.hidden, state["tasks"].shape[1])
        stored = sum(value.numel() * value.element_size() for value in state.values())
        check_size(setup.learner_type, sizes, setup.head, setup.checked, stored)


def _check_kept(x: Tensor, y: Tensor, n_features: int, n_outputs: int) -> None:
    if x.dim() != 2 or x.shape[1] != n_features or y.shape != x.shape[:1]:
        raise EFCError(f"state: kept.x {tuple(x.shape)} does not go with kept.y {tuple(y.shape)}")
    if not x.is_floating_point() or y.is_floating_point() or bool((y >= n_outputs).any()):
        raise EFCError(f"state: kept.x must hold numbers and kept.y outputs below {n_outputs}")


def _check_finite(learner: Learner) -> None:
    if not bool(torch.isfinite(learner.theta).all()):
        raise EFCError("training diverged: the weights are no longer finite; lower the learning rate, pull or beta")


def _outputs(learner: Learner, theta: Parameters, x: Tensor) -> Tensor:
    """(B, outputs) for inputs (1, B, d) as the network gets them, with parameters of their precision."""
    z = forward(theta, learner.sigma, x).z
    if isinstance(learner, GradientLearner):
        beside = learner.head_policy.beside(x, slice(0, z.shape[-1]))
        z = z if beside is None else z + beside
    return z[0]


def membership(tasks: Sequence[Sequence[int]], n_outputs: int) -> Tensor:
    """(tasks, outputs): whether a task was about an output."""
    found = torch.zeros(len(tasks), n_outputs, dtype=torch.bool)
    for row, outputs in zip(found, tasks, strict=True):
        row[list(outputs)] = True
    return found
