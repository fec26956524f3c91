"""Second moments of presynaptic activity: what a layer remembers of old tasks, and what it does to a weight change.

``A = mean [r 1]^T [r 1]`` over the samples of a task, the bias being the weight of a constant input. No sample, label
or gradient is kept. Either the whole matrix (:class:`Moments`) or its leading directions (:class:`Sketch`), which for d
inputs and k directions take k d numbers instead of d^2; both accumulate in float64, over a leading axis of runs that is
one where all runs see the same activity (the inputs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from efc.core.network import Parameters
from efc.errors import EFCError

DIRECTIONS = 192
"""Leading directions through which a wide layer's moments act on a weight change."""
WIDE = 4 * DIRECTIONS
"""Inputs from which a layer is wide: products with the directions then cost half of one with the whole matrix."""


class Operator(Protocol):
    """A linear map of a layer's weights and biases on the presynaptic side, ``[W b] -> [W b] M``."""

    def add_to(self, W: Tensor, b: Tensor, out_W: Tensor, out_b: Tensor) -> None:
        """Add ``[W b] M`` to ``[out_W out_b]``, in place; all (R, d_i, d_{i-1}) and (R, d_i)."""
        ...


@dataclass(frozen=True)
class Dense:
    """A whole matrix: ``M`` (R or 1, d + 1, d + 1), symmetric."""

    square: Tensor
    """M without its last row and column, which belong to the bias."""
    cross: Tensor
    """(R or 1, 1, d): the last row without its last entry."""
    corner: Tensor
    """(R or 1, 1): the last entry."""

    @classmethod
    def of(cls, M: Tensor, like: Tensor) -> Dense:
        """``M`` in the precision and on the device of ``like``."""
        M = M.to(like.device, like.dtype)
        return cls(M[:, :-1, :-1].contiguous(), M[:, -1:, :-1].contiguous(), M[:, -1, -1:].contiguous())

    def add_to(self, W: Tensor, b: Tensor, out_W: Tensor, out_b: Tensor) -> None:
        R = W.shape[0]
        cross = self.cross.expand(R, -1, -1)
        out_W.baddbmm_(W, self.square.expand(R, -1, -1)).baddbmm_(b.unsqueeze(2), cross)
        out_b.add_(torch.bmm(W, cross.transpose(1, 2)).squeeze(2)).addcmul_(b, self.corner)


@dataclass(frozen=True)
class LowRank:
    """``M = diag(d) + U V`` with ``U`` (R or 1, d + 1, k) and ``V`` (R or 1, k, d + 1): never a square matrix."""

    diagonal: Tensor
    U: Tensor
    V: Tensor

    @classmethod
    def of(cls, diagonal: Tensor, U: Tensor, V: Tensor, like: Tensor) -> LowRank:
        return cls(*(t.to(like.device, like.dtype).contiguous() for t in (diagonal, U, V)))

    def add_to(self, W: Tensor, b: Tensor, out_W: Tensor, out_b: Tensor) -> None:
        R, last = W.shape[0], slice(-1, None)
        U, V, diagonal = (t.expand(R, *t.shape[1:]) for t in (self.U, self.V, self.diagonal))
        seen = torch.bmm(W, U[:, :-1]).baddbmm_(b.unsqueeze(2), U[:, last])
        out_W.baddbmm_(seen, V[..., :-1]).addcmul_(W, diagonal[:, None, :-1])
        out_b.add_(torch.bmm(seen, V[..., last]).squeeze(2)).addcmul_(b, diagonal[:, last])


class Moments:
    """The whole matrix ``A``."""

    def __init__(self, runs: int, d: int, device: torch.device | str = "cpu") -> None:
        self.A = torch.zeros(runs, d + 1, d + 1, dtype=torch.float64, device=device)

    def add(self, r: Tensor, weight: float) -> None:
        """``A += weight * [r 1]^T [r 1]`` for rates r (R or 1, B, d)."""
        r1 = with_one(r)
        self.A.baddbmm_(r1.transpose(1, 2), r1, alpha=weight)

    def rates(self) -> Tensor:
        """The root mean square of every input's rate, (R or 1, d); zero before anything was seen."""
        return _rates(self.A.diagonal(dim1=1, dim2=2))

    def operator(self, like: Tensor) -> Operator:
        """``A`` itself; of a wide layer its leading directions, and the rest of its diagonal exactly."""
        if self.A.shape[-1] <= WIDE:
            return Dense.of(self.A, like)
        values, U = leading(self.A, DIRECTIONS)
        scaled = U * values.unsqueeze(1)
        rest = self.A.diagonal(dim1=1, dim2=2) - (scaled * U).sum(2)
        return LowRank.of(rest.clamp_min(0.0), scaled, U.transpose(1, 2), like)

    def natural(self, mu: Tensor, like: Tensor) -> Operator:
        """``mu (mu I + A)^-1`` for mu (R or 1, 1, 1): one where old tasks were silent, small where they were active."""
        return Dense.of(self.natural_matrix(mu), like)

    def natural_matrix(self, mu: Tensor) -> Tensor:
        """The same, as it is.

        By Cholesky, and by eigenvalues where activity is so large that mu is lost beside it. A run that is not finite
        gets NaN and does not take its neighbours down.
        """
        eye = torch.eye(self.A.shape[-1], dtype=torch.float64, device=self.A.device)
        M = self.A + mu * eye
        finite = torch.isfinite(M).all(-1).all(-1)[:, None, None]
        M = torch.where(finite, M, eye)
        size = M.diagonal(dim1=1, dim2=2).amax(1)[:, None, None]
        L, info = torch.linalg.cholesky_ex(M / size)
        good = ((info == 0) & (L.diagonal(dim1=1, dim2=2) > 0).all(1))[:, None, None]
        inverse = torch.cholesky_inverse(torch.where(good, L, eye)) / size
        if not bool(good.all()):
            inverse = torch.where(good, inverse, _inverse(M - mu * eye, mu))
        return torch.where(finite, mu * inverse, float("nan"))

    def state(self) -> dict[str, Tensor]:
        return {"A": self.A}

    def load(self, state: dict[str, Tensor]) -> None:
        _load(self, state)


