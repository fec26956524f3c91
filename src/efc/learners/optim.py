"""Optimisers on a flat (R, P) parameter tensor with one learning rate per run.

torch's own take one rate per tensor; here R runs share a tensor and may differ in their rate.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Optimiser(Protocol):
    """``step`` subtracts something along ``gradient`` from ``theta``, in place, and returns what it subtracted."""

    def step(self, theta: Tensor, gradient: Tensor, lr: Tensor) -> Tensor: ...

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state: dict[str, Tensor]) -> None: ...


class Adam:
    """Adam (Kingma & Ba, 2015) without weight decay."""

    beta1, beta2, eps = 0.9, 0.999, 1e-8

    def __init__(self, theta: Tensor) -> None:
        self.m, self.v = torch.zeros_like(theta), torch.zeros_like(theta)
        self.t = 0

    def step(self, theta: Tensor, gradient: Tensor, lr: Tensor) -> Tensor:
        self.t += 1
        self.m.lerp_(gradient, 1 - self.beta1)
        self.v.mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
        denominator = self.v.sqrt().div_((1 - self.beta2**self.t) ** 0.5).add_(self.eps)
        step = (self.m / denominator).mul_(lr / (1 - self.beta1**self.t))
        theta.sub_(step)
        return step

    def state_dict(self) -> dict[str, Tensor]:
        return {"m": self.m, "v": self.v, "t": torch.tensor(self.t)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.m.copy_(state["m"])
        self.v.copy_(state["v"])
        self.t = int(state["t"])


class SGD:
    """Stochastic gradient descent with heavy-ball momentum."""

    momentum = 0.9

    def __init__(self, theta: Tensor) -> None:
        self.velocity = torch.zeros_like(theta)

    def step(self, theta: Tensor, gradient: Tensor, lr: Tensor) -> Tensor:
        self.velocity.mul_(self.momentum).add_(gradient)
        step = self.velocity * lr
        theta.sub_(step)
        return step

    def state_dict(self) -> dict[str, Tensor]:
        return {"velocity": self.velocity}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.velocity.copy_(state["velocity"])


def make_optimiser(name: str, theta: Tensor) -> Optimiser:
    return Adam(theta) if name == "adam" else SGD(theta)
