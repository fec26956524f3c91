"""Equilibrium Fisher Control: learning and preservation compete in the activity, the weights follow the equilibrium."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from efc.core.control import FEEDBACKS, FORMS, HEAD_RULES, TARGETS, Controller, Dynamics, PerRun
from efc.core.fisher import accumulate, diagonal_fisher
from efc.core.learned_feedback import FeedbackLearning, alignment, jacobian_transpose
from efc.core.network import Parameters
from efc.core.outputs import OUTPUTS
from efc.core.plasticity import ON_FAILURE, weight_change
from efc.core.preservation import NORMALISE, Callback, Quadratic, Regulariser, strengths
from efc.core.solvers import SOLVERS, make_solver
from efc.core.system import build
from efc.errors import EFCError, suggest
from efc.learners.base import Learner, TaskData
from efc.learners.options import Options, choice, mapping, number


@dataclass(frozen=True)
class EFCOptions(Options):
    """The symbols are the paper's; the defaults are what the validation split of Split-Digits preferred."""

    lr: PerRun = number(1e-4, doc="learning rate at the start of each task; it falls to zero along a cosine")
    beta: PerRun = number(10.0, inclusive=True, doc="strength of preservation")
    head_beta: PerRun = number(10.0, inclusive=True, doc="further factor of the head's preservation")
    normalise: str = choice("none", NORMALISE, doc="divide a neuron's preservation by its Fisher norm")
    kappa: PerRun = number(0.1, inclusive=True, doc="total gain of the controller, 1/alpha + k_p")
    k_p: PerRun = number(0.0, inclusive=True, doc="proportional part of the gain")
    lam: PerRun = number(0.01, inclusive=True, high=1.0, doc="how far the weak target lies from the free output")
    target: str = choice("weak", TARGETS, doc="weak: r* = p - lambda (p - y); strong: r* = y")
    feedback: str = choice("jacobian", FEEDBACKS)
    output: str = choice("softmax", OUTPUTS)
    form: str = choice("multiplicative", FORMS, doc="how control meets a neuron")
    head_rule: str = choice("signal", HEAD_RULES)
    solver: str = choice("anderson", tuple(SOLVERS))
    solver_options: Mapping[str, Any] = mapping("tol, max_steps, damping, ... of the solver")
    on_failure: str = choice("keep", ON_FAILURE, doc="whether a sample that did not settle counts")
    feedback_options: Mapping[str, Any] = mapping("rate, steps, noise, ... of learned feedback")
    feedback_warm_up: int = number(50, inclusive=True, doc="bouts of noise before each task (learned feedback)")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.feedback_warm_up != int(self.feedback_warm_up):
            raise EFCError(f"feedback_warm_up: must be a whole number, got {self.feedback_warm_up}")
        make_solver(self.solver, **self.solver_options)
        known = FeedbackLearning.__dataclass_fields__
        for key in self.feedback_options:
            if key not in known:
                raise EFCError(
                    f"feedback_options.{key}: no such option{suggest(key, known)}; there are {', '.join(known)}"
                )


