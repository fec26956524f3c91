"""First-order response of the controlled network: the Jacobian of the output to ``u``, and the steady-state theorem.

At the free state, with ``Z_i = dz/dr_i`` and ``S = diag(p) - p p^T``:

    J_eff     = S (I + sum_{i<L} Z_i diag(f_i) Q_i)
    gamma_eff = S (gamma_L + sum_{i<L} Z_i (f_i * gamma_i))
    u         = (J_eff + I / kappa)^{-1} (r* - p - gamma_eff)
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from efc.core import outputs
from efc.core.modulation import modulation, modulation_slope
from efc.core.network import flat_bmm
from efc.core.system import (
    Activity,
    Hidden,
    System,
    feed_back,
    free_activity,
    free_preservation,
    learning_signal,
)

_LARGE = 64
"""Size from which a matrix is solved on one thread."""


def output_tangent(system: System, at: Activity, dz: Tensor, ds: Tensor) -> Tensor:
    """Change of what is compared with the target, for changes ``dz`` of the logits and ``ds`` of the output signal.

    ``dz`` and ``ds`` are (R, B, K, C), K directions.
    """
    output = system.dynamics.output
    q = (system.target - at.error).unsqueeze(2)
    if output == "softmax":
        return outputs.softmax_jacobian_product(q, dz + ds)
    form, s = system.dynamics.form, at.signal.unsqueeze(2)
    change = (1 + modulation(form, s)) * dz + at.z.unsqueeze(2) * modulation_slope(form, s) * ds
    return outputs.softmax_jacobian_product(q, change) if output == "linear_ce" else change


def hidden_tangent(form: str, layer: Hidden, da: Tensor | None, dpsi: Tensor, dgamma: Tensor | None) -> Tensor:
    """Change of a hidden layer's rates for changes of its pre-activation, learning and preservation signal."""
    slope = layer.slope.unsqueeze(2)
    if form == "additive":
        dr = dpsi if dgamma is None else dpsi + slope * dgamma
        return dr if da is None else dr + slope * da
    s = layer.signal.unsqueeze(2)
    dr = layer.f.unsqueeze(2) * modulation_slope(form, s) * (dpsi if dgamma is None else dpsi + dgamma)
    return dr if da is None else dr + slope * (1 + modulation(form, s)) * da


def control_jacobian(system: System, at: Activity) -> Tensor:
    """``d r_L / d u`` (R, B, C, C) at an activity, the derivatives sigma' held fixed (exact for ReLU between flips)."""
    R, B, C = system.free_error.shape
    identity = torch.eye(C, dtype=at.z.dtype, device=at.z.device).expand(R, B, C, C)
    dg = feed_back(system, identity, [slope.unsqueeze(2) for slope in at.slopes])
    return _ascend_tangents(system, at, dg, identity, bends=None)[0].transpose(2, 3)


def loop_jacobian(system: System, at: Activity, u: Tensor) -> Tensor:
    """Derivative (R, B, n, n) of what :func:`~efc.core.system.sweep_sent` returns, ``kappa (r* - r_L)`` and the signals
    that layers 2..L-1 send down, with respect to what it was given: ``u`` and these signals. Exact, ``sigma''``
    included. Not for learned feedback, where nothing is sent down but ``u``.
    """
    W, C = system.theta.weights, at.z.shape[-1]
    widths = [C, *(layer.a.shape[-1] for layer in at.hidden[1:])]
    n = sum(widths)
    # u comes first, then the signals from below upwards; the layer below each receives it through its weights.
    starts = [sum(widths[:k]) for k in range(len(widths))]
    origin = [*range(1, len(widths)), 0]
    dg = []
    for i in range(len(at.hidden)):
        rows = W[i + 1].new_zeros(len(at.z), 1, n, W[i + 1].shape[-1])
        first = starts[origin[i]]
        rows[:, 0, first : first + W[i + 1].shape[1]] = W[i + 1]
        dg.append(rows)
    du = torch.eye(n, C, dtype=at.z.dtype, device=at.z.device).expand(1, 1, n, C)
    bend = system.sigma.bend
    bends = [None if bend is None else bend(layer.a, layer.f).unsqueeze(2) for layer in at.hidden]
    output, sent = _ascend_tangents(system, at, dg, du, bends, u)
    return torch.cat([-system.kappa.unsqueeze(-1) * output, *sent], -1).transpose(2, 3)


