"""How a head is read off the moments of its features: as a linear discriminant, or by ridge regression."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from efc.learners.ridge import Inverse, RidgeMoments

TRIED = 71
"""Temperatures that are tried."""
STRAY = 0.2
"""The share of samples that may be anything, when a temperature is judged."""


class Readout(ABC):
    """A head that has been solved for: weights ``W`` (R, C, d) and biases ``b`` (R, C).

    Args:
        moments: of the features, and of one-hot targets over C classes.
        ridge: (R, 1, 1), per sample.
        mass: (C,): what the samples of each class count together: their number, unless they have weights.
    """

    name: ClassVar[str]
    counts_weights: ClassVar[bool]
    """Whether the moments are to be weighted where samples have weights."""
    temperatures: ClassVar[Tensor]
    """Those that the outputs may have to be divided by, ``TRIED`` of them, in units of :meth:`excess`: a head that errs
    on no sample says nothing about the least."""
    W: Tensor
    b: Tensor

    @abstractmethod
    def __init__(self, moments: RidgeMoments, ridge: Tensor, mass: Tensor) -> None: ...

    @abstractmethod
    def left_out(self, h: Tensor, Y: Tensor, weights: Tensor | None) -> Tensor:
        """(R, B, C): the outputs for some of the samples, each as if the head had been fitted without it.

        They are given by their features h (R, B, d), one-hot targets Y (R, B, C) and what each counts, (B,).
        """

    def excess(self, h: Tensor, Y: Tensor) -> Tensor:
        """(R, B): how many times further out such samples lie than the head takes them to, each left out; NaN where
        that cannot be said. It is what the outputs are too large by."""
        return h.new_ones(h.shape[:2], dtype=torch.float64)


class Regression(Readout):
    """Ridge regression on one-hot targets. The outputs are about the classes' probabilities, shrunk towards zero for
    classes with few samples."""

    name = "regression"
    counts_weights = True
    temperatures = torch.logspace(-1.5, 0.5, TRIED, dtype=torch.float64)

    def __init__(self, moments: RidgeMoments, ridge: Tensor, mass: Tensor) -> None:
        self.inverse = moments.regularised(ridge)
        V = self.inverse(moments.T).transpose(1, 2)
        self.W, self.b = V[..., :-1], V[..., -1]

    def left_out(self, h: Tensor, Y: Tensor, weights: Tensor | None) -> Tensor:
        """With ``s = f^T (A + ridge N I)^-1 f``, times the sample's weight: ``(z - s y) / (1 - s)``."""
        f = torch.nn.functional.pad(h.double(), (0, 1), value=1.0)
        s = (f * self.inverse(f.transpose(1, 2)).transpose(1, 2)).sum(-1, keepdim=True)
        s = (s if weights is None else s * weights.double()[:, None]).clamp_max(0.999)
        z = torch.bmm(h.double(), self.W.transpose(1, 2)) + self.b.unsqueeze(1)
        return (z - s * Y) / (1 - s)


