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
from efc.core.activations import Activation
from efc.core.axis import PerRun, per_run
from efc.core.control import TARGETS, Controller, Dynamics, rate_shift
from efc.core.network import Parameters, Trace, affine, flat_bmm, forward
from efc.core.preservation import gamma as preservation_signal
from efc.errors import EFCError, choose


@dataclass(frozen=True)
class System:
    """The constants of one solve, for a batch of B samples in each of R runs. Build it with :func:`build`."""

    dynamics: Dynamics
    sigma: Activation
    theta: Parameters
    free: Trace
    slope_1: Tensor | None
    """``sigma'(a_1)``; None when there is no hidden layer."""
    gamma_1: Tensor | None
    """Preservation signal of the first layer; None without preservation."""
    terms: Parameters | None
    """``beta G`` per layer, strengths included; None without preservation."""
    received: Parameters
    """What makes layers 2..L's input: ``[W_i; -beta G_i]`` and ``[b_i; -beta G^b_i]``, or without preservation W_i and
    b_i alone. One matrix product then gives ``a_i`` and ``gamma_i``."""
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


class Hidden(NamedTuple):
    """One hidden layer, (R, B, d_i) each."""

    a: Tensor
    f: Tensor
    slope: Tensor
    """``sigma'(a)``."""
    g: Tensor
    """What :func:`feed_back` gave it."""
    psi: Tensor
    gamma: Tensor | None
    """None without preservation."""
    shift: Tensor
    """``r - f``."""
    r: Tensor

    @property
    def signal(self) -> Tensor:
        """``psi + gamma``."""
        return self.psi if self.gamma is None else self.psi + self.gamma


class Activity(NamedTuple):
    """What one evaluation of the equations yields: the hidden layers, and the output layer's quantities."""

    hidden: tuple[Hidden, ...]
    z: Tensor
    psi: Tensor
    gamma: Tensor | None
    error: Tensor
    """``r*`` minus what is compared with it."""

    @property
    def signal(self) -> Tensor:
        """``psi_L + gamma_L``."""
        return self.psi if self.gamma is None else self.psi + self.gamma

    @property
    def slopes(self) -> tuple[Tensor, ...]:
        return tuple(layer.slope for layer in self.hidden)

    @property
    def rates(self) -> tuple[Tensor, ...]:
        """``r_1..r_{L-1}``."""
        return tuple(layer.r for layer in self.hidden)


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
        sigma=sigma,
        theta=theta,
        free=free,
        slope_1=sigma.slope(free.a[0], free.r[1]) if len(free.r) > 1 else None,
        gamma_1=None if terms is None else preservation_signal(terms, 0, x),
        terms=terms,
        received=_received(theta, terms),
        Q=tuple(Q),
        compared_free=compared_free,
        free_error=free_error,
        alpha=per_run("alpha", controller.alpha, R, x),
        k_p=per_run("k_p", controller.k_p, R, x),
        kappa=per_run("kappa", controller.kappa, R, x),
    )


def _received(theta: Parameters, terms: Parameters | None) -> Parameters:
    """See :class:`System`."""
    upper = Parameters(theta.weights[1:], theta.biases[1:])
    if terms is None:
        return upper
    weights = (torch.cat([W, -G], 1) for W, G in zip(upper.weights, terms.weights[1:], strict=True))
    biases = (torch.cat([b, -G], 1) for b, G in zip(upper.biases, terms.biases[1:], strict=True))
    return Parameters(tuple(weights), tuple(biases))


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


def sweep_sent(system: System, u: Tensor, sent: Sequence[Tensor]) -> Activity:
    """One ascending pass under given signals ``sigma'(a_i) g_i`` that layers 2..L-1 send down, instead of slopes.

    ``u`` and these signals are the whole state of the loop: at the equilibrium the pass returns them (:func:`sent`).
    """
    down = (*sent, u)[: system.depth - 1]  # without a hidden layer nobody receives u
    g = [flat_bmm(s, W) for s, W in zip(down, system.theta.weights[1:], strict=True)]
    return _ascend(system, u, g, rates=None)


def sent(activity: Activity) -> list[Tensor]:
    """``sigma'(a_i) g_i`` of layers 2..L-1."""
    return [layer.slope * layer.g for layer in activity.hidden[1:]]