def _ascend_tangents(
    system: System,
    at: Activity,
    dg: Sequence[Tensor],
    du: Tensor,
    bends: Sequence[Tensor | None] | None,
    u: Tensor | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """Change of the output, and of what layers 2..L-1 send down, for changes ``dg`` of the feedback and ``du`` of u.

    (R, B, K, .) for K directions. ``bends`` are ``sigma''(a_i)``; with None the derivatives sigma' are held fixed, and
    without ``u`` the slope of the output's learning signal.
    """
    dynamics = system.dynamics
    da = dgamma = None
    sent: list[Tensor] = []
    for i, layer in enumerate(at.hidden):
        slope, g = layer.slope.unsqueeze(2), layer.g.unsqueeze(2)
        bend = None if bends is None else bends[i]
        turned: Tensor | None = None if bend is None or da is None else bend * da
        dpsi = learning_signal(dynamics, dg[i], layer.f.unsqueeze(2), slope)
        if dynamics.feedback == "least_control" and da is not None:
            dpsi = dpsi + (layer.slope * layer.g).unsqueeze(2) * da
        if dynamics.feedback == "jacobian" and turned is not None:
            dpsi = dpsi + g * turned
        dr = hidden_tangent(dynamics.form, layer, da, dpsi, dgamma)
        if dynamics.form == "additive" and turned is not None and layer.gamma is not None:
            dr = dr + layer.gamma.unsqueeze(2) * turned
        if i > 0:
            sent.append(slope * dg[i] if turned is None else slope * dg[i] + g * turned)
        da = flat_bmm(dr, system.theta.weights[i + 1].transpose(1, 2))
        if system.terms is not None:
            dgamma = -flat_bmm(dr, system.terms.weights[i + 1].transpose(1, 2))
    ds = outputs.output_learning_signal(dynamics.output, dynamics.feedback, at.z.unsqueeze(2), du)
    dz = torch.zeros_like(ds) if da is None else da
    if u is not None and da is not None and dynamics.output != "softmax" and dynamics.feedback == "least_control":
        ds = ds + u.unsqueeze(2) * da  # psi_L = z * u
    return output_tangent(system, at, dz, ds if dgamma is None else ds + dgamma), sent


def preservation_effect(system: System, at: Activity) -> Tensor | None:
    """``gamma_eff`` (R, B, C): first-order change of the output by the preservation signals felt in the free state."""
    gammas = free_preservation(system)
    if gammas is None:
        return None
    da = None
    for i, layer in enumerate(at.hidden):
        gamma = gammas[i].unsqueeze(2)
        dr = hidden_tangent(system.dynamics.form, layer, da, torch.zeros_like(gamma), gamma)
        da = flat_bmm(dr, system.theta.weights[i + 1].transpose(1, 2))
    ds = gammas[-1].unsqueeze(2)
    return output_tangent(system, at, torch.zeros_like(ds) if da is None else da, ds).squeeze(2)


def steady_state_u(system: System) -> Tensor:
    """``u`` of the steady-state theorem, as ``kappa (I + kappa J_eff)^{-1} (r* - p - gamma_eff)``.

    With preservation ``J_eff`` includes how gamma answers to the rates that ``u`` moves: a term of second order.
    """
    at = free_activity(system)
    effect = preservation_effect(system, at)
    wanted = system.free_error if effect is None else system.free_error - effect
    return solve_gain(system.kappa, control_jacobian(system, at), system.kappa * wanted)


def solve_gain(kappa: Tensor, J: Tensor, rhs: Tensor) -> Tensor:
    """``(I + kappa J)^{-1} rhs`` per sample; a singular or non-finite system gives NaN, not an exception."""
    A = kappa.unsqueeze(-1) * J
    A.diagonal(dim1=-2, dim2=-1).add_(1.0)
    return solve_each(A, rhs)


def solve_each(A: Tensor, rhs: Tensor) -> Tensor:
    """``A^{-1} rhs`` per sample, (R, B, n, n) and (R, B, n); NaN where that is singular or not finite."""
    bad = ~torch.isfinite(A).all(-1).all(-1)
    threads = torch.get_num_threads()
    if A.shape[-1] >= _LARGE and not A.is_cuda:
        # Some CPU builds' LU on several threads corrupts its pivots from about 200 x 200 on (seen with torch 2.13).
        torch.set_num_threads(1)
    try:
        usable = torch.where(bad[..., None, None], torch.zeros_like(A), A)
        solved, info = torch.linalg.solve_ex(usable, rhs.unsqueeze(-1))
    finally:
        torch.set_num_threads(threads)
    nan = torch.full_like(rhs, float("nan"))
    return torch.where((bad | (info != 0)).unsqueeze(-1), nan, solved.squeeze(-1))
