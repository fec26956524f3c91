"""The equations once more, the slow and obvious way: one sample, numpy, float64, no shared code with the package."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import root

SIGMA: dict[str, tuple[Any, Any]] = {
    "relu": (lambda a: np.maximum(a, 0), lambda a: (a > 0).astype(float)),
    "softplus": (lambda a: np.logaddexp(0, a), lambda a: 1 / (1 + np.exp(-a))),
    "smooth_relu": (lambda a: np.logaddexp(0, 10 * a) / 10, lambda a: 1 / (1 + np.exp(-10 * a))),
    "tanh": (np.tanh, lambda a: 1 / np.cosh(a) ** 2),
    "sigmoid": (lambda a: 1 / (1 + np.exp(-a)), lambda a: np.exp(-a) / (1 + np.exp(-a)) ** 2),
}


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max())
    return e / e.sum()


@dataclass
class Sample:
    """One sample of one run: W, b, G (= beta dR/dW), Gb per layer; Q for learned feedback."""

    W: list[np.ndarray]
    b: list[np.ndarray]
    x: np.ndarray
    y: np.ndarray
    G: list[np.ndarray]
    Gb: list[np.ndarray]
    kappa: float
    k_p: float = 0.0
    lam: float = 0.01
    strong: bool = False
    activation: str = "relu"
    output: str = "softmax"
    feedback: str = "jacobian"
    form: str = "multiplicative"
    Q: list[np.ndarray] = field(default_factory=list)

    def free(self) -> tuple[list[np.ndarray], np.ndarray]:
        sigma, _ = SIGMA[self.activation]
        r = [self.x]
        for W, b in zip(self.W[:-1], self.b[:-1], strict=True):
            r.append(sigma(W @ r[-1] + b))
        return r[1:], self.W[-1] @ r[-1] + self.b[-1]

    def target(self) -> np.ndarray:
        z = self.free()[1]
        p = z if self.output == "linear" else softmax(z)
        return self.y if self.strong else p - self.lam * (p - self.y)

    def drive(self, r: list[np.ndarray], u: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """What r_1..r_{L-1} and the output should be, given that they are ``r`` and the controller says ``u``."""
        sigma, slope = SIGMA[self.activation]
        L = len(self.W)
        pre = [self.x, *r]
        a = [self.W[i] @ pre[i] + self.b[i] for i in range(L)]
        gamma = [-(self.G[i] @ pre[i] + self.Gb[i]) for i in range(L)]
        g: list[np.ndarray] = [np.zeros(0)] * (L - 1)
        below = u
        for i in range(L - 2, -1, -1):
            g[i] = self.W[i + 1].T @ below
            below = slope(a[i]) * g[i]
        new = []
        for i in range(L - 1):
            f = sigma(a[i])
            psi = {"jacobian": slope(a[i]) * g[i], "least_control": f * g[i]}.get(self.feedback)
            if self.feedback == "learned":
                psi = self.Q[i] @ u
            if self.form == "multiplicative":
                new.append(f * np.exp(psi + gamma[i]))
            elif self.form == "bounded":
                new.append(f * (1 + 0.1 * np.tanh(psi + gamma[i])))
            else:
                new.append(f + psi + slope(a[i]) * gamma[i])
        z = a[-1]
        psi_L = z * u if self.output != "softmax" and self.feedback == "least_control" else u
        s = psi_L + gamma[-1]
        if self.output == "softmax":
            return new, softmax(z + s)
        rate = z * (1 + 0.1 * np.tanh(s)) if self.form == "bounded" else z * np.exp(s)
        return new, rate if self.output == "linear" else softmax(rate)

    def pack(self, r: list[np.ndarray], u: np.ndarray) -> np.ndarray:
        return np.concatenate([*r, u])

    def unpack(self, v: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        parts = np.split(v, np.cumsum([len(W) for W in self.W[:-1]]))
        return parts[:-1], parts[-1]

    def equations(self, v: np.ndarray) -> np.ndarray:
        r, u = self.unpack(v)
        new, out = self.drive(r, u)
        return self.pack(new, self.kappa * (self.target() - out)) - v

    def equilibrium(self, near: np.ndarray | None = None) -> np.ndarray:
        """Rates and u by a general root finder, from the free state or a given one."""
        start = self.pack(self.free()[0], np.zeros_like(self.y)) if near is None else near
        found = root(self.equations, start, method="hybr", options={"xtol": 1e-13})
        assert np.abs(self.equations(found.x)).max() < 1e-9, "the oracle itself found no equilibrium"
        return found.x

    def relaxed(self, time: float = 400.0) -> np.ndarray:
        """Rates and u after integrating the differential equations for long, with an adaptive stiff integrator."""
        alpha = 1 / (self.kappa - self.k_p)
        r_free, z = self.free()
        out_free = z if self.output == "linear" else softmax(z)
        n = sum(len(r) for r in r_free)

        def derivative(_: float, s: np.ndarray) -> np.ndarray:
            r, rest = self.unpack(np.concatenate([s[:n], s[n : n + len(self.y)]]))
            r_L, v = rest, s[n + len(self.y) :]
            error = self.target() - r_L
            new, out = self.drive(r, v + self.k_p * error)
            return np.concatenate([*(b - a for a, b in zip(r, new, strict=True)), out - r_L, error - alpha * v])

        start = np.concatenate([*r_free, out_free, np.zeros_like(self.y)])
        end = solve_ivp(derivative, (0, time), start, method="LSODA", rtol=1e-10, atol=1e-12).y[:, -1]
        r_L, v = end[n : n + len(self.y)], end[n + len(self.y) :]
        return np.concatenate([end[:n], v + self.k_p * (self.target() - r_L)])
