"""The methods that are compared, each standing at ``theta_A*`` with task A remembered, and their way through task B."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from efc.core.control import Controller, Dynamics
from efc.core.network import Parameters
from efc.core.plasticity import postsynaptic
from efc.core.preservation import terms
from efc.core.solution import Solution
from efc.core.solvers import make_solver
from efc.core.system import System, build, free_preservation
from efc.learners import find_learner
from efc.learners.base import Learner
from efc.theory.rows import layers_of, outer_rows
from efc.theory.situation import BETA, HEAD_BETA, KAPPA, LAMBDA, Situation, batches, one_hot
from efc.training.loop import few_threads

METHODS = {
    "BP": ("sgd", ""),
    "EWC": ("ewc", "strength"),
    "FISH": ("full_fisher", "strength"),
    "EFC": ("efc-paper", "beta"),
    "EFC+A": ("efc", "pull"),
}
"""The paper's names: the learner, and the option that says how strongly task A is preserved.

EFC is the paper's. EFC+A is this package's: it remembers activity, too, and the strength is that of its pull.
"""
PAPERS = tuple(name for name in METHODS if name != "EFC+A")
"""The methods that the paper compares."""
FIXED = {"EFC+A": {"moments": "plain"}}
"""Other options that are given: moments as they are, so that the curvature of the pull is ``A_i (x) I``."""


def learner_at(
    situation: Situation,
    method: str,
    lr: Any,
    strength: Any = 0.0,
    runs: Sequence[int] | None = None,
    given: Mapping[str, Any] | None = None,
) -> Learner:
    """A learner at ``theta_A*`` that has task A behind it and is about to begin task B.

    ``runs`` says which seed each run of the learner stands for (all of them, once, by default); ``lr`` and ``strength``
    are one number, or one per run; ``given`` are further options.
    """
    given = {**FIXED.get(method, {}), **(given or {})}
    name, option = METHODS[method]
    runs = range(situation.runs) if runs is None else runs
    cls = find_learner(name)
    options = cls.options_type.from_mapping(
        {"lr": lr, "inputs": "raw"} | ({option: strength} if option else {}) | given
    )
    seeds = [situation.seeds[run] for run in runs]
    learner = cls(situation.layout.sizes, seeds, options, head="random", device=situation.device)
    learner.theta.copy_(situation.theta_A[list(runs)])
    task = situation.task(0)
    learner.begin_task(task)
    learner.end_task(task)
    learner.begin_task(situation.task(1))
    return learner


Measure = Callable[[Learner], dict[str, Tensor]]
"""What is looked at along the way: named values, (R,) each."""


def losses(situation: Situation, part: str = "test") -> Measure:
    """Loss and accuracy of task A by itself, of task B and of both together among all classes, on held-out data."""
    A, B = situation.held_out(0, part), situation.held_out(1, part)

    def look(learner: Learner) -> dict[str, Tensor]:
        own, own_right = _loss(learner, A.x, A.y, situation.classes_A)
        all_A, right_A = _loss(learner, A.x, A.y, situation.classes)
        all_B, right_B = _loss(learner, B.x, B.y, situation.classes)
        return {
            "loss_A": own, "accuracy_A": own_right, "loss_A_among_all": all_A, "loss_B": all_B,
            "accuracy_A_among_all": right_A, "accuracy_B": right_B,
            "loss_CIL": all_A + all_B, "accuracy_CIL": (right_A + right_B) / 2,
        }  # fmt: skip

    return look


def _loss(learner: Learner, x: Tensor, y: Tensor, classes: slice) -> tuple[Tensor, Tensor]:
    z = learner.logits(x, classes)
    right = (z.argmax(-1) == y - classes.start).double().mean(1)
    log_p = torch.log_softmax(z, -1)
    return -(log_p * one_hot(y, classes, log_p)).sum(-1).double().mean(1), 100 * right


def descend(
    learner: Learner, situation: Situation, steps: int, at: Sequence[int], measure: Measure
) -> dict[str, Tensor]:
    """Train on task B for ``steps`` steps, looking when ``at`` says so (0 is before the first): (len(at), R) each."""
    task, size = situation.task(1), min(situation.scale.batch_size, len(situation.B.y))
    plan = batches(len(task.y), size, steps, learner.seeds, situation.device)
    seen: list[dict[str, Tensor]] = []
    with few_threads(learner, size):
        for step in range(steps + 1):
            if step in at:
                seen.append(measure(learner))
            if step < steps:
                learner.step(task.x[plan[step]], task.y[plan[step]])
    return {name: torch.stack([look[name] for look in seen]).cpu() for name in seen[0]}


def visited(
    situation: Situation, method: str, steps: int, at: Sequence[int], lr: float, strength: float = 0.0
) -> Tensor:
    """(len(at), R, P): where a method stands along its way through task B."""
    learner = learner_at(situation, method, lr, strength)
    looked = descend(learner, situation, steps, at, lambda me: {"theta": me.theta.clone()})
    return looked["theta"].to(situation.device)


@dataclass(frozen=True)
class Control:
    """How strongly the equilibrium is driven and preserved."""

    beta: float = BETA
    head_beta: float = HEAD_BETA
    kappa: float = KAPPA
    lam: float = LAMBDA
    feedback: str = "jacobian"
    form: str = "multiplicative"
    target: str = "weak"
    solver: str = "newton"
    tol: float = 1e-6


def preservation_terms(situation: Situation, run: int, theta: Tensor, control: Control) -> Parameters | None:
    """``beta F (theta - theta_A*)`` per layer, the head's with its own factor; None at beta = 0."""
    if control.beta == 0:
        return None
    factor = situation.pull(run, control.beta, theta, control.head_beta)
    return terms(situation.layout, factor, theta - situation.theta_A[run], situation.classes)


def equilibrium(
    situation: Situation, run: int, theta: Tensor, x: Tensor, y: Tensor, control: Control, averaged: bool = False
) -> Solution:
    """The equilibria of samples ``x`` (n, d_0), one-hot ``y`` (n, C), of one run at ``theta`` (P,).

    ``averaged``: every sample is given the mean of the preservation signals that the batch raises in the free state.
    """
    s = situation

    def system(pulls: Parameters | None) -> System:
        dynamics = Dynamics(s.activation, feedback=control.feedback, form=control.form)
        layers, controller = layers_of(s.layout, theta, s.classes), Controller.from_gain(control.kappa)
        batch = x.unsqueeze(0), y.unsqueeze(0)
        return build(dynamics, layers, *batch, controller, lam=control.lam, target=control.target, terms=pulls)

    built = system(preservation_terms(s, run, theta, control))
    gammas = free_preservation(built)
    if averaged and gammas is not None and built.terms is not None:
        # A signal that does not depend on the sample comes with the bias alone.
        weights = tuple(torch.zeros_like(W) for W in built.terms.weights)
        built = system(Parameters(weights, tuple(-gamma.mean(1) for gamma in gammas)))
    return make_solver(control.solver, tol=control.tol, max_steps=200).solve(built)


def update_rows(situation: Situation, solution: Solution, head_rule: str = "signal") -> Tensor:
    """(n, P): each sample's own change of the parameters, ``(r_i - f_i) r_{i-1}^T``."""
    post = [t[0] for t in postsynaptic(solution, head_rule)]
    pre = [solution.system.free.r[0][0], *(r[0] for r in solution.activity.rates)]
    return outer_rows(situation.layout, post, pre, situation.classes)
