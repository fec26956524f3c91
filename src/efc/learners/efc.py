"""Equilibrium Fisher Control: learning and preservation compete in the activity, the weights follow the equilibrium."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from efc.core.axis import PerRun
from efc.core.control import FEEDBACKS, FORMS, HEAD_RULES, TARGETS, Controller, Dynamics
from efc.core.learned_feedback import FeedbackLearning, alignment, jacobian_transpose
from efc.core.network import Parameters, mean_loss_gradient
from efc.core.outputs import OUTPUTS, loss_gradient
from efc.core.plasticity import ON_FAILURE, weight_change
from efc.core.preservation import NORMALISE, Callback, Regulariser, strengths, terms
from efc.core.solution import Solution
from efc.core.solvers import SOLVERS, make_solver
from efc.core.system import System, build
from efc.core.task import TaskData
from efc.errors import EFCError, choose, suggest
from efc.learners.activity import head_pull_option, pull_option
from efc.learners.ewc import EWCMemory
from efc.learners.full_fisher import FullFisherMemory
from efc.learners.gradient import GradientLearner
from efc.learners.inputs import Change
from efc.learners.l2 import L2Memory
from efc.learners.mas import MASMemory
from efc.learners.memory import Memory
from efc.learners.online_ewc import OnlineEWCMemory, RunningEWCMemory
from efc.learners.options import Options, Values, choice, function_or, learning_rate, mapping, number
from efc.learners.penalty import add_active
from efc.learners.si import SIMemory
from efc.learners.state import Generators, Part
from efc.learners.variants import ABLATIONS
from efc.plugins import load_object

MEMORIES: dict[str, type[Memory]] = {
    "running_ewc": RunningEWCMemory,
    "ewc": EWCMemory,
    "online_ewc": OnlineEWCMemory,
    "si": SIMemory,
    "mas": MASMemory,
    "l2": L2Memory,
    "full_fisher": FullFisherMemory,
}
"""The regularisers that EFC's preservation may be made of, by name."""
Preservation = str | Callable[[Parameters], Parameters]
"""The name of a regulariser, or a function from the parameters to its ``dR/dW`` and ``dR/db``."""

SOLVING: Mapping[str, Values] = {"anderson": {"max_steps": 4}}
"""Options a solver is given for training unless the user says otherwise: in weak feedback three sweeps settle all but
samples with a flipping ReLU, which nothing settles (docs/performance.md)."""

AT_ONCE, LEAST = 2**17, 256
"""Rates of the widest layer that a CPU solves for at once, as its cache holds them, but no fewer samples of a run."""


