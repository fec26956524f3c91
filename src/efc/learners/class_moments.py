"""Gaussian classes, each with a covariance of its own, from second moments: no sample is kept."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from efc.core.moments import with_one
from efc.learners.inputs import Change
from efc.learners.ridge import RidgeMoments


class ClassMoments(RidgeMoments):
    """The moments of ridge regression on one-hot targets, and those of every class apart.

    ``own_k = sum_{n: y_n = k} [h 1]^T [h 1]``, (R, C, d + 1, d + 1) in float64: C times what ``A`` takes, which is
    their sum where samples have no weights.

    Args:
        apart: whether they are kept; if not, ``own`` has no classes.
    """

    stored: ClassVar[tuple[str, ...]] = (*RidgeMoments.stored, "own")

    def __init__(self, runs: int, d: int, C: int, device: torch.device | str = "cpu", *, apart: bool = True) -> None:
        super().__init__(runs, d, C, device)
        self.own = torch.zeros(runs, C if apart else 0, d + 1, d + 1, dtype=torch.float64, device=device)

    def add(self, h: Tensor, Y: Tensor, weights: Tensor | None = None) -> RidgeMoments:
        if self.own.shape[1]:
            h1 = with_one(h)
            for k in Y[0].any(0).nonzero().flatten().tolist():  # the samples are the same for all runs
                mine = h1[:, Y[0, :, k] > 0]
                self.own[:, k].baddbmm_(mine.transpose(1, 2), mine)
        return super().add(h, Y, weights)

    def add_with_inputs(self, x: Tensor, h: Tensor, Y: Tensor, weights: Tensor | None = None) -> None:
        if self.own.shape[1]:
            self.add(torch.cat([x.expand(len(h), -1, -1).to(h.dtype), h], -1), Y, weights)
        else:
            super().add_with_inputs(x, h, Y, weights)

    def of_last(self, d: int) -> ClassMoments:
        return self._made(super().of_last(d), self.own[:, :, -d - 1 :, -d - 1 :])

    def copy(self) -> ClassMoments:
        return self._made(super().copy(), self.own.clone())

    def without(self, part: ClassMoments) -> ClassMoments:
        """What these are without some of their samples."""
        found = self.copy()
        found.A, found.T, found.n, found.own = self.A - part.A, self.T - part.T, self.n - part.n, self.own - part.own
        return found

    def merge(self, other: RidgeMoments) -> ClassMoments:
        super().merge(other)
        assert isinstance(other, ClassMoments)
        self.own += other.own
        return self

    def mapped(self, M: Tensor) -> ClassMoments:
        super().mapped(M)
        for own in self.own.unbind(1):
            own.copy_(torch.bmm(M.transpose(1, 2), torch.bmm(own, M)))
        return self

    def blur(self, left: Tensor) -> None:
        super().blur(left)
        last = slice(-1 - left.shape[-1], -1)
        self.own[:, :, last, last] += self.own[:, :, -1:, -1:] * left.unsqueeze(1)

    def where(self, keep: Tensor, others: RidgeMoments) -> ClassMoments:
        super().where(keep, others)
        assert isinstance(others, ClassMoments)
        self.own = torch.where(keep.unsqueeze(-1), self.own, others.own)
        return self

    def rescale_inputs(self, change: Change) -> None:
        super().rescale_inputs(change)
        for own in self.own.unbind(1):
            change.moments(own)

    @staticmethod
    def _made(shared: RidgeMoments, own: Tensor) -> ClassMoments:
        found = ClassMoments(0, 0, 0)
        found.A, found.T, found.n, found.own = shared.A, shared.T, shared.n, own
        return found


class QuadraticDiscriminant:
    """Logarithms of the probabilities of Gaussian classes, up to what all of them share, for features f (R, B, d):

        z_k = -1/2 (f - mu_k)^T S_k^-1 (f - mu_k) - 1/2 log det S_k + log pi_k
        S_k = (1 - a) V_k + a V + r v I

    with the mean ``mu_k`` and the covariance ``V_k`` of each class, the covariance V within all classes, and the mean v
    of its diagonal: regularised discriminant analysis (Friedman, 1989). A class without samples has its prior alone.

    Args:
        moments: of the features, class by class.
        a: (R,), the share of the common covariance.
        r: (R,), what is added to the diagonals, in units of v.
        mass: (C,), what the samples of each class count together. There may be fewer than the moments have classes: the
            first ones are meant.
    """

    def __init__(self, moments: ClassMoments, a: Tensor, r: Tensor, mass: Tensor) -> None:
        own = moments.own[:, : len(mass)]
        n = own[:, :, -1, -1]
        share = n / n.sum(1, keepdim=True).clamp_min(1.0)
        means = own[:, :, -1, :-1] / n.clamp_min(1.0).unsqueeze(-1)
        V = own[:, :, :-1, :-1] / n.clamp_min(1.0)[..., None, None] - means.unsqueeze(-1) * means.unsqueeze(-2)
        within = (V * share[..., None, None]).sum(1)
        v = within.diagonal(dim1=1, dim2=2).mean(1).clamp_min(1e-300)
        eye = torch.eye(V.shape[-1], dtype=V.dtype, device=V.device)
        common = a.reshape(-1, 1, 1) * within + (r * v).reshape(-1, 1, 1) * eye
        S = (1 - a).reshape(-1, 1, 1, 1) * V + common.unsqueeze(1)
        self.bad = ~torch.isfinite(S).flatten(1).all(1)  # a run that has diverged does not take its neighbours down
        self.there = (n > 0).unsqueeze(1)
        S = torch.where(self.bad[:, None, None, None] | (n == 0)[..., None, None], eye, S)
        L = torch.linalg.cholesky_ex(S)[0]
        self.roots = torch.linalg.solve_triangular(L, eye.expand_as(L), upper=False)
        self.centre = (means * share.unsqueeze(-1)).sum(1, keepdim=True)
        self.shifts = torch.matmul(self.roots, (means - self.centre).unsqueeze(-1)).squeeze(-1)
        self.prior = (mass / mass.sum()).clamp_min(1e-12).log()
        self.offset = self.prior - L.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def __call__(self, f: Tensor) -> Tensor:
        """(R, B, C) for features (R, B, d), in their precision."""
        x = f - self.centre.to(f)
        squares = [
            (torch.bmm(x, root.transpose(1, 2).to(x)) - shift.unsqueeze(1).to(x)).square().sum(-1)
            for root, shift in zip(self.roots.unbind(1), self.shifts.unbind(1), strict=True)
        ]
        z = self.offset.unsqueeze(1).to(x) - 0.5 * torch.stack(squares, -1)
        z = torch.where(self.there, z, self.prior.to(x))
        return torch.where(self.bad[:, None, None], float("nan"), z)
