"""The best that a linear head can make of given features: heads fitted to the data of all tasks at once.

No continual method has these data together. Such a head is an oracle, for diagnosis alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from efc.learners.ridge import RidgeMoments

L2S = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
"""The penalties that are tried, per sample, on features of deviation one; each begins where the one before ended."""
EVERY = 5
"""Of each class, every fifth sample is held out to choose among them."""
FLOOR = 0.1
"""A feature's deviation counts as no less than this share of the largest: one that is almost always silent is no loud
one in small units."""
STEPS = 500
"""Of L-BFGS at most."""
ENOUGH = (1e-4, 1e-6)
"""A gradient, in units of the loss's bending, and a change of the loss that are as good as none."""


@dataclass(frozen=True)
class LinearHead:
    """``z = W h + b`` with W (C, d) and b (C,)."""

    W: Tensor
    b: Tensor

    def __call__(self, H: Tensor) -> Tensor:
        """Outputs (N, C) for features (N, d)."""
        return H @ self.W.T + self.b


class Logistic:
    """Multinomial logistic regression of outputs y (N,) on features H (N, d), for one penalty after another.

        minimise  mean_n cross-entropy(W h_n + b, y_n) + l2 / 2 |W|^2

    by L-BFGS in the axes of the features' covariance S, in which ``(S / 2 + l2)^-1`` is a diagonal: the inverse of the
    most that the loss can bend (Boehning, 1992). In units of it a few dozen steps are enough.

    Args:
        H: features.
        y: outputs, below ``outputs``.
        outputs: how many there are, C.
        asked: (C, C), which outputs compete where output k is right; None: all of them.
    """

    def __init__(self, H: Tensor, y: Tensor, outputs: int, asked: Tensor | None = None) -> None:
        self.mean = H.mean(0)
        centred = H - self.mean
        covariance = (centred.T @ centred).double() / len(H)
        bends, axes = torch.linalg.eigh(covariance)
        self.bends, self.axes = bends.clamp_min(0.0).to(H.dtype), axes.to(H.dtype)
        self.Z = centred @ self.axes
        self.Y = torch.nn.functional.one_hot(y, outputs).to(H.dtype)
        self.out = None if asked is None else ~asked[y]
        self.W = H.new_zeros(outputs, H.shape[1])
        self.b = H.new_zeros(outputs)

    def fit(self, l2: float, enough: tuple[float, float] = ENOUGH) -> LinearHead:
        """The minimum, found from the last one on, as closely as ``enough`` asks."""
        units = (self.bends / 2 + l2).rsqrt()
        V, b = (self.W / units).requires_grad_(), self.b.clone().requires_grad_()
        search = torch.optim.LBFGS(
            [V, b], max_iter=STEPS, history_size=20, tolerance_grad=enough[0], tolerance_change=enough[1],
            line_search_fn="strong_wolfe",
        )  # fmt: skip

        def loss() -> float:
            W = V.detach() * units
            z = self.Z @ W.T + b.detach()
            if self.out is not None:
                z = z.masked_fill(self.out, float("-inf"))
            logs = torch.log_softmax(z, -1)
            error = (logs.exp() - self.Y) / len(z)
            V.grad, b.grad = (error.T @ self.Z + l2 * W) * units, error.sum(0)
            right = logs.masked_fill(self.Y == 0, 0.0).double().sum()
            return float(l2 / 2 * W.double().square().sum() - right / len(z))

        search.step(loss)
        self.W, self.b = V.detach() * units, b.detach()
        W = self.W @ self.axes.T
        return LinearHead(W, self.b - W @ self.mean)


@dataclass(frozen=True)
class Oracle:
    """Two heads that have seen everything."""

    logistic: LinearHead
    l2: float
    """The penalty, chosen on held-out training data."""
    ridge: LinearHead


def held_out(y: Tensor) -> Tensor:
    """(N,): every fifth sample of each class."""
    held = torch.zeros_like(y, dtype=torch.bool)
    for k in torch.unique(y):
        held[(y == k).nonzero().flatten()[EVERY - 1 :: EVERY]] = True
    return held


def oracle(H: Tensor, y: Tensor, outputs: int, asked: Tensor | None = None) -> Oracle:
    """Heads on features H (N, d) for outputs y (N,): ``asked`` (C, C) says which compete where output k is right.

    The logistic head's features are brought to a deviation of one; its penalty is the one that errs least on a fifth of
    the data when fitted to the others, and it is then fitted to all. The ridge is chosen by generalised
    cross-validation.
    """
    deviation = H.std(0, correction=0)
    scale = deviation.clamp_min(FLOOR * float(deviation.max())).clamp_min(1e-12)
    scaled, held = H / scale, held_out(y)
    l2 = _chosen(scaled, y, held, outputs, asked) if bool(held.any()) else L2S[len(L2S) // 2]
    fitted = Logistic(scaled, y, outputs, asked).fit(l2)
    return Oracle(LinearHead(fitted.W / scale, fitted.b), l2, ridge_head(H, y, outputs))


def _chosen(H: Tensor, y: Tensor, held: Tensor, outputs: int, asked: Tensor | None) -> float:
    """The penalty of the fewest errors on held-out samples; of several, that of the least cross-entropy."""
    fit = Logistic(H[~held], y[~held], outputs, asked)
    scores = []
    for l2 in L2S:
        z = fit.fit(l2)(H[held]).double()
        if asked is not None:
            z = z.masked_fill(~asked[y[held]], float("-inf"))
        right = float((z.argmax(-1) == y[held]).double().mean())
        scores.append((right, -float(torch.nn.functional.cross_entropy(z, y[held])), l2))
    return max(scores)[2]


def ridge_head(H: Tensor, y: Tensor, outputs: int) -> LinearHead:
    """Ridge regression on one-hot outputs: what an analytic head would be if its moments had never gone stale."""
    moments = RidgeMoments(1, H.shape[1], outputs, H.device)
    moments.add(H.unsqueeze(0), torch.nn.functional.one_hot(y, outputs).unsqueeze(0))
    W, b = moments.solve(moments.best_ridge())
    return LinearHead(W[0].to(H), b[0].to(H))
