"""The multiplicative least-control problem of one sample, solved exactly: the least ``|psi|`` that reaches a target.

    minimise 1/2 sum_i |psi_i|^2   subject to   r_i = f_i exp(psi_i + gamma_i),   softmax(z + psi_L + gamma_L) = r*

``f_i = sigma(W_i r_{i-1} + b_i)`` is the feed-forward rate, so this is the constraint ``phi = e^psi f`` of the
paper's dynamics; its supplement writes ``e^psi f = 1``, which is the same with ``f / phi`` in the place of ``f``. The
output's constraint leaves ``psi_L = log r* - z - gamma_L`` up to a constant; the least one has mean zero. What remains
is a minimum over the hidden signals alone, without constraints, found by Newton's method per sample in float64.

``form="additive"``: ``r_i = f_i + psi_i`` in the hidden layers, for comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.func import grad, jacrev, vmap

from efc.core.activations import Activation
from efc.core.network import Layout, Parameters

_STUCK = 1e6
"""Damping from which a sample is given up: it sits on a kink."""
_ACCEPT = 1e-13
"""Rounding that a step's cost may rise by."""


@dataclass(frozen=True)
class Problem:
    """One net and n samples. ``theta`` (P,) in float64, ``x`` (n, d_0), ``target`` (n, C), positive."""

    layout: Layout
    theta: Tensor
    sigma: Activation
    x: Tensor
    target: Tensor
    form: str = "multiplicative"
    pull: Tensor | None = None
    """``beta F`` (P,), strengths included: ``gamma_i = -(pull * (theta - anchor))_i . [r_{i-1} 1]``."""
    anchor: Tensor | None = None

    @property
    def hidden(self) -> tuple[int, ...]:
        return self.layout.sizes[1:-1]

    def at(self, theta: Tensor) -> Problem:
        """The same samples and targets at other parameters."""
        return replace(self, theta=theta)

    def some(self, which: Tensor) -> Problem:
        """Some of the samples, by number or by booleans."""
        return replace(self, x=self.x[which], target=self.target[which])

    def costs(self, psi: Tensor, theta: Tensor) -> Tensor:
        """(n,): half the squared effort for hidden signals ``psi`` (n, N), the output's following from them."""
        layers, terms = self._layers(theta)

        def one(signals: Tensor, x: Tensor, target: Tensor) -> Tensor:
            _, psi_L = _ascend(self, layers, terms, signals, x, target)
            return 0.5 * signals.square().sum() + 0.5 * psi_L.square().sum()

        return vmap(one)(psi, self.x, self.target)

    def states(self, psi: Tensor) -> tuple[list[State], Tensor]:
        """Every hidden layer under the signals (n, N), and ``psi_L`` (n, C)."""
        layers, terms = self._layers(self.theta)
        return vmap(lambda s, x, t: _ascend(self, layers, terms, s, x, t))(psi, self.x, self.target)

    def _layers(self, theta: Tensor) -> tuple[Parameters, Parameters | None]:
        layers = _single(self.layout, theta)
        if self.pull is None or self.anchor is None:
            return layers, None
        return layers, _single(self.layout, self.pull * (theta - self.anchor))


State = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""Of a hidden layer: a, f, r, psi, gamma."""


def _single(layout: Layout, flat: Tensor) -> Parameters:
    """Layers without a run axis."""
    layers = layout.views(flat.unsqueeze(0))
    return Parameters(tuple(W[0] for W in layers.weights), tuple(b[0] for b in layers.biases))


def _ascend(
    problem: Problem, layers: Parameters, terms: Parameters | None, psi: Tensor, x: Tensor, target: Tensor
) -> tuple[list[State], Tensor]:
    """One sample's hidden layers, and the output signal that the target then needs."""
    states: list[State] = []
    r = x
    for i, signal in enumerate(psi.split(problem.hidden)):
        a, gamma = _arrive(layers, terms, i, r)
        f = problem.sigma.rate(a)
        r = f + signal + gamma if problem.form == "additive" else f * torch.exp(signal + gamma)
        states.append((a, f, r, signal, gamma))
    z, gamma = _arrive(layers, terms, len(problem.hidden), r)
    missing = target.log() - z - gamma
    return states, missing - missing.mean()


def _arrive(layers: Parameters, terms: Parameters | None, i: int, r: Tensor) -> tuple[Tensor, Tensor]:
    a = layers.weights[i] @ r + layers.biases[i]
    return a, torch.zeros_like(a) if terms is None else -(terms.weights[i] @ r + terms.biases[i])