@dataclass(frozen=True)
class EFCOptions(Options):
    """The symbols are the paper's. The defaults are one setting for all streams, chosen on validation data of four
    (docs/tried.md); those of the paper's own method are the variant ``paper``.

    Args:
        lr: the learning rate at a task's start.
        variant: a named variant, one of ``ABLATIONS``: its values stand in for the options that are not given.
        preservation: the regulariser that gamma is made of, one of ``MEMORIES``, or one's own function.
        pull: weight p of the pull of remembered activity.
        head_pull: further factor of the head's pull.
        beta: strength of the preservation signal gamma.
        head_beta: further factor of the head's preservation signal.
        anchor: strength of a pull of each weight itself, beside its neuron's signal.
        decay: what is left of old importances (``online_ewc``).
        damping: xi of the path integral (``si``).
        normalise: in what units importances and beta are: ``relative``, ``none`` or ``neuron``.
        kappa: total gain of the controller, ``1/alpha + k_p``.
        k_p: proportional part of the gain.
        lam: how far the weak target lies from the free output.
        target: ``weak``, ``r* = p - lambda (p - y)``, or ``strong``, ``r* = y``.
        feedback: ``jacobian``, ``least_control`` or ``learned``.
        output: ``softmax``, ``linear`` or ``linear_ce``.
        form: how control meets a neuron: ``multiplicative``, ``additive`` or ``bounded``.
        head_rule: what the head learns from: its ``signal``, its ``rates``, or nothing (``frozen``).
        solver: name of the solver of the equilibrium.
        solver_options: its ``tol``, ``max_steps``, ``damping``, ...
        on_failure: whether a sample that did not settle counts (``keep``) or not (``zero``).
        feedback_options: ``rate``, ``steps``, ``noise``, ... of learned feedback.
        feedback_warm_up: bouts of noise before each task (learned feedback).

    The others are those of :class:`~efc.learners.Options`.
    """

    variants: ClassVar[Mapping[str, Values]] = ABLATIONS

    lr: PerRun = learning_rate(3e-3)
    variant: str = choice("none", ("none", *ABLATIONS), doc="a named variant: sets other options that were not given")
    preservation: Preservation = function_or(
        "running_ewc", tuple(MEMORIES), doc="the regulariser, or one's own function, as module:name in files"
    )
    pull: PerRun = pull_option()
    head_pull: PerRun = head_pull_option()
    beta: PerRun = number(
        0.003,
        inclusive=True,
        search=(1e-5, 1e1),
        doc="strength of the preservation signal gamma",
        changeable=True,
    )
    head_beta: PerRun = number(1.0, inclusive=True, doc="further factor of the head's preservation signal")
    anchor: PerRun = number(
        0.0,
        inclusive=True,
        doc="strength of a pull of each weight itself, beside its neuron's; in the head times head_beta",
    )
    decay: PerRun = number(1.0, inclusive=True, high=1.0, doc="what is left of old importances (online_ewc)")
    damping: PerRun = number(1e-3, doc="xi of the path integral (si)")
    normalise: str = choice(
        "relative", NORMALISE, doc="relative to the mean importance and the learning signal; none; by neuron's norm"
    )
    kappa: PerRun = number(0.1, inclusive=True, doc="total gain of the controller, 1/alpha + k_p")
    k_p: PerRun = number(0.0, inclusive=True, doc="proportional part of the gain")
    lam: PerRun = number(0.01, inclusive=True, high=1.0, doc="how far the weak target lies from the free output")
    target: str = choice("weak", TARGETS, doc="weak: r* = p - lambda (p - y); strong: r* = y")
    feedback: str = choice("jacobian", FEEDBACKS)
    output: str = choice("softmax", OUTPUTS)
    form: str = choice("multiplicative", FORMS, doc="how control meets a neuron")
    head_rule: str = choice("signal", HEAD_RULES)
    solver: str = choice("anderson", tuple(SOLVERS))
    solver_options: Values = mapping("tol, max_steps, damping, ... of the solver")
    on_failure: str = choice("keep", ON_FAILURE, doc="whether a sample that did not settle counts")
    feedback_options: Values = mapping("rate, steps, noise, ... of learned feedback")
    feedback_warm_up: int = number(
        50, inclusive=True, per_run=False, whole=True, doc="bouts of noise before each task (learned feedback)"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        make_solver(self.solver, **self.solver_options)
        known = FeedbackLearning.__dataclass_fields__
        for key in self.feedback_options:
            if key not in known:
                raise EFCError(
                    f"feedback_options.{key}: no such option{suggest(key, known)}; there are {', '.join(known)}"
                )


class EFC(GradientLearner):
    """Solve each batch's equilibrium and change the weights by the local rule read off it.

    Two things preserve old tasks. In the equilibrium the signal gamma (``beta``), made of a regulariser:
    ``preservation`` (an option, or given here) is one of ``MEMORIES`` or one's own function from
    :class:`~efc.core.Parameters` to their ``dR/dW`` and ``dR/db``. On the weight change the pull of remembered activity
    (``pull``), ``dW -= p lambda kappa (W - W*) A``. With ``anchor`` > 0 every weight is also pulled itself:
    ``dW -= anchor * dR/dW`` (in the head ``anchor * head_beta``), beside the signal its neuron receives.

    Args:
        sizes: layer sizes, from the inputs over the hidden layers to the outputs of all tasks together.
        seeds: one per run; a run's initial weights and whatever else it draws come from its seed alone.
        options: the hyper-parameters.
        head: name of the head policy; by default ``shipped_head``.
        activation: name of the hidden units' activation.
        device: where the parameters live.
        dtype: in what precision, ``torch.float32`` or ``torch.float64``.
        preservation: takes the place of the option of this name; here it may be any function, also one that no file
            could name.
    """

    name = "efc"
    recordable = True
    streams = True
    stream_head = "input_compensated"
    options_type = EFCOptions
    options: EFCOptions

    def __init__(
        self,
        sizes: Sequence[int],
        seeds: Sequence[int],
        options: Options | None = None,
        head: str | None = None,
        activation: str = "relu",
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        *,
        preservation: Preservation | None = None,
    ) -> None:
        self.own_preservation = preservation
        super().__init__(sizes, seeds, options, head, activation, device, dtype)

    def set_up(self) -> None:
        super().set_up()
        o = self.options
        self.output = o.output
        self.dynamics = Dynamics(self.activation, o.output, o.feedback, o.form)
        gains = self.per_run("kappa", o.kappa), self.per_run("k_p", o.k_p)
        self.controller = Controller.from_gain(*gains).to(self.theta)
        self.lam = self.per_run("lam", o.lam)
        if o.feedback == "learned" and len(self.layout.sizes) < 3:
            raise EFCError("feedback: 'learned' needs a hidden layer to learn feedback to; use 'jacobian'")
        self.solver = make_solver(o.solver, **{**SOLVING.get(o.solver, {}), **o.solver_options})
        self.beta, self.head_beta = self.per_run("beta", o.beta), self.per_run("head_beta", o.head_beta)
        anchor = self.per_run("anchor", o.anchor)
        self.anchored = bool((anchor > 0).any())
        self.anchor = strengths(self.layout, anchor, self.head_beta, "none", None) if self.anchored else anchor
        given = o.preservation if self.own_preservation is None else self.own_preservation
        self.memory, self.regulariser = self._preservation(given)
        self.terms = torch.zeros_like(self.theta)
        self._set_strengths()
        self.feedback = LearnedFeedback(self) if o.feedback == "learned" else None
        self.loss_gradient = torch.zeros_like(self.theta) if self._follows_path() else None

    def begin_task(self, task: TaskData) -> None:
        super().begin_task(task)
        if self.memory is not None:
            self.memory.begin_task(self)
        if self.feedback is not None and len(task.y):
            self.feedback.warm_up(task)

    def may_record(self) -> bool:
        return super().may_record() and self.memory is not None and self.feedback is None and self.solver.recordable

    def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        theta = self.layers.active(self.active)
        pulls = self.preservation_terms()
        Q = () if self.feedback is None else self.feedback.update(theta, x)
        statistics: dict[str, Tensor] = {}
        for piece in self._pieces(x):
            for name, sums in self._settle(theta, pulls, Q, x, y, piece).items():
                statistics[name] = statistics[name] + sums if name in statistics else sums
        if pulls is not None and self.anchored:
            pull = self.anchor * self.regulariser.gradient(self.theta)
            add_active(self.layout, self.gradient, pull, self.active)
        return statistics

    def _pieces(self, x: Tensor) -> Iterator[slice]:
        """The batch x (R, B, d_0) in pieces that a CPU's cache holds; a GPU, and what counts shares, take it whole."""
        R, B, _ = x.shape
        whole = x.is_cuda or getattr(self.solver, "enough", 1.0) < 1
        most = B if whole else max(LEAST, AT_ONCE // (R * max(self.layout.sizes[1:])))
        size = -(-B // -(-B // most))  # pieces of one size, but for the last
        return (slice(start, min(start + size, B)) for start in range(0, B, size))

    def _settle(
        self, theta: Parameters, pulls: Parameters | None, Q: Sequence[Tensor], x: Tensor, y: Tensor, piece: slice
    ) -> dict[str, Tensor]:
        """Solve a piece of the batch, and add its share to the direction of descent; the piece's statistics."""
        share, add, x, y = (piece.stop - piece.start) / x.shape[1], piece.start > 0, x[:, piece], y[:, piece]
        o, out = self.options, self.layout.views(self.gradient).active(self.active)
        system = build(self.dynamics, theta, x, y, self.controller, self.lam, o.target, pulls, Q)
        solution = self.solver.solve(system)
        # An optimiser descends: it is handed minus the change.
        weight_change(solution, out, o.head_rule, o.on_failure, scale=-share, add=add)
        if self.loss_gradient is not None:
            self._back_propagate(system, y, self.loss_gradient, share, add)
        return _statistics(solution)

    def unit(self) -> Tensor:
        """The size of the learning signal, ``lambda kappa`` (strong target: ``kappa``), (R, 1, 1)."""
        kappa = self.controller.kappa
        return kappa if self.options.target == "strong" else self.lam * kappa

    def pull_strength(self) -> Tensor:
        return super().pull_strength() * self.unit()

    def held(self) -> Tensor | None:
        if self.options.head_rule != "frozen":
            return None
        found = torch.zeros_like(self.theta, dtype=torch.bool)
        layers = self.layout.views(found)
        layers.weights[-1].fill_(True)
        layers.biases[-1].fill_(True)
        return found

    def moved(self, step: Tensor) -> None:
        if self.memory is not None and self.loss_gradient is not None:
            self.memory.follow(self.loss_gradient, step)

    def consolidate(self, task: TaskData) -> None:
        if self.memory is not None:
            self.memory.consolidate(self, task)
            self._set_strengths()

    def follow_inputs(self, change: Change) -> None:
        super().follow_inputs(change)
        self._set_strengths()  # the importances have followed

    def preservation_terms(self) -> Parameters | None:
        """``beta dR/dtheta`` of the active classes; None before there is anything to preserve."""
        if self.memory is not None and self.tasks_seen == 0:
            return None
        if self.memory is not None and self.memory.quadratic:
            gradient = torch.sub(self.theta, self.memory.anchor, out=self.terms)
        else:
            gradient = self.regulariser.gradient(self.theta)
        return terms(self.layout, self.strengths, gradient, self.active, out=self.terms)

    def measures(self, x: Tensor) -> dict[str, Tensor]:
        """Learned feedback reports how well it points along ``J^T``."""
        return {} if self.feedback is None else {"feedback_alignment": self.feedback_alignment(x)}

    @classmethod
    def numbers_kept(cls, samples: int, sizes: Sequence[int], options: Options) -> int:
        memory = MEMORIES.get(str(getattr(options, "preservation", "")))
        kept = 0 if memory is None else memory.numbers_kept(samples, sizes)
        return kept + super().numbers_kept(samples, sizes, options)

    def feedback_alignment(self, x: Tensor) -> Tensor:
        """Cosine between the learned feedback and ``J^T`` on inputs ``x``: (R, L-1), per run and hidden layer."""
        if self.feedback is None:
            raise EFCError(f"feedback: only 'learned' feedback has an alignment, this is {self.options.feedback!r}")
        theta = self.layers.active(self.active)
        return alignment(self.feedback.active(), jacobian_transpose(theta, self.sigma, self._with_runs(x)))

    def parts(self) -> dict[str, Part]:
        found = super().parts()
        if self.memory is not None:
            found["memory"] = self.memory
        if self.feedback is not None:
            found["feedback"] = self.feedback
        return found

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self._set_strengths()

    def _preservation(self, given: Preservation) -> tuple[Memory | None, Regulariser]:
        """The memory, if there is one, and what gives ``dR/dtheta``."""
        if isinstance(given, str) and ":" in given:
            given = load_object("preservation", given)
        if callable(given):
            return None, Callback(given, self.layout)
        memory = MEMORIES[choose("preservation", given, MEMORIES)](self)
        return memory, memory

    def _set_strengths(self) -> None:
        """What turns dR/dtheta (for a quadratic R: ``theta - theta*``) into the terms; fixed between consolidations."""
        importance = self.regulariser.importance
        factor = strengths(self.layout, self.beta, self.head_beta, self.options.normalise, importance, self.unit())
        self.strengths = factor * self.memory.omega if self.memory is not None and self.memory.quadratic else factor

    def _follows_path(self) -> bool:
        return self.memory is not None and self.memory.follows_path

    def _back_propagate(self, system: System, y: Tensor, out: Tensor, share: float, add: bool) -> None:
        """The gradient of the loss in the free state, for a memory that follows the path of training (SI)."""
        delta_L = share * loss_gradient(self.output, system.free.z, y)
        if not add:
            out.zero_()
        layers = self.layout.views(out).active(self.active)
        mean_loss_gradient(system.theta, self.sigma, system.free, delta_L, layers, add)


def _statistics(solution: Solution) -> dict[str, Tensor]:
    """Sums over the batch: of samples that did not settle, of sweeps, of the signals' norms (R, 2 L), of samples lost.

    A CPU that has seen that none is lost does not count them.
    """
    found = {
        "unsettled": solution.result.sign().sum(1),  # converged is zero
        "sweeps": solution.iterations.sum(1),
        "effort": solution.effort(),
    }
    return found if solution.lost is None else found | {"lost": solution.lost.sum(1)}


class LearnedFeedback:
    """The feedback weights of all classes, and the noise that trains them."""

    def __init__(self, learner: EFC) -> None:
        self.learner = learner
        self.rule = FeedbackLearning(**learner.options.feedback_options)
        hidden, C = learner.layout.sizes[1:-1], learner.layout.sizes[-1]
        self.Q = [learner.theta.new_zeros(learner.runs, d, C) for d in hidden]
        self.generators = Generators(learner.seeds, purpose=2)

    def active(self) -> list[Tensor]:
        return [Q[..., self.learner.active] for Q in self.Q]

    def update(self, theta: Parameters, x: Tensor) -> Sequence[Tensor]:
        """One bout of noise on a batch; returns the feedback weights of the active classes."""
        bout = self.rule.update(self.active(), theta, self.learner.sigma, x, self.generators.each)
        for Q, new in zip(self.active(), bout, strict=True):
            Q.copy_(torch.where(torch.isfinite(new), new, Q))  # a sample that is not finite teaches nothing
        return self.active()

    def warm_up(self, task: TaskData) -> None:
        theta = self.learner.layers.active(self.learner.active)
        x = next(self.learner.passes(task, task.active))[0][:, :256]
        for _ in range(int(self.learner.options.feedback_warm_up)):
            self.update(theta, x)

    def state_dict(self) -> dict[str, Tensor]:
        return {str(i): Q for i, Q in enumerate(self.Q)} | self.generators.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for i, Q in enumerate(self.Q):
            Q.copy_(state[str(i)])
        self.generators.load_state_dict(state)
