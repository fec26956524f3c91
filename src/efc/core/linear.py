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
from efc.core.network import flat_bmm
from efc.core.system import Activity, System, feed_back, free_activity, learning_signal


def output_tangent(system: System, at: Activity, dz: Tensor, ds: Tensor) -> Tensor:
    """Change of what is compared with the target, for changes ``dz`` of the logits and ``ds`` of the output signal.

    ``dz`` and ``ds`` are (R, B, K, C), K directions.
    """
    output, z = system.dynamics.output, at.z.unsqueeze(2)
    q = (system.target - at.error).unsqueeze(2)
    if output == "softmax":
        return outputs.softmax_jacobian_product(q, dz + ds)
    s = at.psi[-1] if at.gamma[-1] is None else at.psi[-1] + at.gamma[-1]
    modulation = torch.exp(s).unsqueeze(2)
    change = modulation * (dz + z * ds)
    return outputs.softmax_jacobian_product(q, change) if output == "linear_ce" else change


def control_jacobian(system: System, at: Activity) -> Tensor:
    """``d r_L / d u`` (R, B, C, C) at an activity, the derivatives sigma' held fixed (exact for ReLU between flips)."""
    R, B, C = system.free_error.shape
    theta, terms, dynamics = system.theta, system.terms, system.dynamics
    identity = torch.eye(C, dtype=at.z.dtype, device=at.z.device).expand(R, B, C, C)
    f = [t.unsqueeze(2) for t in at.f]
    slope = [t.unsqueeze(2) for t in at.slope]
    dg = feed_back(system, identity, slope)
    da = dgamma = dr = None
    for i in range(system.depth):
        if dr is not None:
            da = flat_bmm(dr, theta.weights[i].transpose(1, 2))
            dgamma = None if terms is None else -flat_bmm(dr, terms.weights[i].transpose(1, 2))
        if i == system.depth - 1:
            break
        signal = learning_signal(dynamics, dg[i], f[i], slope[i])
        if dynamics.feedback == "least_control" and da is not None:
            signal = signal + slope[i] * da * at.g[i].unsqueeze(2)
        if dynamics.form == "additive":
            dr = signal if dgamma is None else signal + slope[i] * dgamma
            dr = dr if da is None else dr + slope[i] * da
        else:
            signal = signal if dgamma is None else signal + dgamma
            dr = at.r[i].unsqueeze(2) * signal
            if da is not None:
                modulation = torch.exp(at.psi[i] if at.gamma[i] is None else at.psi[i] + at.gamma[i])
                dr = dr + (at.slope[i] * modulation).unsqueeze(2) * da
    ds = outputs.output_learning_signal(dynamics.output, dynamics.feedback, at.z.unsqueeze(2), identity)
    ds = ds if dgamma is None else ds + dgamma
    zero = torch.zeros((), dtype=at.z.dtype, device=at.z.device)
    return output_tangent(system, at, zero if da is None else da, ds).transpose(2, 3)


def preservation_effect(system: System, at: Activity) -> Tensor | None:
    """``gamma_eff`` (R, B, C): first-order change of the output by the preservation signals alone."""
    if system.terms is None:
        return None
    dr = None
    for i in range(system.depth):
        gamma = at.gamma[i]
        assert gamma is not None
        da = None if dr is None else torch.bmm(dr, system.theta.weights[i].transpose(1, 2))
        if i == system.depth - 1:
            break
        own = (at.slope[i] if system.dynamics.form == "additive" else at.f[i]) * gamma
        dr = own if da is None else own + at.slope[i] * da
    dz = torch.zeros_like(gamma) if da is None else da
    return output_tangent(system, at, dz.unsqueeze(2), gamma.unsqueeze(2)).squeeze(2)


def steady_state_u(system: System) -> Tensor:
    """``u`` of the steady-state theorem, as ``kappa (I + kappa J_eff)^{-1} (r* - p - gamma_eff)``: right at kappa = 0 too."""
    at = free_activity(system)
    effect = preservation_effect(system, at)
    wanted = system.free_error if effect is None else system.free_error - effect
    return solve_gain(system.kappa, control_jacobian(system, at), system.kappa * wanted)


def solve_gain(kappa: Tensor, J: Tensor, rhs: Tensor) -> Tensor:
    """``(I + kappa J)^{-1} rhs`` per sample; singular or non-finite systems give non-finite values, not an exception."""
    A = kappa.unsqueeze(-1) * J
    A.diagonal(dim1=-2, dim2=-1).add_(1.0)
    bad = ~torch.isfinite(A).all(-1).all(-1)
    solved, info = torch.linalg.solve_ex(
        torch.where(bad[..., None, None], torch.zeros_like(A), A), rhs.unsqueeze(-1)
    )
    nan = torch.full_like(rhs, float("nan"))
    return torch.where((bad | (info != 0)).unsqueeze(-1), nan, solved.squeeze(-1))