@dataclass(frozen=True)
class Optimum:
    """The least control of every sample."""

    problem: Problem
    psi: Tensor
    """(n, N): the hidden signals."""
    settled: Tensor
    """(n,): whether the gradient vanishes; on a kink of a ReLU it does not."""
    _states: tuple[list[State], Tensor] = field(repr=False)

    def some(self, which: Tensor) -> Optimum:
        """Some of the samples."""
        problem = self.problem.some(which)
        return Optimum(problem, self.psi[which], self.settled[which], problem.states(self.psi[which]))

    @property
    def hidden(self) -> list[State]:
        return self._states[0]

    @property
    def psi_L(self) -> Tensor:
        return self._states[1]

    @property
    def signals(self) -> list[Tensor]:
        """``psi_1..psi_L``."""
        return [*(state[3] for state in self.hidden), self.psi_L]

    @property
    def presynaptic(self) -> list[Tensor]:
        """``r_0..r_{L-1}``."""
        return [self.problem.x, *(state[2] for state in self.hidden)]

    @property
    def effort(self) -> Tensor:
        """(n,): ``|psi|^2``."""
        return self.psi.square().sum(1) + self.psi_L.square().sum(1)


def least_control(problem: Problem, start: Tensor | None = None, tol: float = 1e-9, max_steps: int = 60) -> Optimum:
    """Newton's method, every sample with a damping of its own (Levenberg, Marquardt), from ``start`` or from rest."""
    n, N = problem.x.shape[0], sum(problem.hidden)
    psi = problem.x.new_zeros(n, N) if start is None else start.clone()
    if N == 0:
        return Optimum(problem, psi, torch.ones_like(psi.sum(1), dtype=torch.bool), problem.states(psi))

    def one(signals: Tensor, x: Tensor, target: Tensor) -> Tensor:
        single = replace(problem, x=x.unsqueeze(0), target=target.unsqueeze(0))
        return single.costs(signals.unsqueeze(0), problem.theta)[0]

    slope, curvature = vmap(grad(one)), vmap(jacrev(grad(one)))
    damping = torch.zeros_like(psi[:, 0])
    eye = torch.eye(N, dtype=psi.dtype, device=psi.device)
    active = torch.arange(n, device=psi.device)
    settled = torch.zeros_like(damping, dtype=torch.bool)
    for _ in range(max_steps):
        some = problem.some(active)
        g = slope(psi[active], some.x, some.target)
        done = g.norm(dim=1) <= tol * (1 + psi[active].norm(dim=1))
        settled[active[done]] = True
        going = ~done & (damping[active] < _STUCK)
        active, g = active[going], g[going]
        if len(active) == 0:
            break
        some, here = problem.some(active), psi[active]
        H = curvature(here, some.x, some.target) + damping[active, None, None] * eye
        step, failed = torch.linalg.solve_ex(H, g.unsqueeze(-1))
        trial = here - step.squeeze(-1)
        before, after = some.costs(here, problem.theta), some.costs(trial, problem.theta)
        better = (after <= before * (1 + _ACCEPT)) & (failed == 0)
        psi[active[better]] = trial[better]
        old = damping[active]
        damping[active] = torch.where(better, torch.where(old > 1e-3, old / 8, 0), (4 * old).clamp_min(0.1))
    return Optimum(problem, psi, settled, problem.states(psi))


def theorem_deltas(optimum: Optimum) -> list[Tensor]:
    """``d(1/2 |psi|^2)/da_i`` by the theorem, ``-psi_i sigma'(a_i) / f_i``, output ``-psi_L``; times r_{i-1}: dW_i.

    This is ``log(f/phi)^T d log f / d theta``: the printed formula with ``f / phi`` (less gamma) for ``f``. A silent
    unit has no say.
    """
    sigma = optimum.problem.sigma
    found = []
    for a, f, _, psi, _ in optimum.hidden:
        found.append(torch.where(f > 0, -psi * sigma.slope(a, f) / f.clamp_min(1e-300), torch.zeros_like(f)))
    return [*found, -optimum.psi_L]


def printed_deltas(optimum: Optimum) -> list[Tensor]:
    """The formula to the letter, ``log f^T d log f / d theta`` with f the feed-forward rates; silent units left out."""
    sigma = optimum.problem.sigma
    found = []
    for a, f, _, _, _ in optimum.hidden:
        safe = f.clamp_min(1e-300)
        found.append(torch.where(f > 0, safe.log() * sigma.slope(a, f) / safe, torch.zeros_like(f)))
    z = optimum.problem.target.log() - optimum.psi_L
    log_p = torch.log_softmax(z, -1)
    return [*found, log_p - log_p.exp() * log_p.sum(-1, keepdim=True)]


def exact_gradient(optimum: Optimum, weights: Tensor | None = None) -> Tensor:
    """(P,): ``d/dtheta mean_n 1/2 |psi*|^2`` by automatic differentiation; the minimum makes the hidden part drop out.

    Holds with a preservation signal too, whose own dependence on the parameters is then included. ``weights`` (n,)
    take the place of 1/n.
    """
    p = optimum.problem
    weights = torch.full_like(optimum.psi_L[:, 0], 1 / len(p.x)) if weights is None else weights
    gradient: Tensor = grad(lambda theta: (weights * p.costs(optimum.psi, theta)).sum())(p.theta)
    return gradient


