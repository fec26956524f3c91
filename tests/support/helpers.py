"""Small random problems, as a batch for the package and, sample by sample, for the oracle."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from efc.core import Controller, Dynamics, Layout, Parameters, System, build
from support.oracle import Sample


@dataclass
class Problem:
    """R runs of B samples on a random net, with random preservation terms of size ``beta``."""

    sizes: tuple[int, ...] = (5, 6, 4)
    R: int = 2
    B: int = 3
    seed: int = 0
    beta: float = 0.05
    kappa: float = 0.5
    k_p: float = 0.0
    lam: float = 0.1
    target: str = "weak"
    dynamics: dict[str, str] = field(default_factory=dict)
    dtype: torch.dtype = torch.float64
    device: str = os.environ.get("EFC_TEST_DEVICE", "cpu")
    """Where the package works; the oracle always works on the CPU."""

    def __post_init__(self) -> None:
        g = torch.Generator().manual_seed(self.seed)
        self.layout = Layout(self.sizes)
        P, C = self.layout.n_parameters, self.sizes[-1]
        self.theta = 0.6 * torch.randn(self.R, P, generator=g, dtype=torch.float64)
        self.terms = self.beta * torch.randn(self.R, P, generator=g, dtype=torch.float64)
        self.x = torch.rand(self.R, self.B, self.sizes[0], generator=g, dtype=torch.float64)
        labels = torch.randint(C, (self.R, self.B), generator=g)
        self.y = torch.nn.functional.one_hot(labels, C).double()
        self.Q = self._feedback(g)
        for name in ("theta", "terms", "x", "y"):
            setattr(self, name, getattr(self, name).to(self.device, self.dtype))
        self.Q = [Q.to(self.device) for Q in self.Q]

    def _feedback(self, g: torch.Generator) -> list[Tensor]:
        """Feedback weights that roughly follow the transposed forward ones, as learned ones would."""
        Q: list[Tensor] = []
        for W in reversed(self.layout.views(self.theta).weights[1:]):
            below = W.transpose(1, 2) if not Q else 0.5 * W.transpose(1, 2) @ Q[0]
            Q.insert(0, below + 0.1 * torch.randn(below.shape, generator=g, dtype=below.dtype))
        return Q

    def system(self, **changes: Any) -> System:
        o = {"kappa": self.kappa, "k_p": self.k_p, "lam": self.lam, "target": self.target} | changes
        dynamics = Dynamics(**({"feedback": "jacobian"} | self.dynamics))
        return build(
            dynamics,
            self.layout.views(self.theta),
            self.x,
            self.y,
            Controller.from_gain(o["kappa"], o["k_p"]),
            lam=o["lam"],
            target=o["target"],
            terms=self.layout.views(self.terms) if self.beta else None,
            Q=self.Q if dynamics.feedback == "learned" else (),
        )

    def sample(self, run: int, b: int) -> Sample:
        W, bias = _run(self.layout.views(self.theta), run)
        G, Gb = _run(self.layout.views(self.terms), run)
        return Sample(
            W, bias, self.x[run, b].cpu().numpy(), self.y[run, b].cpu().numpy(), G, Gb,
            kappa=self.kappa, k_p=self.k_p, lam=self.lam, strong=self.target == "strong",
            Q=[Q[run].cpu().numpy() for Q in self.Q], **({"feedback": "jacobian"} | self.dynamics),
        )  # fmt: skip


def _run(layers: Parameters, run: int) -> tuple[list[Any], list[Any]]:
    return [W[run].cpu().numpy() for W in layers.weights], [b[run].cpu().numpy() for b in layers.biases]


def packed(solution: Any, run: int, b: int) -> Any:
    """Hidden rates and u of one sample, in the oracle's order."""
    hidden = solution.rates[:-1]
    return torch.cat([*(r[run, b] for r in hidden), solution.u[run, b]]).cpu().numpy()


def flat(parameters: Parameters) -> Tensor:
    """(R, P) copy of per-layer tensors, weights first."""
    return torch.cat([t.flatten(1) for t in (*parameters.weights, *parameters.biases)], 1)
