"""Weights that follow an equilibrium until they rest: the exact descent of the least effort, and the local rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from efc.core.control import Controller, Dynamics
from efc.core.plasticity import weight_change
from efc.core.preservation import terms
from efc.core.solution import Solution
from efc.core.solvers import make_solver
from efc.core.solvers.base import initial_u
from efc.core.system import System, build, drive
from efc.learners.optim import Adam
from efc.theory.effort import Optimum, Problem, exact_gradient, least_control
from efc.theory.situation import KAPPA, LAMBDA, Situation


@dataclass(frozen=True)
class Course:
    """A descent of ``V = 1/2 mean |psi*|^2``, as far as it went."""

    V: list[float]
    """Before each step, and at the end."""
    foreseen: list[float]
    """``-step |dH/dtheta|^2`` of each step: what V should change by."""
    end: Optimum


def descend_effort(problem: Problem, step: float, steps: int, adam: bool = False, sweeps: int = 24) -> Course:
    """Gradient descent: Euler's method for ``theta' = -dH/dtheta``, H the mean of 1/2 |psi*|^2; or Adam.

    The least control is followed from step to step, at most ``sweeps`` Newton steps each.
    """
    V: list[float] = []
    foreseen: list[float] = []
    found = least_control(problem)
    theta = problem.theta.unsqueeze(0).clone()
    optimiser, rate = Adam(theta), theta.new_full((1, 1), step)
    for _ in range(steps):
        V.append(float(found.effort.mean()) / 2)
        gradient = exact_gradient(found).unsqueeze(0)
        foreseen.append(-step * float(gradient.square().sum()))
        if adam:
            theta.sub_(optimiser.step(gradient, rate))
        else:
            theta = theta - step * gradient
        trial = least_control(problem.at(theta[0].clone()), found.psi, max_steps=sweeps)
        if not bool(torch.isfinite(trial.effort).all()):
            break  # blown up: the last state that can be spoken of is the end
        found = trial
    return Course([*V, float(found.effort.mean()) / 2], foreseen, found)


LOOKS = 20


@dataclass(frozen=True)
class Rest:
    """Where the local rule came to, K runs side by side."""

    theta: Tensor
    """(K, P)."""
    solution: Solution
    loss: Tensor
    """(when, K): cross-entropy of the free net on the samples, ``LOOKS`` times along the way."""


def follow_local_rule(
    situation: Situation, start: Tensor, pulls: Tensor, x: Tensor, y: Tensor, steps: int, lr: float = 1e-3
) -> Rest:
    """EFC as it ships on samples ``x`` (K, B, d_0), one-hot ``y``, the whole batch at every step.

    ``pulls`` (K, P) are the strengths ``beta F``; the anchor is ``start`` (P,). Adam, half of the way at full rate,
    which then falls to a thousandth so that it can come to rest.
    """
    layout, K = situation.layout, len(pulls)
    theta = start.expand(K, -1).clone()
    optimiser, change = Adam(theta), torch.zeros_like(theta)
    dynamics, controller = Dynamics(situation.activation, feedback="jacobian"), Controller.from_gain(KAPPA)
    solver = make_solver("newton", tol=1e-6, max_steps=50)
    looks = {round(k * steps / LOOKS) for k in range(LOOKS + 1)}
    losses: list[Tensor] = []
    for step in range(steps + 1):
        held = terms(layout, pulls, theta - start)
        solution = solver.solve(build(dynamics, layout.views(theta), x, y, controller, lam=LAMBDA, terms=held))
        weight_change(solution, layout.views(change), "signal", scale=-1.0)
        if step in looks:
            losses.append(-(torch.log_softmax(solution.system.free.z, -1) * y).sum(-1).mean(1))
        if step < steps:
            rate = lr * 10 ** (-3 * max(0.0, 2 * step / steps - 1))
            theta.sub_(optimiser.step(change, theta.new_full((K, 1), rate)))
    return Rest(theta, solution, torch.stack(losses))


def balance(solution: Solution) -> dict[str, Tensor]:
    """(K,) each: root-mean-square over samples of ``|psi|``, ``|gamma|`` and ``|psi + gamma|``, units that are on."""
    found: dict[str, list[Tensor]] = {"psi": [], "gamma": [], "sum": []}
    hidden = [(layer.psi, layer.gamma, layer.f > 0) for layer in solution.activity.hidden]
    gamma_L = solution.gamma[-1]
    # A softmax does not feel what is the same for all its inputs.
    output = (solution.psi[-1], gamma_L - gamma_L.mean(-1, keepdim=True), torch.ones_like(solution.u))
    for psi, gamma, on in (*hidden, output):
        gamma = torch.zeros_like(psi) if gamma is None else gamma
        for name, value in (("psi", psi), ("gamma", gamma), ("sum", psi + gamma)):
            found[name].append((value * on).square().sum(-1))
    return {name: torch.stack(values).sum(0).mean(1).sqrt() for name, values in found.items()}


@dataclass(frozen=True)
class Trajectory:
    """One sample on its way: times in units of tau, ``u`` (T, C), and the hidden rates (T, N)."""

    t: Tensor
    u: Tensor
    r: Tensor


def record(system: System, which: Sequence[tuple[int, int]], duration: float, dt: float) -> list[Trajectory]:
    """Step the equations as :class:`~efc.core.solvers.Relaxation` does (tau = 1) and keep samples (run, number)."""
    leak = 1 / (1 + dt * system.alpha)
    r, error = list(system.free.r[1:]), system.free_error
    v = initial_u(system, "free") - system.k_p * error
    steps = round(duration / dt)
    runs, samples = (torch.tensor(numbers, device=error.device) for numbers in zip(*which, strict=True))
    u_kept: list[Tensor] = []
    r_kept: list[Tensor] = []
    for _ in range(steps + 1):
        u = v + system.k_p * error
        u_kept.append(u[runs, samples])
        r_kept.append(torch.cat([t[runs, samples] for t in r], -1))
        activity = drive(system, u, r)
        r = [old + dt * (new - old) for old, new in zip(r, activity.rates, strict=True)]
        v = (v + dt * error) * leak
        error = error + dt * (activity.error - error)
    t = dt * torch.arange(steps + 1)
    us, rs = torch.stack(u_kept, 1), torch.stack(r_kept, 1)
    return [Trajectory(t, us[k], rs[k]) for k in range(len(which))]
