"""The steady-state theorem in its several readings, beside the equilibrium it approximates.

At the free state, with ``Z_i = dz/dr_i`` and ``Q_i`` the feedback to hidden layer i,

    J_0     = I + sum_{i<L} Z_i diag(f_i) Q_i        gamma_0 = gamma_L + sum_{i<L} Z_i (f_i * gamma_i)
    u       = (M J_0 + I/kappa)^{-1} (r* - p - M gamma_0)

where M is what a change of the output's input does to the output rate: ``S = diag(p) - p p^T`` for a softmax. The
theorem as printed has no such factor (M = I); with its output rates taken one by one, not normalised, M = diag(p).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from efc.core.control import Controller, Dynamics
from efc.core.linear import solve_gain, steady_state_u
from efc.core.network import Parameters, flat_bmm
from efc.core.preservation import terms
from efc.core.solution import Solution
from efc.core.solvers import make_solver
from efc.core.system import System, build, feed_back, free_preservation, free_slopes, learning_signal
from efc.theory.rows import layers_of
from efc.theory.situation import Situation, one_hot

READINGS = ("softmax", "elementwise", "printed", "package")
"""M = S, M = diag(p), M = I; and :func:`~efc.core.linear.steady_state_u`, which is M = S with one thing more: that the
preservation signals answer to the rates, as they do in the equilibrium."""


def output_factor(system: System, reading: str) -> Tensor:
    """M (R, B, C, C)."""
    p = system.compared_free
    if reading == "printed":
        return torch.eye(p.shape[-1], dtype=p.dtype, device=p.device).expand(*p.shape, p.shape[-1])
    diagonal = torch.diag_embed(p)
    return diagonal - p.unsqueeze(-1) * p.unsqueeze(-2) if reading == "softmax" else diagonal


def bare_response(system: System) -> tuple[Tensor, Tensor]:
    """``J_0`` (R, B, C, C) and ``gamma_0`` (R, B, C)."""
    p, slopes, rates = system.compared_free, free_slopes(system), system.free.r[1:]
    C = p.shape[-1]
    identity = torch.eye(C, dtype=p.dtype, device=p.device).expand(*p.shape, C)
    gammas = free_preservation(system)
    J_0, gamma_0 = identity.clone(), torch.zeros_like(p) if gammas is None else gammas[-1].clone()
    # Row c of g_i = Z_i^T u for u = e_c is row c of Z_i.
    Z = feed_back(system, identity, [slope.unsqueeze(2) for slope in slopes])
    for i, (Z_i, f, slope) in enumerate(zip(Z, rates, slopes, strict=True)):
        Q_T = learning_signal(system.dynamics, Z_i, f.unsqueeze(2), slope.unsqueeze(2))
        J_0 += (Z_i * f.unsqueeze(2)) @ Q_T.transpose(2, 3)
        if gammas is not None:
            gamma_0 += (Z_i @ (f * gammas[i]).unsqueeze(-1)).squeeze(-1)
    return J_0, gamma_0


def closed_form(system: System, reading: str = "softmax") -> Tensor:
    """``u`` (R, B, C) of the theorem."""
    if reading == "package":
        return steady_state_u(system)
    J_0, gamma_0 = bare_response(system)
    M = output_factor(system, reading)
    wanted = system.free_error - (M @ gamma_0.unsqueeze(-1)).squeeze(-1)
    return solve_gain(system.kappa, M @ J_0, system.kappa * wanted)


def closed_form_rates(system: System, u: Tensor) -> list[Tensor]:
    """``r* - r^-`` of the hidden layers, ``(I - J)^{-1} diag(r^-) (Q u + gamma)``, layer by layer."""
    slopes, gammas = free_slopes(system), free_preservation(system)
    signals = feed_back(system, u, slopes)
    shifts: list[Tensor] = []
    for i, (g, f, slope) in enumerate(zip(signals, system.free.r[1:], slopes, strict=True)):
        signal = learning_signal(system.dynamics, g, f, slope)
        shift = f * (signal if gammas is None else signal + gammas[i])
        if shifts:
            shift = shift + slope * flat_bmm(shifts[-1], system.theta.weights[i].transpose(1, 2))
        shifts.append(shift)
    return shifts


@dataclass(frozen=True)
class Comparison:
    """The theorem beside the equilibrium, (R, B) each: one run per setting of lambda, beta and kappa."""

    error: dict[str, Tensor]
    """``|u_theorem - u|`` over kappa (as an error of the output rate), by reading."""
    relative: dict[str, Tensor]
    """The same over ``|u|``."""
    rates: Tensor
    """Error of the hidden rates, as a share of what control changes in them (softmax reading)."""
    flipped: Tensor
    """Whether a ReLU is on in the equilibrium that is off in the free state, or the other way."""
    settled: Tensor


def compare(system: System, tol: float = 1e-10) -> Comparison:
    """Solve for the equilibrium and measure each reading's distance from it."""
    solution = make_solver("newton", tol=tol, max_steps=200).solve(system)
    size = solution.u.norm(dim=-1)
    error = {reading: (closed_form(system, reading) - solution.u).norm(dim=-1) for reading in READINGS}
    kappa = system.kappa.squeeze(-1)
    return Comparison(
        error={name: e / kappa for name, e in error.items()},
        relative={name: e / size for name, e in error.items()},
        rates=_rates_error(solution, closed_form(system)),
        flipped=_flipped(solution),
        settled=solution.settled,
    )


def _rates_error(solution: Solution, u: Tensor) -> Tensor:
    """Relative, over all hidden layers together."""
    system = solution.system
    true = [r - free for r, free in zip(solution.activity.rates, system.free.r[1:], strict=True)]
    stacked = torch.cat(true, -1)
    error: Tensor = (torch.cat(closed_form_rates(system, u), -1) - stacked).norm(dim=-1) / stacked.norm(dim=-1)
    return error


def _flipped(solution: Solution) -> Tensor:
    free = free_slopes(solution.system)
    now = solution.activity.slopes
    changed = [((a > 0.5) != (b > 0.5)).any(-1) for a, b in zip(free, now, strict=True)]
    return torch.stack(changed).any(0)


def sweep_system(
    situation: Situation, run: int, theta: Tensor, lam: Tensor, beta: Tensor, kappa: Tensor, feedback: str = "jacobian"
) -> System:
    """One seed's net ``theta`` (P,) on the probes of task B under K settings (K,) each: K runs of one system, float64.

    With ``beta`` zero throughout there is no preservation.
    """
    s, K = situation, len(lam)
    layers = layers_of(s.layout, theta.double(), s.classes)
    shared = Parameters(*(tuple(t.expand(K, *t.shape[1:]) for t in part) for part in layers))
    x, y = s.probes.x.double(), one_hot(s.probes.y, s.classes, theta.double())
    drift = theta.double() - s.theta_A[run].double()
    preserved = bool((beta > 0).any())
    pulls = terms(s.layout, s.pull(run, beta, drift), drift, s.classes) if preserved else None
    return build(
        Dynamics(s.activation, feedback=feedback), shared, x.expand(K, *x.shape), y.expand(K, *y.shape),
        Controller.from_gain(kappa), lam=lam, terms=pulls,
    )  # fmt: skip
