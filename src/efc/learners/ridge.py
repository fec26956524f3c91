"""Ridge regression from second moments: what the analytic heads and the closed form are made of."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from efc.core.moments import with_one
from efc.learners.inputs import Change
from efc.learners.state import Stored


class RidgeMoments(Stored):
    """Second moments of features ``h`` (R, B, d) and targets ``Y`` (R, B, C) in float64: no sample is kept.

    ``A = sum [h 1]^T [h 1]`` and ``T = sum [h 1]^T Y``; :meth:`solve` gives ``argmin |[h 1] V - Y|^2 + ridge N |V|^2``.
    Where samples have weights, the sums are weighted, and N is the sum of the weights.
    """

    stored: ClassVar[tuple[str, ...]] = ("A", "T", "n")

    def __init__(self, runs: int, d: int, C: int, device: torch.device | str = "cpu") -> None:
        self.A = torch.zeros(runs, d + 1, d + 1, dtype=torch.float64, device=device)
        self.T = torch.zeros(runs, d + 1, C, dtype=torch.float64, device=device)
        self.n = torch.zeros((), dtype=torch.float64, device=device)

    @property
    def weight(self) -> Tensor:
        """(R, 1, 1): what the samples count together; their number, unless they have weights."""
        return self.A[:, -1:, -1:]

    def add(self, h: Tensor, Y: Tensor, weights: Tensor | None = None) -> RidgeMoments:
        """Samples with their features, their targets and what each of them counts, (B,)."""
        h1 = with_one(h)
        counted = h1 if weights is None else h1 * weights.double()[:, None]
        self.A.baddbmm_(counted.transpose(1, 2), h1)
        self.T.baddbmm_(counted.transpose(1, 2), Y.double())
        self.n += h.shape[1]
        return self

    def add_with_inputs(self, x: Tensor, h: Tensor, Y: Tensor, weights: Tensor | None = None) -> None:
        """The same for features ``[x h]``, x (B, d_0) shared by all runs: its own moments are worked out once."""
        d, x, Y = x.shape[-1], x.double(), Y.double()
        h1 = with_one(h)
        xw, hw = (x, h1) if weights is None else (x * weights.double()[:, None], h1 * weights.double()[:, None])
        cross = torch.matmul(xw.T, h1)
        self.A[:, :d, :d] += xw.T @ x
        self.A[:, :d, d:] += cross
        self.A[:, d:, :d] += cross.transpose(1, 2)
        self.A[:, d:, d:] += torch.bmm(hw.transpose(1, 2), h1)
        self.T[:, :d] += torch.matmul(xw.T, Y)
        self.T[:, d:] += torch.bmm(hw.transpose(1, 2), Y)
        self.n += h.shape[1]

    def of_last(self, d: int) -> RidgeMoments:
        """What these are for the last ``d`` features alone."""
        part = RidgeMoments(0, 0, 0)
        part.A, part.T, part.n = self.A[:, -d - 1 :, -d - 1 :], self.T[:, -d - 1 :], self.n
        return part

    def of_targets(self, some: slice) -> RidgeMoments:
        """What these are for some of the targets alone."""
        part = RidgeMoments(0, 0, 0)
        part.A, part.T, part.n = self.A, self.T[..., some], self.n
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
        return self.mapped(M)

    def mapped(self, M: Tensor) -> RidgeMoments:
        """The moments of the same samples after ``[h 1]`` has become ``[h 1] M``, M (R, d + 1, d + 1)."""
        self.A = torch.bmm(M.transpose(1, 2), torch.bmm(self.A, M))
        self.T = torch.bmm(M.transpose(1, 2), self.T)
        return self

    def blur(self, left: Tensor) -> None:
        """Add noise with these mean products (R, k, k) to the last k features."""
        last = slice(-1 - left.shape[-1], -1)
        self.A[:, last, last] += self.weight * left

    def where(self, keep: Tensor, others: RidgeMoments) -> RidgeMoments:
        """These for the runs in ``keep`` (R, 1, 1), those for the others."""
        self.A, self.T = torch.where(keep, self.A, others.A), torch.where(keep, self.T, others.T)
        return self

    def rescale_inputs(self, change: Change) -> None:
        """Inputs, the first features, are standardised in another way from now on."""
        change.moments(self.A)
        change.moments(self.T, symmetric=False)

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
        share = n / self.weight.clamp_min(1e-300)  # one, unless samples have weights: these count as if their mean were
        finite = torch.isfinite(self.A).all(-1).all(-1)[:, None, None]
        w, U = _spectrum(torch.where(finite, self.A * share, 0.0), int(n))
        real = w > w[:, -1:] * self.A.shape[1] * torch.finfo(w.dtype).eps
        seen = torch.bmm(U.transpose(1, 2), torch.where(finite, self.T * share, 0.0)).square().sum(-1)
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
        return self.weight[:, 0, 0] - 2 * (V * self.T).sum((1, 2)) + (V * torch.bmm(self.A, V)).sum((1, 2))

    def regularised(self, ridge: Tensor | float) -> Inverse:
        """``(A + ridge N I)^-1``; ``ridge`` may be (R, 1, 1)."""
        eye = torch.eye(self.A.shape[-1], dtype=self.A.dtype, device=self.A.device)
        return Inverse(self.A + ridge * self.weight * eye)

    def solve(self, ridge: Tensor | float, targets: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """Weights (R, C, d) and biases (R, C) for some or all of the targets; ``ridge`` may be (R, 1, 1)."""
        V = self.regularised(ridge)(self.T[..., targets]).transpose(1, 2)
        return V[..., :-1], V[..., -1]


def _spectrum(A: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Eigenvalues (R, k), rising, and eigenvectors (R, d, k) of sums of products of about ``rank`` samples.

    Where these are far fewer than the d features, all that is not zero lies in a space that as many random directions
    find (Halko, Martinsson & Tropp, 2011), and is worked out there: k is then less than d. If that should have missed
    anything (moments that something was added to), it is worked out as usual.
    """
    d, k = A.shape[-1], rank + 10
    if 2 * k < d:
        directions = torch.randn(d, k, generator=torch.Generator().manual_seed(0), dtype=A.dtype).to(A.device)
        Q = torch.linalg.qr(torch.matmul(A, directions))[0]
        inside = torch.bmm(Q.transpose(1, 2), torch.bmm(A, Q))
        trace = A.diagonal(dim1=1, dim2=2).sum(1)
        missed = trace - inside.diagonal(dim1=1, dim2=2).sum(1)
        if bool((missed <= 1e-12 * trace).all()):
            w, U = torch.linalg.eigh(inside)
            return w, torch.bmm(Q, U)
    w, U = torch.linalg.eigh(A)
    return w, U


