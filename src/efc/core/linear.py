"""First-order response of the controlled network: the Jacobian of the output to ``u``, and the steady-state theorem.

At the free state, with ``Z_i = dz/dr_i`` and ``S = diag(p) - p p^T``:

    J_eff     = S (I + sum_{i<L} Z_i diag(f_i) Q_i)
    gamma_eff = S (gamma_L + sum_{i<L} Z_i (f_i * gamma_i))
    u         = (J_eff + I / kappa)^{-1} (r* - p - gamma_eff)
"""

from __future__ import annotations

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
    dynamics = system.dynamics
    identity = torch.eye(C, dtype=at.z.dtype, device=at.z.device).expand(R, B, C, C)
    dg = feed_back(system, identity, [slope.unsqueeze(2) for slope in at.slopes])
    da = dgamma = None
    for i, layer in enumerate(at.hidden):
        dpsi = learning_signal(dynamics, dg[i], layer.f.unsqueeze(2), layer.slope.unsqueeze(2))
        if dynamics.feedback == "least_control" and da is not None:
            dpsi = dpsi + (layer.slope * layer.g).unsqueeze(2) * da
        dr = hidden_tangent(dynamics.form, layer, da, dpsi, dgamma)
        da = flat_bmm(dr, system.theta.weights[i + 1].transpose(1, 2))
        if system.terms is not None:
            dgamma = -flat_bmm(dr, system.terms.weights[i + 1].transpose(1, 2))
    ds = outputs.output_learning_signal(dynamics.output, dynamics.feedback, at.z.unsqueeze(2), identity)
    dz = torch.zeros_like(ds) if da is None else da
    return output_tangent(system, at, dz, ds if dgamma is None else ds + dgamma).transpose(2, 3)


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
