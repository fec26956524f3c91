"""The closed system whose rest point is the equilibrium: constants of one batch, and the equations as functions.

For hidden layers i = 1..L-1 and the output layer L, at the controlled state:

    a_1 = W_1 x + b_1                     f_i = sigma(a_i)
    r_i = f_i * exp(psi_i + gamma_i)      a_{i+1} = W_{i+1} r_i + b_{i+1}      z = a_L
    r_L = softmax(z + psi_L + gamma_L)    u = kappa (r* - r_L)                 psi_L = u
    g_{L-1} = W_L^T u                     g_{i-1} = W_i^T (sigma'(a_i) * g_i)
    psi_i = sigma'(a_i) * g_i  (jacobian)   or   f_i * g_i  (least_control)   or   Q_i u  (learned)
    gamma_i = -beta_i (G_i r_{i-1} + G^b_i)

The input is clamped, so ``a_1``, ``f_1``, ``sigma'(a_1)`` and ``gamma_1`` are constants of the solve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from efc.core import outputs
from efc.core.control import TARGETS, Controller, Dynamics, PerRun, per_run, rate_shift
from efc.core.network import Parameters, Trace, affine, flat_bmm, forward
from efc.core.preservation import gamma as preservation_signal
from efc.errors import EFCError, choose


@dataclass(frozen=True)
class System:
    """The constants of one solve, for a batch of B samples in each of R runs. Build it with :func:`build`."""

    dynamics: Dynamics
    theta: Parameters
    free: Trace
    slope_1: Tensor | None
    """``sigma'(a_1)``; None when there is no hidden layer."""
    gamma_1: Tensor | None
    """Preservation signal of the first layer; None without preservation."""
    terms: Parameters | None
    """``beta G`` per layer, strengths included; None without preservation."""
    Q: tuple[Tensor, ...]
    """Learned feedback weights (R, d_i, C) per hidden layer; empty for the other feedbacks."""
    compared_free: Tensor
    """What the controller compares, in the free state (softmax output: ``p``)."""
    free_error: Tensor
    """``r* - compared_free``."""
    alpha: Tensor
    k_p: Tensor
    kappa: Tensor

    @property
    def depth(self) -> int:
        """L, the number of layers with weights."""
        return len(self.theta.weights)

    @property
    def target(self) -> Tensor:
        """``r*``."""
        return self.compared_free + self.free_error


class Activity(NamedTuple):
    """What one evaluation of the equations yields; hidden layers 1..L-1 unless said otherwise."""

    a: tuple[Tensor, ...]
    f: tuple[Tensor, ...]
    slope: tuple[Tensor, ...]
    shift: tuple[Tensor, ...]
    """``r_i - f_i``."""
    r: tuple[Tensor, ...]
    g: tuple[Tensor, ...]
    """What :func:`feed_back` gave each hidden layer."""
    psi: tuple[Tensor, ...]
    """Learning signals of layers 1..L."""
    gamma: tuple[Tensor | None, ...]
    """Preservation signals of layers 1..L, None without preservation."""
    z: Tensor
    error: Tensor
    """``r*`` minus what is compared with it."""


def build(
    dynamics: Dynamics,
    theta: Parameters,
    x: Tensor,
    y: Tensor,
    controller: Controller,
    lam: PerRun = 0.01,
    target: str = "weak",
    terms: Parameters | None = None,
    Q: Sequence[Tensor] = (),
) -> System:
    """Run the free forward pass and collect the constants of the solve.

    ``theta`` and ``terms`` are cut to the active classes already; ``x`` is (R, B, d_0), ``y`` one-hot (R, B, C). The
    target is ``r* = p - lambda (p - y)`` (``weak``) or ``r* = y`` (``strong``).
    """
    choose("target", target, TARGETS)
    if (dynamics.feedback == "learned") != bool(Q) and len(theta.weights) > 1:
        raise EFCError("Q: feedback weights are needed for feedback='learned', and only there")
    R = x.shape[0]
    sigma = dynamics.sigma
    free = forward(theta, sigma, x)
    compared_free = outputs.compared(dynamics.output, free.z)
    free_error = y - compared_free
    if target == "weak":
        free_error = free_error * per_run("lambda", lam, R, x)
    return System(
        dynamics=dynamics,
        theta=theta,
        free=free,
        slope_1=sigma.slope(free.a[0], free.r[1]) if len(free.r) > 1 else None,
        gamma_1=None if terms is None else preservation_signal(terms, 0, x),
        terms=terms,
        Q=tuple(Q),
        compared_free=compared_free,
        free_error=free_error,
        alpha=per_run("alpha", controller.alpha, R, x),
        k_p=per_run("k_p", controller.k_p, R, x),
        kappa=per_run("kappa", controller.kappa, R, x),
    )