def drive(system: System, u: Tensor, rates: Sequence[Tensor]) -> Activity:
    """What the differential equations pull each layer towards, all read at the given rates ``r_1..r_{L-1}``."""
    sigma, theta = system.sigma, system.theta
    a = [affine(r, theta.weights[i + 1], theta.biases[i + 1]) for i, r in enumerate(rates[:-1])]
    f = [*system.free.r[1:2], *(sigma.rate(t) for t in a)]
    first = [] if system.slope_1 is None else [system.slope_1]
    slope = [*first, *(sigma.slope(t, f[i + 1]) for i, t in enumerate(a))]
    return _ascend(system, u, feed_back(system, u, slope), rates)


def _ascend(system: System, u: Tensor, g: Sequence[Tensor], rates: Sequence[Tensor] | None) -> Activity:
    """Evaluate the layers bottom-up; presynaptic rates are ``rates`` if given, else those just computed."""
    dynamics = system.dynamics
    hidden: list[Hidden] = []
    pre = system.free.r[0]
    for i, g_i in enumerate(g):
        a, gamma = _arrive(system, i, pre)
        hidden.append(_modulate(system, i, a, gamma, g_i))
        pre = hidden[i].r if rates is None else rates[i]
    z, gamma = _arrive(system, system.depth - 1, pre)
    psi = outputs.output_learning_signal(dynamics.output, dynamics.feedback, z, u)
    return Activity(tuple(hidden), z, psi, gamma, output_error(system, z, psi if gamma is None else psi + gamma))


def _arrive(system: System, i: int, pre: Tensor) -> tuple[Tensor, Tensor | None]:
    """Pre-activation and preservation signal of layer ``i`` (from 0) for presynaptic rates; constants where clamped."""
    if i == 0:
        return system.free.a[0], system.gamma_1
    a = affine(pre, system.received.weights[i - 1], system.received.biases[i - 1])
    if system.terms is None:
        return a, None
    d = a.shape[-1] // 2
    return a[..., :d], a[..., d:]


def _modulate(system: System, i: int, a: Tensor, gamma: Tensor | None, g: Tensor) -> Hidden:
    """Hidden layer ``i`` (from 0) under its signals."""
    dynamics, sigma = system.dynamics, system.sigma
    f = system.free.r[1] if i == 0 else sigma.rate(a)
    slope = system.slope_1 if i == 0 and system.slope_1 is not None else sigma.slope(a, f)
    psi = learning_signal(dynamics, g, f, slope)
    shift = rate_shift(dynamics.form, f, slope, psi, gamma)
    return Hidden(a, f, slope, g, psi, gamma, shift, f + shift)


def output_error(system: System, z: Tensor, s: Tensor) -> Tensor:
    """``r* - r_L`` (``linear_ce``: ``r* - softmax(r_L)``) for logits z and the total output signal s.

    Written as the free error minus a displacement, because the two rates are nearly equal in weak feedback.
    """
    output = system.dynamics.output
    if output == "softmax":
        return system.free_error - outputs.softmax_difference(system.compared_free, z - system.free.z + s)
    displacement = z - system.free.z + outputs.output_shift(output, system.dynamics.form, z, s)
    if output == "linear_ce":
        displacement = outputs.softmax_difference(system.compared_free, displacement)
    return system.free_error - displacement


def free_slopes(system: System) -> tuple[Tensor, ...]:
    """``sigma'(a_i)`` of the hidden layers in the free state."""
    sigma, free = system.sigma, system.free
    first = () if system.slope_1 is None else (system.slope_1,)
    return (*first, *(sigma.slope(a, f) for a, f in zip(free.a[1:-1], free.r[2:], strict=True)))


def free_activity(system: System) -> Activity:
    """The free state, where no signal is felt, as an :class:`Activity`."""
    free = system.free
    hidden: list[Hidden] = []
    for a, f, slope in zip(free.a[:-1], free.r[1:], free_slopes(system), strict=True):
        nothing = torch.zeros_like(f)
        hidden.append(Hidden(a, f, slope, nothing, nothing, None, nothing, f))
    return Activity(tuple(hidden), free.z, torch.zeros_like(free.z), None, system.free_error)


def free_preservation(system: System) -> list[Tensor] | None:
    """The preservation signals of layers 1..L that the free rates would raise; None without preservation."""
    if system.terms is None:
        return None
    return [preservation_signal(system.terms, i, r) for i, r in enumerate(system.free.r)]
