"""Optimisers on a flat (R, P) parameter tensor with one learning rate per run.

torch's own take one rate per tensor; here R runs share a tensor and may differ in their rate.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.optim.adam import adam


class Optimiser(Protocol):
    """``step`` says what to subtract from the parameters for a gradient (R, P) and rates (R, 1)."""

    def step(self, gradient: Tensor, lr: Tensor) -> Tensor: ...

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state: dict[str, Tensor]) -> None: ...


class Adam:
    """Adam (Kingma & Ba, 2015) without weight decay: torch's fused kernel at rate one, times each run's own."""

    def __init__(self, theta: Tensor) -> None:
        self.unit, self.m, self.v = (torch.zeros_like(theta) for _ in range(3))
        self.t = torch.zeros((), device=theta.device)

    def step(self, gradient: Tensor, lr: Tensor) -> Tensor:
        adam(
            [self.unit.zero_()], [gradient], [self.m], [self.v], [], [self.t], fused=True, capturable=gradient.is_cuda,
            amsgrad=False, beta1=0.9, beta2=0.999, lr=1.0, weight_decay=0.0, eps=1e-8, maximize=False,
        )  # fmt: skip
        return self.unit.mul_(-lr)

    def state_dict(self) -> dict[str, Tensor]:
        return {"m": self.m, "v": self.v, "t": self.t}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for name, tensor in self.state_dict().items():
            tensor.copy_(state[name])


class SGD:
    """Stochastic gradient descent with heavy-ball momentum; without any, plain descent."""

    def __init__(self, theta: Tensor, momentum: float = 0.9) -> None:
        self.momentum = momentum
        self.velocity = torch.zeros_like(theta)

    def step(self, gradient: Tensor, lr: Tensor) -> Tensor:
        self.velocity.mul_(self.momentum).add_(gradient)
        return self.velocity * lr

    def state_dict(self) -> dict[str, Tensor]:
        return {"velocity": self.velocity}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.velocity.copy_(state["velocity"])


def make_optimiser(name: str, theta: Tensor, momentum: float = 0.9) -> Optimiser:
    return Adam(theta) if name == "adam" else SGD(theta, momentum)