class Inverse:
    """The inverse of symmetric matrices (R, d, d) that are at least semi-definite, to be applied to others.

    By Cholesky of the matrix scaled to a unit diagonal, and by its eigenvalues where it is singular to working
    precision: directions in which it is zero are left out. A run that has diverged gets NaN and does not take its
    neighbours down.
    """

    def __init__(self, A: Tensor) -> None:
        self.bad = ~torch.isfinite(A).all(-1).all(-1)[:, None, None]
        A = torch.where(self.bad, torch.eye(A.shape[-1], dtype=A.dtype, device=A.device), A)
        self.scale = A.diagonal(dim1=1, dim2=2).clamp_min(1e-300).rsqrt().unsqueeze(-1)
        A = self.scale * A * self.scale.transpose(1, 2)
        self.L, info = torch.linalg.cholesky_ex(A)
        self.singular = (info != 0)[:, None, None]
        self.spectrum = torch.linalg.eigh(A) if bool(self.singular.any()) else None

    def __call__(self, T: Tensor) -> Tensor:
        """Applied to matrices (R, d, n)."""
        T = torch.where(self.bad, 0.0, self.scale * T)
        V = torch.cholesky_solve(T, self.L)
        if self.spectrum is not None:
            V = torch.where(self.singular, self._least_norm(T), V)
        return torch.where(self.bad, float("nan"), self.scale * V)

    def freedom(self, ridge: Tensor) -> Tensor:
        """(R,): ``tr(A^-1 (A - ridge I))``, the degrees of freedom of a fit whose matrix with its ridge this is."""
        d = self.scale.shape[1]
        root = torch.linalg.solve_triangular(self.L, torch.diag_embed(self.scale[..., 0]), upper=False)
        free = d - ridge[:, 0, 0] * root.square().sum((1, 2))
        if self.spectrum is not None:
            inverse, vectors = self._kept()
            weighted = (self.scale * vectors).square().sum(1)
            least = (inverse > 0).sum(1) - ridge[:, 0, 0] * (inverse * weighted).sum(1)
            free = torch.where(self.singular[:, 0, 0], least, free)
        return torch.where(self.bad[:, 0, 0], float("nan"), free)

    def _least_norm(self, T: Tensor) -> Tensor:
        inverse, vectors = self._kept()
        return torch.bmm(vectors, inverse.unsqueeze(-1) * torch.bmm(vectors.transpose(1, 2), T))

    def _kept(self) -> tuple[Tensor, Tensor]:
        """The inverse eigenvalues, zero for directions that are left out, and the eigenvectors."""
        assert self.spectrum is not None
        values, vectors = self.spectrum
        cut = values[:, -1:] * values.shape[1] * torch.finfo(values.dtype).eps
        return torch.where(values > cut, 1.0 / values.clamp_min(cut), 0.0), vectors
