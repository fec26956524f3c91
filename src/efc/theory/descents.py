"""Two ways down: the local weight change, and the exact gradient of the controller's own effort ``|psi|^2``.

The controller's ``psi`` is not a minimum of anything at finite gain, so its gradient takes the equilibrium's
dependence on the parameters into account (implicit differentiation): one differentiable Newton step from the rest
point, ``u(theta) = u* + (I + kappa dr_L/du)^{-1} (kappa (r* - r_L(u*, theta)) - u*)``, has the right derivative.
The target is held fixed. ReLU only: between flips its slopes are constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from efc.core.activations import activation
from efc.core.control import Controller, Dynamics
from efc.core.linear import control_jacobian, solve_gain
from efc.core.network import Layout, affine, forward, mean_loss_gradient
from efc.core.outputs import loss_gradient
from efc.core.plasticity import weight_change
from efc.core.solution import Solution
from efc.core.solvers import make_solver
from efc.core.system import System, build, feed_back, learning_signal
from efc.errors import EFCError
from efc.learners.optim import Adam
from efc.theory.situation import KAPPA, LAMBDA


@dataclass(frozen=True)
class Setting:
    """The net's shape and how it is controlled (no preservation)."""

    layout: Layout
    feedback: str = "jacobian"
    kappa: float = KAPPA
    lam: float = LAMBDA
    target: str = "weak"
    solver: str = "newton"
    tol: float = 1e-10
    activation: str = "relu"

    def system(self, theta: Tensor, x: Tensor, y: Tensor) -> System:
        """For parameters (R, P), inputs (R, B, d_0) and one-hot targets (R, B, C)."""
        return build(
            Dynamics(self.activation, feedback=self.feedback), self.layout.views(theta), x, y,
            Controller.from_gain(self.kappa), lam=self.lam, target=self.target,
        )  # fmt: skip

    def solve(self, theta: Tensor, x: Tensor, y: Tensor) -> Solution:
        return make_solver(self.solver, tol=self.tol, max_steps=100).solve(self.system(theta, x, y))


def effort(psi: Sequence[Tensor]) -> Tensor:
    """(R, B): ``|psi|^2`` over all layers."""
    return torch.stack([t.square().sum(-1) for t in psi]).sum(0)


def signals(system: System, slopes: Sequence[Tensor], u: Tensor) -> tuple[list[Tensor], Tensor]:
    """``psi_1..psi_L`` and ``r_L`` for a given ``u`` with the slopes held: the equations once more, differentiable."""
    theta, sigma = system.theta, system.dynamics.sigma
    psi: list[Tensor] = []
    r = system.free.r[0]
    for i, (g, slope) in enumerate(zip(feed_back(system, u, slopes), slopes, strict=True)):
        f = sigma.rate(affine(r, theta.weights[i], theta.biases[i]))
        psi.append(learning_signal(system.dynamics, g, f, slope))
        r = f * torch.exp(psi[-1])
    z = affine(r, theta.weights[-1], theta.biases[-1])
    return [*psi, u], torch.softmax(z + u, -1)


def exact_descent(setting: Setting, theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """(R, P): ``d/dtheta mean_b 1/2 |psi|^2``, over the square of ``kappa lambda`` (a matter of units)."""
    if setting.activation != "relu":
        raise EFCError(f"activation: implicit differentiation holds the slopes fixed, relu only; got {setting}")
    solution = setting.solve(theta, x, y)
    with torch.enable_grad():
        moving = theta.detach().requires_grad_()
        system = setting.system(moving, x, y)
        slopes = [t.detach() for t in solution.activity.slopes]
        target = solution.system.target
        _, r_L = signals(system, slopes, solution.u)
        J = control_jacobian(solution.system, solution.activity)
        # Where the sample has not quite settled, u* is taken for what it is.
        residual = solution.system.kappa * (target - r_L)
        u = solution.u + solve_gain(solution.system.kappa, J, residual - residual.detach())
        psi, _ = signals(system, slopes, u)
        half = 0.5 * effort(psi).mean(1).sum() / (setting.kappa * setting.lam) ** 2
        (gradient,) = torch.autograd.grad(half, moving)
    return gradient


def local_descent(setting: Setting, theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """(R, P): minus the local weight change, ``(r_i - f_i) r_{i-1}^T``, the head's by its signal, as EFC ships."""
    out = torch.zeros_like(theta)
    weight_change(setting.solve(theta, x, y), setting.layout.views(out), "signal", scale=-1.0)
    return out


def back_propagation(setting: Setting, theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """(R, P): the gradient of the mean cross-entropy."""
    out = torch.zeros_like(theta)
    system = setting.system(theta, x, y)
    delta_L = loss_gradient("softmax", system.free.z, y)
    mean_loss_gradient(system.theta, system.dynamics.sigma, system.free, delta_L, setting.layout.views(out))
    return out


Descent = Callable[[Setting, Tensor, Tensor, Tensor], Tensor]


def train(
    descent: Descent, setting: Setting, theta: Tensor, batches: Sequence[tuple[Tensor, Tensor]], lr: Tensor
) -> Tensor:
    """Adam from ``theta`` (R, P) over batches (x, y), with one rate per run (R,); returns where it ends."""
    theta = theta.clone()
    optimiser = Adam(theta)
    for x, y in batches:
        gradient = descent(setting, theta, x, y)
        theta.sub_(optimiser.step(torch.nan_to_num(gradient), lr.unsqueeze(1)))
    return theta


def accuracy(setting: Setting, theta: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """(R,), in per cent, for labels y (n,)."""
    layers = setting.layout.views(theta)
    z = forward(layers, activation(setting.activation), x.expand(len(theta), *x.shape)).z
    return 100 * (z.argmax(-1) == y).double().mean(1)


def layer_cosines(layout: Layout, a: Tensor, b: Tensor) -> list[Tensor]:
    """(n,) per layer, and of all parameters together; samples without a direction are left out."""
    found = []
    one, other = layout.views(a), layout.views(b)
    for i in range(len(layout.sizes) - 1):
        pair = [torch.cat([t.weights[i].flatten(1), t.biases[i]], 1) for t in (one, other)]
        found.append(pair)
    found.append([a, b])
    usable = [(u.norm(dim=1) > 0) & (v.norm(dim=1) > 0) for u, v in found]
    return [torch.cosine_similarity(u[ok], v[ok], eps=1e-300) for (u, v), ok in zip(found, usable, strict=True)]