class EFC(Learner):
    """Solve each batch's equilibrium and change the weights by the local rule read off it.

    ``preservation`` is ``"ewc"`` (the diagonal Fisher, summed over tasks, and the newest weights as anchor), or one's
    own function from :class:`~efc.core.Parameters` to their ``dR/dW`` and ``dR/db``.
    """

    name = "efc"
    options_type = EFCOptions
    options: EFCOptions

    def __init__(
        self,
        *args: Any,
        preservation: str | Callable[[Parameters], Parameters] = "ewc",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        o = self.options
        if not callable(preservation) and preservation != "ewc":
            raise EFCError(f"preservation: expected 'ewc' or a function, got {preservation!r}")
        self.dynamics = Dynamics(self.activation, o.output, o.feedback, o.form)
        self.controller = Controller.from_gain(self._per_run("kappa", o.kappa), self._per_run("k_p", o.k_p))
        self.lam = self._per_run("lam", o.lam)
        if o.feedback == "learned" and len(self.layout.sizes) < 3:
            raise EFCError("feedback: 'learned' needs a hidden layer to learn feedback to; use 'jacobian'")
        self.solver = make_solver(o.solver, **o.solver_options)
        self.beta, self.head_beta = self._per_run("beta", o.beta), self._per_run("head_beta", o.head_beta)
        self.fisher = torch.zeros_like(self.theta)
        self.anchor = torch.zeros_like(self.theta)
        self.custom = Callback(preservation, self.layout) if callable(preservation) else None
        self.factor = self._factor() if self.custom is not None else torch.zeros_like(self.theta)
        self.feedback = LearnedFeedback(self) if o.feedback == "learned" else None

    def begin_task(self, task: TaskData) -> None:
        super().begin_task(task)
        if self.feedback is not None:
            self.feedback.warm_up(task)

    def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        theta = self.layers.active(self.active)
        system = build(
            self.dynamics,
            theta,
            x,
            y,
            self.controller,
            lam=self.lam,
            target=self.options.target,
            terms=self._terms(),
            Q=() if self.feedback is None else self.feedback.update(theta, x),
        )
        solution = self.solver.solve(system)
        out = self.layout.views(self.gradient)
        weight_change(solution, out.active(self.active), self.options.head_rule, self.options.on_failure)
        self.gradient.neg_()
        return {"unsettled": (~solution.settled).sum(1), "sweeps": solution.iterations.double().mean(1)}

    def consolidate(self, task: TaskData) -> None:
        if self.custom is not None:
            return
        new = diagonal_fisher(
            self.layout, self.theta, self.sigma, self.passes(task, task.active), task.active, self.options.output
        )
        self.fisher = accumulate(self.fisher, new) if self.tasks_seen > 0 else new
        self.anchor = self.theta.clone()
        self.factor = self._factor()

    def feedback_alignment(self, x: Tensor) -> Tensor:
        """Cosine between the learned feedback and ``J^T`` on inputs ``x``: (R, L-1), per run and hidden layer."""
        if self.feedback is None:
            raise EFCError(f"feedback: only 'learned' feedback has an alignment, this is {self.options.feedback!r}")
        theta = self.layers.active(self.active)
        return alignment(self.feedback.active(), jacobian_transpose(theta, self.sigma, self._with_runs(x)))

    def state_dict(self) -> dict[str, Tensor]:
        state = super().state_dict() | {"fisher": self.fisher, "anchor": self.anchor}
        return state if self.feedback is None else state | self.feedback.state_dict()

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        super().load_state_dict(state)
        self.fisher = state["fisher"].to(self.theta).clone()
        self.anchor = state["anchor"].to(self.theta).clone()
        if self.custom is not None or self.tasks_seen > 0:
            self.factor = self._factor()
        if self.feedback is not None:
            self.feedback.load_state_dict(state)

    def _regulariser(self) -> Regulariser:
        return Quadratic(self.fisher, self.anchor) if self.custom is None else self.custom

    def _factor(self) -> Tensor:
        importance = self._regulariser().importance
        return strengths(self.layout, self.beta, self.head_beta, self.options.normalise, importance)

    def _terms(self) -> Parameters | None:
        """``beta G`` cut to the active classes; None before there is anything to preserve."""
        if self.custom is None and self.tasks_seen == 0:
            return None
        return self.layout.views(self.factor * self._regulariser().gradient(self.theta)).active(self.active)


class LearnedFeedback:
    """The feedback weights of all classes, and the noise that trains them."""

    def __init__(self, learner: EFC) -> None:
        self.learner = learner
        self.rule = FeedbackLearning(**learner.options.feedback_options)
        hidden, C = learner.layout.sizes[1:-1], learner.layout.sizes[-1]
        self.Q = [learner.theta.new_zeros(learner.runs, d, C) for d in hidden]
        # Not the seeds of the weights, or the noise would repeat the numbers the weights were drawn from.
        self.generators = [torch.Generator().manual_seed(1_000_003 * seed + 2) for seed in learner.seeds]

    def active(self) -> list[Tensor]:
        return [Q[..., self.learner.active] for Q in self.Q]

    def update(self, theta: Parameters, x: Tensor) -> Sequence[Tensor]:
        """One bout of noise on a batch; returns the feedback weights of the active classes."""
        bout = self.rule.update(self.active(), theta, self.learner.sigma, x, self.generators)
        for Q, new in zip(self.active(), bout, strict=True):
            Q.copy_(torch.where(torch.isfinite(new), new, Q))  # a sample that is not finite teaches nothing
        return self.active()

    def warm_up(self, task: TaskData) -> None:
        theta = self.learner.layers.active(self.learner.active)
        x = next(self.learner.passes(task, task.active))[0][:, :256]
        for _ in range(int(self.learner.options.feedback_warm_up)):
            self.update(theta, x)

    def state_dict(self) -> dict[str, Tensor]:
        state = {f"feedback.{i}": Q for i, Q in enumerate(self.Q)}
        return state | {"feedback.generators": torch.stack([g.get_state() for g in self.generators])}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for i, Q in enumerate(self.Q):
            Q.copy_(state[f"feedback.{i}"])
        for generator, s in zip(self.generators, state["feedback.generators"], strict=True):
            generator.set_state(s.cpu().clone())  # a state must own its memory: a row of a larger tensor crashes torch
