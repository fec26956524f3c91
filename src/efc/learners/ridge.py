"""Ridge regression from second moments: what the analytic heads and the closed form are made of."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from efc.learners.state import Stored


class RidgeMoments(Stored):
    """Second moments of features ``h`` (R, B, d) and targets ``Y`` (R, B, C) in float64: no sample is kept.

    ``A = sum [h 1]^T [h 1]`` and ``T = sum [h 1]^T Y``; :meth:`solve` gives ``argmin |[h 1] V - Y|^2 + ridge N |V|^2``.
    """

    stored = ("A", "T", "n")

    def __init__(self, runs: int, d: int, C: int, device: torch.device | str = "cpu") -> None:
        self.A = torch.zeros(runs, d + 1, d + 1, dtype=torch.float64, device=device)
        self.T = torch.zeros(runs, d + 1, C, dtype=torch.float64, device=device)
        self.n = torch.zeros((), dtype=torch.float64, device=device)

    def add(self, batches: Iterable[tuple[Tensor, Tensor]]) -> RidgeMoments:
        for h, Y in batches:
            h1 = torch.cat([h.double(), torch.ones(*h.shape[:2], 1, dtype=torch.float64, device=h.device)], -1)
            self.A.baddbmm_(h1.transpose(1, 2), h1)
            self.T.baddbmm_(h1.transpose(1, 2), Y.double())
            self.n += h.shape[1]
        return self

    def add_with_inputs(self, x: Tensor, h: Tensor, Y: Tensor) -> None:
        """The same for features ``[x h]``, x (B, d_0) shared by all runs: its own moments are worked out once."""
        d, x, Y = x.shape[-1], x.double(), Y.double()
        h1 = torch.cat([h.double(), torch.ones(*h.shape[:2], 1, dtype=torch.float64, device=h.device)], -1)
        cross = torch.matmul(x.T, h1)
        self.A[:, :d, :d] += x.T @ x
        self.A[:, :d, d:] += cross
        self.A[:, d:, :d] += cross.transpose(1, 2)
        self.A[:, d:, d:] += torch.bmm(h1.transpose(1, 2), h1)
        self.T[:, :d] += torch.matmul(x.T, Y)
        self.T[:, d:] += torch.bmm(h1.transpose(1, 2), Y)
        self.n += h.shape[1]

    def of_last(self, d: int) -> RidgeMoments:
        """What these are for the last ``d`` features alone."""
        part = RidgeMoments(0, 0, 0)
        part.A, part.T, part.n = self.A[:, -d - 1 :, -d - 1 :], self.T[:, -d - 1 :], self.n
        return part

    def copy(self) -> RidgeMoments:
        """The same, to be changed without changing these."""
        found = RidgeMoments(0, 0, 0)
        found.A, found.T, found.n = self.A.clone(), self.T.clone(), self.n.clone()
        return found

    def merge(self, other: RidgeMoments) -> RidgeMoments:
        """Take in what another one has seen."""
        self.A += other.A
        self.T += other.T
        self.n += other.n
        return self

    def carry(self, W: Tensor, b: Tensor) -> RidgeMoments:
        """The moments of the same samples after their features have changed by ``h -> h + h W^T + b``.

        ``[h 1]_new = [h 1] M`` gives ``A_new = M^T A M`` and ``T_new = M^T T``; W = b = 0 changes nothing, bit for bit.
        W (R, k, d) and b (R, k) with k < d change the last k features.
        """
        M = torch.eye(self.A.shape[-1], dtype=self.A.dtype, device=self.A.device).repeat(len(self.A), 1, 1)
        changed = slice(-1 - b.shape[-1], -1)
        M[:, :-1, changed] += W.transpose(1, 2)
        M[:, -1, changed] += b
        self.A = torch.bmm(M.transpose(1, 2), torch.bmm(self.A, M))
        self.T = torch.bmm(M.transpose(1, 2), self.T)
        return self

    def best_ridge(self) -> Tensor:
        """The ridge (R, 1, 1) of the least error by generalised cross-validation."""
        return self.cross_validated()[0].reshape(-1, 1, 1)

    def cross_validated(self) -> tuple[Tensor, Tensor]:
        """The ridge (R,) of the least error by generalised cross-validation, and that error (R,), for one-hot targets.

        With ``A = U diag(w) U^T`` and ``u = diag(w)^-1/2 U^T T`` the squared residuals are
        ``N - |u|^2 + sum (q u)^2``, because every sample's target has the square one, and the degrees of freedom that
        are left ``N - rank + sum q``, with ``q = ridge N / (w + ridge N)``: ``GCV = residuals / left^2`` needs no
        sample (Golub, Heath & Wahba, 1979).
        """
        n = self.n.clamp_min(1.0)
        finite = torch.isfinite(self.A).all(-1).all(-1)[:, None, None]
        w, U = torch.linalg.eigh(torch.where(finite, self.A, 0.0))
        real = w > w[:, -1:] * w.shape[1] * torch.finfo(w.dtype).eps
        seen = torch.bmm(U.transpose(1, 2), torch.where(finite, self.T, 0.0)).square().sum(-1)
        u = torch.where(real, seen / w.clamp_min(1e-300), 0.0)
        ridges = torch.logspace(-8, 0, 33, dtype=torch.float64, device=w.device)[:, None, None] * n
        q = ridges / (torch.where(real, w, 1.0) + ridges)
        residuals = (n - u.sum(-1)).clamp_min(0.0) + (q.square() * u).sum(-1)
        left = (n - real.sum(-1)).clamp_min(0.0) + torch.where(real, q, 0.0).sum(-1)
        error, best = (n * residuals / left.square()).min(0)
        return (ridges[:, 0, 0] / n)[best], torch.where(finite[:, 0, 0], error, float("inf"))

    def error(self, V: Tensor) -> Tensor:
        """(R,): the summed squared error of weights V (R, d + 1, C) on the samples these are the moments of; one-hot
        targets."""
        return self.n - 2 * (V * self.T).sum((1, 2)) + (V * torch.bmm(self.A, V)).sum((1, 2))

    def solve(self, ridge: Tensor | float, targets: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """Weights (R, C, d) and biases (R, C) for some or all of the targets; ``ridge`` may be (R, 1, 1).

        By Cholesky of the matrix scaled to a unit diagonal, and by its eigenvalues where it is singular to working
        precision. A run that has diverged gets NaN and does not take its neighbours down.
        """
        eye = torch.eye(self.A.shape[-1], dtype=self.A.dtype, device=self.A.device)
        A = self.A + ridge * self.n * eye
        bad = ~torch.isfinite(A).all(-1).all(-1)[:, None, None]
        A, T = torch.where(bad, eye, A), torch.where(bad, 0.0, self.T[..., targets])
        scale = A.diagonal(dim1=1, dim2=2).clamp_min(1e-300).rsqrt().unsqueeze(-1)
        A, T = scale * A * scale.transpose(1, 2), scale * T
        L, info = torch.linalg.cholesky_ex(A)
        V = torch.cholesky_solve(T, L)
        singular = (info != 0)[:, None, None]
        if bool(singular.any()):
            V = torch.where(singular, _least_norm(A, T), V)
        V = torch.where(bad, float("nan"), scale * V).transpose(1, 2)
        return V[..., :-1], V[..., -1]


def _least_norm(A: Tensor, T: Tensor) -> Tensor:
    """``A^+ T`` for symmetric A: directions in which A is zero to working precision are left out."""
    values, vectors = torch.linalg.eigh(A)
    cut = values[:, -1:] * A.shape[-1] * torch.finfo(A.dtype).eps
    inverse = torch.where(values > cut, 1.0 / values.clamp_min(cut), 0.0)
    return torch.bmm(vectors, inverse.unsqueeze(-1) * torch.bmm(vectors.transpose(1, 2), T))