class Sketch:
    """The k leading directions, ``A ~ B^T B + diag(rest)``: ``rest`` is what they leave of the diagonal, exactly.

    New rows are stacked under ``B`` and the k leading directions of both together are kept, chunk by chunk. Where ``A``
    has no more than k directions nothing is lost.
    """

    def __init__(self, runs: int, d: int, rank: int, device: torch.device | str = "cpu") -> None:
        self.B = torch.zeros(runs, min(rank, d + 1), d + 1, dtype=torch.float64, device=device)
        self.rest = torch.zeros(runs, d + 1, dtype=torch.float64, device=device)

    def add(self, r: Tensor, weight: float) -> None:
        k = self.B.shape[1]
        for rows in with_one(r).split(max(k, 256), 1):
            stacked = torch.cat([self.B, rows * weight**0.5], 1)
            total = stacked.square().sum(1) + self.rest
            gram = torch.bmm(stacked, stacked.transpose(1, 2))
            finite = torch.isfinite(gram).all(-1).all(-1)[:, None, None]
            vectors = torch.linalg.eigh(torch.where(finite, gram, 0.0)).eigenvectors[..., -k:]
            self.B = torch.bmm(vectors.transpose(1, 2), stacked)
            self.rest = (total - self.B.square().sum(1)).clamp_min(0.0)

    def rates(self) -> Tensor:
        return _rates(self.B.square().sum(1) + self.rest)

    def operator(self, like: Tensor) -> Operator:
        return LowRank.of(self.rest, self.B.transpose(1, 2), self.B, like)

    def natural(self, mu: Tensor, like: Tensor) -> Operator:
        """``mu (mu I + rest + B^T B)^-1`` by Woodbury's identity."""
        D = 1.0 / (1.0 + self.rest / mu.reshape(-1, 1))
        B = self.B / mu.sqrt()
        BD = B * D.unsqueeze(1)
        small = torch.bmm(BD, B.expand(len(BD), -1, -1).transpose(1, 2))
        finite = torch.isfinite(small).all(-1).all(-1)[:, None, None]
        inverse = _inverse(torch.where(finite, small, 0.0), torch.ones_like(mu))
        V = torch.bmm(torch.where(finite, inverse, float("nan")), BD)
        return LowRank.of(D, -BD.transpose(1, 2), V, like)

    def state(self) -> dict[str, Tensor]:
        return {"B": self.B, "rest": self.rest}

    def load(self, state: dict[str, Tensor]) -> None:
        _load(self, state)


def _load(kept: Moments | Sketch, state: dict[str, Tensor]) -> None:
    """Take over a state of the same form and size."""
    for name, own in kept.state().items():
        if name not in state or state[name].shape != own.shape:
            found = {key: tuple(value.shape) for key, value in state.items()}
            raise EFCError(
                f"state: what is remembered has the form {found}, not {name} {tuple(own.shape)}; was rank changed?"
            )
        setattr(kept, name, state[name].to(own.device, own.dtype, copy=True))


def _rates(diagonal: Tensor) -> Tensor:
    return (diagonal[:, :-1] / diagonal[:, -1:].clamp_min(torch.finfo(torch.float64).tiny)).sqrt()


def _inverse(A: Tensor, mu: Tensor) -> Tensor:
    """``(mu I + A)^-1`` for symmetric A without negative eigenvalues, but for rounding."""
    values, vectors = torch.linalg.eigh(A)
    inverse = 1.0 / (mu.squeeze(-1) + values.clamp_min(0.0))
    return torch.bmm(vectors * inverse.unsqueeze(1), vectors.transpose(1, 2))


def leading(A: Tensor, k: int, passes: int = 4) -> tuple[Tensor, Tensor]:
    """The k largest eigenvalues (R, k) and their vectors (R, n, k), for symmetric A (R, n, n) without negative ones.

    By subspace iteration from a fixed start. Where eigenvalues hardly differ the vectors may be others of their kind,
    which do as well. A run that is not finite gets NaN.
    """
    start = torch.randn(A.shape[-1], k + k // 4, generator=torch.Generator().manual_seed(0), dtype=A.dtype).to(A.device)
    finite = torch.isfinite(A).all(-1).all(-1)[:, None, None]
    A = torch.where(finite, A, 0.0)
    Q = start.expand(len(A), -1, -1)
    for _ in range(passes):
        Q = torch.linalg.qr(A @ Q).Q
    values, V = torch.linalg.eigh(Q.transpose(1, 2) @ A @ Q)
    vectors = torch.where(finite, Q @ V[..., -k:], float("nan"))
    return values[:, -k:], vectors


def with_one(r: Tensor) -> Tensor:
    """``[r 1]`` in float64."""
    return torch.cat([r.double(), torch.ones(*r.shape[:2], 1, dtype=torch.float64, device=r.device)], -1)


def apply(operators: list[Operator], given: Parameters, out: Parameters) -> None:
    """Add every layer's ``[W b] M`` to ``out``, in place."""
    for operator, W, b, out_W, out_b in zip(
        operators, given.weights, given.biases, out.weights, out.biases, strict=True
    ):
        operator.add_to(W, b, out_W, out_b)