def optimal_feedback(optimum: Optimum, kind: str) -> list[Tensor]:
    """``Q_1..Q_L`` (n, d_i, C) at the optimum's state, of which ``psi = Q u`` should be a combination.

    ``jacobian``: ``J_i^T`` with the unit's own slope; ``least_control``: ``diag(f_i) Z_i^T``, both with bare weights
    as the controller has them; ``exact``: ``diag(r_i) Z_i^T`` with Z_i the derivative at the controlled state.
    """
    p = optimum.problem
    layers = _single(p.layout, p.theta)
    n, C = optimum.psi_L.shape
    identity = torch.eye(C, dtype=p.theta.dtype, device=p.theta.device).expand(n, C, C)
    found = [identity]
    below = layers.weights[-1].T.expand(n, -1, -1)
    for i in range(len(p.hidden) - 1, -1, -1):
        a, f, r, psi, gamma = optimum.hidden[i]
        slope = p.sigma.slope(a, f)
        factor = {"jacobian": slope, "least_control": f, "exact": r}[kind]
        found.insert(0, factor.unsqueeze(2) * below)
        passed = slope * torch.exp(psi + gamma) if kind == "exact" else slope
        below = layers.weights[i].T @ (passed.unsqueeze(2) * below)
    return found


def outside(signals: Sequence[Tensor], Q: Sequence[Tensor]) -> Tensor:
    """(n,): the share of ``|psi|`` that lies outside the column space of the stacked Q."""
    psi, columns = torch.cat(list(signals), 1), torch.cat(list(Q), 1)
    basis, values, _ = torch.linalg.svd(columns, full_matrices=False)
    basis = basis * (values > 1e-10 * values[:, :1]).unsqueeze(1)
    inside = basis @ (basis.transpose(1, 2) @ psi.unsqueeze(-1))
    share: Tensor = (psi - inside.squeeze(-1)).norm(dim=1) / psi.norm(dim=1)
    return share


def feedforward_jacobian(optimum: Optimum) -> Tensor:
    """(n, N, N): ``df/dphi`` of all layers together, output included, at the controlled state.

    One block below the diagonal per layer: what the paper's column-space theorem inverts.
    """
    p = optimum.problem
    layers = _single(p.layout, p.theta)
    sizes = p.layout.sizes[1:]
    n = len(p.x)
    J = p.theta.new_zeros(n, sum(sizes), sum(sizes))
    row, column = sizes[0], 0
    for i in range(1, len(sizes)):
        slope = None if i == len(sizes) - 1 else p.sigma.slope(optimum.hidden[i][0], optimum.hidden[i][1])
        W = layers.weights[i].expand(n, -1, -1)
        J[:, row : row + sizes[i], column : column + sizes[i - 1]] = W if slope is None else slope.unsqueeze(2) * W
        row, column = row + sizes[i], column + sizes[i - 1]
    return J


def same_units(one: Optimum, other: Optimum) -> Tensor:
    """(n,): whether the same units are on."""
    same = [((a[1] > 0) == (b[1] > 0)).all(1) for a, b in zip(one.hidden, other.hidden, strict=True)]
    return torch.stack(same).all(0) if same else torch.ones_like(one.settled)


def only_layer(layout: Layout, flat: Tensor, layer: int) -> Tensor:
    """The part of a (P,) direction that belongs to one layer."""
    kept = torch.zeros_like(flat)
    old, new = layout.views(flat.unsqueeze(0)), layout.views(kept.unsqueeze(0))
    new.weights[layer].copy_(old.weights[layer])
    new.biases[layer].copy_(old.biases[layer])
    return kept


def selectivity(optimum: Optimum) -> dict[str, Tensor]:
    """How the hidden effort is spread: its rank correlation with the rates, its share on silent units,
    and the squared change of the rates; (n,) each."""
    f = torch.cat([state[1] for state in optimum.hidden], 1)
    r = torch.cat([state[2] for state in optimum.hidden], 1)
    spent = optimum.psi.square()
    silent = (spent * (f == 0)).sum(1) / spent.sum(1)
    each = [rank_correlation(row[on > 0], on[on > 0]) for row, on in zip(spent, f, strict=True)]
    return {
        "correlation": torch.tensor(each, dtype=f.dtype, device=f.device),
        "silent": silent,
        "displacement": (r - f).square().sum(1),
    }


def rank_correlation(a: Tensor, b: Tensor) -> float:
    """Spearman's."""
    ranks = torch.stack([t.argsort().argsort().double() for t in (a, b)])
    return float(torch.corrcoef(ranks)[0, 1]) if len(a) > 1 else 0.0