class Discriminant(Readout):
    """Gaussian classes with means ``mu_k`` and one covariance ``S``: the logarithms of their probabilities, which are
    linear in the features, up to what all classes share (Fisher's linear discriminant).

    ``S = (A - sum_k n_k mu_k mu_k^T) / N + ridge I`` follows from the same moments, ``mu_k = T_k / n_k``, and

        W_k = S^-1 mu_k        b_k = -1/2 mu_k^T S^-1 mu_k + d_eff / (2 n_k) + log pi_k

    The mean of a few samples is off by about ``S / n_k``, which makes the class seem further away than it is, by
    ``d_eff / n_k`` on average: the second term of ``b_k`` takes that away. ``d_eff`` is the mean of ``v^T S^-1 v`` for
    the deviations v of *new* samples. Those that S was made of have ``d = tr(S^-1 (S - ridge I))``, and
    ``d_eff = d / (1 - d / N)``. Class weights are a matter of ``pi_k``, the share of the class in ``mass``, alone.
    """

    name = "discriminant"
    counts_weights = False
    temperatures = torch.logspace(0.0, 7.0, TRIED, dtype=torch.float64)

    def __init__(self, moments: RidgeMoments, ridge: Tensor, mass: Tensor) -> None:
        A, T, n = moments.A, moments.T, moments.T[:, -1]
        self.there, self.total = n > 0, moments.weight
        self.n = n.clamp_min(1.0)
        self.centre = A[:, -1:, :-1] / self.total
        means = torch.where(self.there.unsqueeze(-1), (T[:, :-1] / self.n.unsqueeze(1)).transpose(1, 2), self.centre)
        self.M = means - self.centre
        spread = A[:, :-1, :-1] - self.total * torch.bmm(self.centre.transpose(1, 2), self.centre)
        within = (spread - torch.bmm(self.M.transpose(1, 2) * n.unsqueeze(1), self.M)) / self.total
        eye = torch.eye(within.shape[-1], dtype=within.dtype, device=within.device)
        self.inverse = Inverse(within + ridge * eye)
        self.W = self.inverse(self.M.transpose(1, 2)).transpose(1, 2)
        self.squares = (self.W * self.M).sum(-1)
        d = self.inverse.freedom(ridge.expand(len(A), 1, 1)).unsqueeze(-1)
        self.d_eff = d / (1 - d / self.total[..., 0]).clamp_min(1e-3)
        share = (mass / mass.sum()).clamp_min(1e-12)
        self.prior = share.log()
        offset = torch.bmm(self.W, self.centre.transpose(1, 2)).squeeze(-1)
        b = -0.5 * self.squares + 0.5 * self.d_eff / self.n + self.prior - offset
        self.b = torch.where(self.there, b, self.prior)

    def left_out(self, h: Tensor, Y: Tensor, weights: Tensor | None) -> Tensor:
        """Without a sample at ``v`` from its class's mean, that mean is ``mu - v / (n - 1)`` and the covariance
        ``S - n / ((n - 1) N) v v^T``, whose inverse follows from that of S. The only sample of a class stays in."""
        Y = Y.double()
        x, v, g, less = self._apart(h, Y)
        several = less > 0
        q, xi = (v * g).sum(-1, keepdim=True), (x * g).sum(-1, keepdim=True)
        c = (1 + less) / self.total * several
        f = c / (1 - c * q).clamp_min(1e-9)
        W = self.W.transpose(1, 2)
        along, across = torch.bmm(x, W), torch.bmm(v, W)
        shifted = along - Y * less * xi, across - Y * less * q
        squares = self.squares.unsqueeze(1) - Y * (2 * less * across - less.square() * q)
        z = shifted[0] + f * xi * shifted[1] - 0.5 * (squares + f * shifted[1].square())
        fewer = self.n.unsqueeze(1) - Y * several
        z = z + 0.5 * self.d_eff.unsqueeze(1) / fewer + self.prior
        return torch.where(self.there.unsqueeze(1), z, self.prior)

    def excess(self, h: Tensor, Y: Tensor) -> Tensor:
        """The squared distance ``v^T S^-1 v`` from its class's mean, which is about the number of features if S is
        right. Where samples are few, S is far too small in directions that they do not fill, how much depends on the
        ridge."""
        _, v, g, less = self._apart(h, Y.double())
        q = (v * g).sum(-1, keepdim=True)
        further = (1 + less).square() * q / (1 - (1 + less) / self.total * q).clamp_min(1e-9)
        return torch.where(less > 0, further / h.shape[-1], torch.nan).squeeze(-1)

    def _apart(self, h: Tensor, Y: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Samples as they lie from the centre, and from their class's mean: x, v, ``S^-1 v``; and ``1 / (n - 1)`` of
        their class, 0 for the only sample of one."""
        x = h.double() - self.centre
        v = x - torch.bmm(Y, self.M)
        n = torch.bmm(Y, self.n.unsqueeze(-1))
        less = torch.where(n > 1, 1.0 / (n - 1).clamp_min(1.0), 0.0)
        return x, v, self.inverse(v.transpose(1, 2)).transpose(1, 2), less


def misfit(z: Tensor, Y: Tensor, tried: Tensor) -> Tensor:
    """(R, T): for each of T temperatures t that outputs z (R, B, C) may be divided by, the summed cross-entropy of
    samples with one-hot targets Y.

    The probability of a sample's class is taken to be ``(1 - e) softmax(z / t) + e / C`` with e = ``STRAY``, for
    otherwise a few samples that lie far out, and are answered wrongly with great certainty, would outweigh all others.
    """
    shares = torch.stack([(torch.softmax(z / t, -1) * Y).sum(-1) for t in tried.to(z.device)], -1).nan_to_num(0.0)
    return torch.as_tensor(-((1 - STRAY) * shares + STRAY / z.shape[-1]).log().sum(1))


READOUTS: dict[str, type[Readout]] = {cls.name: cls for cls in (Discriminant, Regression)}
"""By the names they have in the option ``readout``."""
