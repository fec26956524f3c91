"""Task B's loss with a quadratic penalty: where it comes to rest, and where Newton's formula says it should."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from efc.streams.split import Part
from efc.theory.rows import mean_gradient
from efc.theory.situation import Situation, one_hot


@dataclass(frozen=True)
class Penalised:
    """``L_B(theta) + 1/2 (theta - anchor)^T diag(strength) (theta - anchor)`` over the samples of ``part``, one run."""

    situation: Situation
    part: Part
    anchor: Tensor
    strength: Tensor

    def times(self, factor: float) -> Penalised:
        return replace(self, strength=factor * self.strength)

    def loss(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Task B's loss and its gradient (P,)."""
        s = self.situation
        y = one_hot(self.part.y, s.classes, theta)
        loss, gradient = mean_gradient(s.layout, theta.unsqueeze(0), s.sigma, self.part.x, y, s.classes)
        return loss[0], gradient[0]

    def gradient(self, theta: Tensor) -> Tensor:
        return self.loss(theta)[1]

    def pull(self, theta: Tensor) -> Tensor:
        """``grad R``."""
        return self.strength * (theta - self.anchor)

    def bend(self, v: Tensor, h: float = 1e-5) -> Tensor:
        """``H_B v`` at the anchor, by central differences of the gradient (float64)."""
        size = float(v.norm())
        if size == 0:
            return torch.zeros_like(v)
        step = h / size * v
        return (self.gradient(self.anchor + step) - self.gradient(self.anchor - step)) * (size / (2 * h))


def rest(problem: Penalised, steps: int = 400, tol: float = 1e-7) -> tuple[Tensor, float]:
    """A stationary point, from the anchor, by L-BFGS in coordinates in which the penalty is round; and what is left
    of the gradient there, of its length at the anchor."""
    scale = problem.strength.rsqrt()
    v = torch.zeros_like(problem.anchor).requires_grad_()
    # The line search of torch's L-BFGS wants a closure that leaves the gradient behind.
    optimiser = torch.optim.LBFGS(
        [v], max_iter=steps, tolerance_grad=tol, tolerance_change=0.0, history_size=30, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        with torch.no_grad():
            loss, gradient = problem.loss(problem.anchor + scale * v)
            v.grad = scale * gradient + v
            return loss + 0.5 * v.square().sum()

    optimiser.step(closure)
    end = problem.anchor + scale * v.detach()
    left = (scale * (problem.gradient(end) + problem.pull(end))).norm() / (
        scale * problem.gradient(problem.anchor)
    ).norm()
    return end, float(left)


def coupled(problem: Penalised, steps: int = 300, tol: float = 1e-6) -> Tensor | None:
    """``-(H_B + diag(strength))^{-1} grad L_B`` at the anchor by conjugate gradients; None where the quadratic model
    bends downwards, so that it has no minimum."""
    positive = problem.strength > 0
    scale = torch.where(positive, problem.strength, problem.strength[positive].min()).rsqrt()
    residual = -scale * problem.gradient(problem.anchor)
    x, direction = torch.zeros_like(residual), residual
    size = start = float(residual.square().sum())
    for _ in range(steps):
        back = scale * direction
        image = scale * (problem.bend(back) + problem.strength * back)
        along = float(direction @ image)
        if along <= 0:
            return None
        x = x + size / along * direction
        residual = residual - size / along * image
        new = float(residual.square().sum())
        if new < tol**2 * start:
            break
        direction, size = residual + new / size * direction, new
    return scale * x
