"""Gradient projection memory (Saha, Garg & Roy, 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from efc.core.axis import PerRun
from efc.core.moments import Moments
from efc.core.network import forward
from efc.core.task import TaskData
from efc.learners.options import Options, learning_rate, number
from efc.learners.projection import Projected


@dataclass(frozen=True)
class GPMOptions(Options):
    """``slack`` is what of a task's activity the directions kept may leave out: one minus the paper's threshold.

    Args:
        lr: the learning rate at a task's start.
        slack: share of a layer's squared activity that is not protected.
    """

    lr: PerRun = learning_rate(1e-3)
    slack: PerRun = number(
        0.03, inclusive=True, high=1.0, search=(1e-4, 3e-1), doc="share of a task's activity that is not protected"
    )


class GPM(Projected):
    """Steps lose what lies in the space of old tasks' leading directions: ``[dW db] (I - B)``, ``B = M M^T``.

    After a task the directions of its activity outside that space are added, largest first, until all directions
    together hold a share of ``1 - slack`` of the task's squared activity, ``tr A``. They are the eigenvectors of
    ``(I - B) A (I - B)`` with ``A = mean [r 1]^T [r 1]`` over all of the task's samples.
    """

    name = "gpm"
    recordable = True
    options_type = GPMOptions
    options: GPMOptions
    inputs_shared = False

    def take_in(self, task: TaskData) -> None:
        found = [Moments(len(B), B.shape[-1] - 1, B.device) for B in self.directions.layers]
        for x, _ in self.passes(task, task.active):
            for moments, r in zip(found, forward(self.layers, self.sigma, x).r, strict=True):
                moments.add(r, 1.0 / len(task.y))
        self.directions.layers = [
            self._with_new(B, moments.A) for B, moments in zip(self.directions.layers, found, strict=True)
        ]

    def _with_new(self, B: Tensor, A: Tensor) -> Tensor:
        """The space with as many directions of ``A`` as it takes; a run that is not finite keeps what it has."""
        finite = torch.isfinite(A).all(-1).all(-1)[:, None, None]
        A = torch.where(finite, A, 0.0)
        outside = torch.eye(B.shape[-1], dtype=B.dtype, device=B.device) - B
        values, vectors = torch.linalg.eigh(torch.bmm(outside, torch.bmm(A, outside)))
        values, vectors = values.flip(-1).clamp_min(0.0), vectors.flip(-1)
        total = A.diagonal(dim1=1, dim2=2).sum(1, keepdim=True)
        held = (total - values.sum(1, keepdim=True)).clamp_min(0.0)
        wanted = (1 - self.per_run("slack", self.options.slack).double()[..., 0]) * total
        before = held + values.cumsum(1) - values  # what is held without this direction and those after it
        real = values > values.shape[1] * torch.finfo(values.dtype).eps * total
        chosen = vectors * ((before < wanted) & real).unsqueeze(1)
        return B + torch.where(finite, torch.bmm(chosen, chosen.transpose(1, 2)), 0.0)

    def projector(self, kept: Tensor) -> Tensor:
        return torch.eye(kept.shape[-1], dtype=kept.dtype, device=kept.device) - kept

    def as_directions(self, kept: Tensor) -> Tensor:
        """The space that the old one has been mapped to, again as a projection."""
        values, vectors = torch.linalg.eigh(kept)
        real = values > 1e-9 * values.amax(1, keepdim=True).clamp_min(1e-300)
        chosen = vectors * real.unsqueeze(1)
        return torch.bmm(chosen, chosen.transpose(1, 2))