def feed_back(system: System, u: Tensor, slope: Sequence[Tensor]) -> list[Tensor]:
    """The feedback each hidden layer receives from ``u`` (R, B, C): g_i, or ``psi_i = Q_i u`` if learned.

    ``u`` may carry an axis of directions, (R, B, K, C), when ``slope`` does (as a singleton).
    """
    if system.dynamics.feedback == "learned":
        return [flat_bmm(u, Q.transpose(1, 2)) for Q in system.Q]
    W = system.theta.weights
    g = [flat_bmm(u, W[-1])] if system.depth > 1 else []
    for i in range(system.depth - 2, 0, -1):
        g.append(flat_bmm(slope[i] * g[-1], W[i]))
    return g[::-1]


def learning_signal(dynamics: Dynamics, g: Tensor, f: Tensor, slope: Tensor) -> Tensor:
    """``psi_i`` of a hidden layer from what :func:`feed_back` gave it."""
    if dynamics.feedback == "learned":
        return g
    return (f if dynamics.feedback == "least_control" else slope) * g


def sweep(system: System, u: Tensor, slope: Sequence[Tensor]) -> Activity:
    """One ascending pass: feedback from ``u`` through the given slopes, then each layer from the one just updated."""
    return _ascend(system, u, feed_back(system, u, slope), rates=None)


def drive(system: System, u: Tensor, rates: Sequence[Tensor]) -> Activity:
    """What the differential equations pull each layer towards, all layers read at the given rates ``r_1..r_{L-1}``."""
    sigma, theta = system.dynamics.sigma, system.theta
    a = [affine(r, theta.weights[i + 1], theta.biases[i + 1]) for i, r in enumerate(rates[:-1])]
    f = [*system.free.r[1:2], *(sigma.rate(t) for t in a)]
    first = [] if system.slope_1 is None else [system.slope_1]
    slope = [*first, *(sigma.slope(t, f[i + 1]) for i, t in enumerate(a))]
    return _ascend(system, u, feed_back(system, u, slope), rates)


def _ascend(system: System, u: Tensor, g: Sequence[Tensor], rates: Sequence[Tensor] | None) -> Activity:
    """Evaluate the layers bottom-up; presynaptic rates are ``rates`` if given, else those just computed."""
    dynamics, theta, sigma = system.dynamics, system.theta, system.dynamics.sigma
    a, f, slope, shift, r, psi, gamma = [], [], [], [], [], [], []
    pre = system.free.r[0]
    for i in range(system.depth):
        if i == 0:
            a_i, gamma_i = system.free.a[0], system.gamma_1
        else:
            a_i = affine(pre, theta.weights[i], theta.biases[i])
            gamma_i = None if system.terms is None else preservation_signal(system.terms, i, pre)
        gamma.append(gamma_i)
        if i == system.depth - 1:
            psi.append(outputs.output_learning_signal(dynamics.output, dynamics.feedback, a_i, u))
            break
        f_i = system.free.r[1] if i == 0 else sigma.rate(a_i)
        slope_i = system.slope_1 if i == 0 and system.slope_1 is not None else sigma.slope(a_i, f_i)
        psi_i = learning_signal(dynamics, g[i], f_i, slope_i)
        shift_i = rate_shift(dynamics.form, f_i, slope_i, psi_i, gamma_i)
        for store, value in ((a, a_i), (f, f_i), (slope, slope_i), (shift, shift_i), (psi, psi_i)):
            store.append(value)
        r.append(f_i + shift_i)
        pre = r[-1] if rates is None else rates[i]
    error = output_error(system, a_i, psi[-1] if gamma_i is None else psi[-1] + gamma_i)
    return Activity(
        tuple(a),
        tuple(f),
        tuple(slope),
        tuple(shift),
        tuple(r),
        tuple(g),
        tuple(psi),
        tuple(gamma),
        a_i,
        error,
    )


def output_error(system: System, z: Tensor, s: Tensor) -> Tensor:
    """``r* - r_L`` (``linear_ce``: ``r* - softmax(r_L)``) for logits z and the total output signal s.

    Written as the free error minus a displacement, because the two rates are nearly equal in weak feedback.
    """
    output = system.dynamics.output
    if output == "softmax":
        return system.free_error - outputs.softmax_difference(system.compared_free, z - system.free.z + s)
    displacement = z - system.free.z + outputs.output_shift(output, z, s)
    if output == "linear_ce":
        displacement = outputs.softmax_difference(system.compared_free, displacement)
    return system.free_error - displacement


def free_activity(system: System) -> Activity:
    """The free state, without any signal, in the form of an :class:`Activity` (its gammas are those felt there)."""
    sigma, free = system.dynamics.sigma, system.free
    f = free.r[1:]
    slope = tuple(
        system.slope_1 if i == 0 and system.slope_1 is not None else sigma.slope(a, r)
        for i, (a, r) in enumerate(zip(free.a[:-1], f, strict=True))
    )
    nothing = tuple(torch.zeros_like(r) for r in f)
    gamma: list[Tensor | None] = [system.gamma_1]
    for i in range(1, system.depth):
        gamma.append(None if system.terms is None else preservation_signal(system.terms, i, free.r[i]))
    psi = (*nothing, torch.zeros_like(free.z))
    return Activity(free.a[:-1], f, slope, nothing, f, nothing, psi, tuple(gamma), free.z, system.free_error)
