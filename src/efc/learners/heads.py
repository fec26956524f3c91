"""Head policies: what happens to the head's new rows when a task begins, for every learner alike.

`random` leaves them as they were drawn. `least_squares` sets them by ridge regression of the new classes' one-hot
targets on the features of the new task alone. In Class-IL this, not the learner, is most of what lifts the accuracy off
the floor: every result names its head policy.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

HEADS = ("random", "least_squares")


class RidgeMoments:
    """Second moments of features ``h`` (R, B, d) and targets ``Y`` (R, B, C) in float64: no sample is kept.

    ``A = sum [h 1]^T [h 1]`` and ``T = sum [h 1]^T Y``; :meth:`solve` gives ``argmin |[h 1] V - Y|^2 + ridge N |V|^2``.
    """

    def __init__(self) -> None:
        self.n = 0
        self.A = self.T = torch.empty(0)

    def add(self, h: Tensor, Y: Tensor) -> None:
        h = torch.cat([h.double(), torch.ones(*h.shape[:2], 1, dtype=torch.float64, device=h.device)], -1)
        A, T = h.transpose(1, 2) @ h, h.transpose(1, 2) @ Y.double()
        self.A, self.T = (A, T) if self.n == 0 else (self.A + A, self.T + T)
        self.n += h.shape[1]

    def solve(self, ridge: Tensor | float) -> tuple[Tensor, Tensor]:
        """Head weights (R, C, d) and biases (R, C); ``ridge`` may be (R, 1, 1).

        A run that has diverged (its system non-finite or singular) gets NaN and does not take its neighbours down.
        """
        eye = torch.eye(self.A.shape[-1], dtype=self.A.dtype, device=self.A.device)
        bad = ~torch.isfinite(self.A).all(-1).all(-1)[:, None, None]
        A = torch.where(bad, eye, self.A + ridge * self.n * eye)
        L, info = torch.linalg.cholesky_ex(A)
        V = torch.cholesky_solve(torch.where(bad, 0.0, self.T), L)
        V = torch.where(bad | (info != 0)[:, None, None], float("nan"), V).transpose(1, 2)
        return V[..., :-1], V[..., -1]


def least_squares_head(batches: Iterable[tuple[Tensor, Tensor]], ridge: Tensor | float) -> tuple[Tensor, Tensor]:
    """Ridge regression over (features, targets) batches: weights (R, C, d), biases (R, C)."""
    moments = RidgeMoments()
    for h, Y in batches:
        moments.add(h, Y)
    return moments.solve(ridge)
