"""From weak feedback to strong: Newton's method on the whole loop, and the gain raised step by step where it fails.

With hidden layers above the first, what a layer sends down depends on the rates that it causes below. So the loop has
more unknowns than ``u``: the signals ``m_i = sigma'(a_i) g_i`` of layers 2..L-1. Together they solve

    u = kappa (r* - r_L(u, m))        m_i = sigma'(a_i(u, m)) g_i(u, m)

A solution always exists if ``sigma'`` is continuous and bounded and the output a softmax (Brouwer: the right-hand side
is continuous, and maps a bounded convex set into itself). At ``kappa = 0`` it is ``u = 0``, ``m = 0``; from there it is
followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from efc.core.linear import loop_jacobian, solve_each
from efc.core.network import Trace
from efc.core.solvers.watch import distance, largest, rounding
from efc.core.system import Activity, System, sent, sweep_sent

WEAK = 0.1
"""The gain from which it goes up."""
LOOSE = 0.1
"""Residual at which a point on the way counts as found."""
PATIENCE = 5
"""Newton steps for one point; each has to be better than twice the last."""
SHORTEST = 1e-3
"""Share of the way below which a step is given up."""


@dataclass(frozen=True)
class Followed:
    """Where it led, (R, B, .) each."""

    u: Tensor
    activity: Activity
    reached: Tensor
    """(R, B, 1): whether the residual is below the tolerance at the full gain."""
    steps: Tensor
    residual: Tensor


def loop_is_bent(system: System) -> bool:
    """Whether there are signals on their way down that depend smoothly on the rates."""
    return system.depth > 2 and system.sigma.bend is not None and can_be_followed(system)


def can_be_followed(system: System) -> bool:
    """Whether the loop is smooth; with one hidden layer it is, whatever sigma, since the input is clamped."""
    return (system.depth <= 2 or system.sigma.bend is not None) and system.dynamics.feedback != "learned"


def follow(system: System, tol: float, max_steps: int) -> Followed:
    """Try the whole way at once; where Newton's method fails, go back to the last point found and try a third of it."""
    widths = [system.free_error.shape[-1], *(a.shape[-1] for a in system.free.a[1:-1])]
    like = system.free_error[..., :1]
    v = found = torch.cat([torch.zeros_like(a) for a in (system.free_error, *system.free.a[1:-1])], -1)
    place, stride, share = torch.zeros_like(like), torch.ones_like(like), torch.ones_like(like)
    last = residual = torch.full_like(like, float("inf"))
    tries, steps = torch.zeros_like(like), torch.zeros_like(like, dtype=torch.int64)
    over = reached = torch.zeros_like(like, dtype=torch.bool)
    for _ in range(max_steps):
        here = at_share(system, share)
        activity = sweep_sent(here, v[..., : widths[0]], v[..., widths[0] :].split(widths[1:], -1))
        answer = torch.cat([here.kappa * activity.error, *sent(activity)], -1)
        steps = steps + ~over
        residual = torch.where(over, residual, _residual(here, v, answer, widths, tol))
        last_point = share >= 1
        good = residual <= torch.where(last_point, tol, max(tol, LOOSE))
        failed = ~good & ((tries >= PATIENCE) | ~(residual < 2 * last))
        reached = reached | (good & last_point)
        over = reached | (failed & (stride < SHORTEST))
        if bool(over.all()):
            break
        newton = v + solve_each(_identity_minus(loop_jacobian(here, activity, v[..., : widths[0]])), answer - v)
        arrived = good & ~last_point
        found, place = torch.where(arrived, v, found), torch.where(arrived, share, place)
        stride = torch.where(arrived, 1.5 * stride, torch.where(failed, stride / 3, stride))
        anew = arrived | failed
        share = torch.where(anew & ~over, (place + stride).clamp(max=1), share)
        tries = torch.where(anew, torch.zeros_like(tries), tries + 1)
        last = torch.where(anew, torch.full_like(last, float("inf")), residual)
        v = torch.where(over, v, torch.where(anew, found, newton))
    activity = sweep_sent(system, v[..., : widths[0]], v[..., widths[0] :].split(widths[1:], -1))
    return Followed(v[..., : widths[0]].contiguous(), activity, reached, steps, residual)


def at_share(system: System, share: Tensor) -> System:
    """The system at a share (R, B, 1) of the way, on logarithmic scales: gain, and sharpness if sigma has one."""
    span = (system.kappa / WEAK).clamp(min=1).log()
    eased = replace(system, kappa=system.kappa * torch.exp((share - 1) * span))
    if system.sigma.softer is None:
        return eased
    sigma = system.sigma.softer(share)
    a_1 = system.free.a[0]
    f_1 = sigma.rate(a_1)
    free = Trace(system.free.a, (system.free.r[0], f_1, *system.free.r[2:]))
    return replace(eased, sigma=sigma, free=free, slope_1=sigma.slope(a_1, f_1))


def _residual(system: System, here: Tensor, answer: Tensor, widths: Sequence[int], tol: float) -> Tensor:
    """As :class:`~efc.core.solvers.watch.Watch` has it."""
    parts = answer.split(list(widths), -1)
    tiny = torch.finfo(answer.dtype).tiny
    first, *rest = [largest(part) for part in parts]
    scales = [first + rounding(answer, tol) * system.kappa + tiny, *(scale + tiny for scale in rest)]
    return distance(here.split(list(widths), -1), parts, scales)


def _identity_minus(J: Tensor) -> Tensor:
    A = -J
    A.diagonal(dim1=-2, dim2=-1).add_(1.0)
    return A
