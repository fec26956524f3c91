"""Streaming linear discriminant analysis on the given features (Hayes & Kanan, 2020)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from efc.core.axis import PerRun
from efc.core.task import TaskData
from efc.learners.analytic import Analytic, AnalyticOptions
from efc.learners.options import number
from efc.learners.ridge import Inverse


@dataclass(frozen=True)
class SLDAOptions(AnalyticOptions):
    """``shrinkage`` is the share of the identity in the covariance.

    Args:
        shrinkage: e in ``(1 - e) S + e I``.
        width: random features between inputs and head, as in ``analytic``.
    """

    shrinkage: PerRun = number(
        1e-4, low=0.0, inclusive=False, high=1.0, search=(1e-6, 1e0), doc="share of the identity in the covariance"
    )
    ridge: PerRun = number(0.0, inclusive=True, doc="not used")


class SLDA(Analytic):
    """``W_k = P mu_k``, ``b_k = -1/2 mu_k^T P mu_k``, ``P = ((1 - e) S + e I)^-1``: class means and one covariance.

    ``S`` is the covariance within the classes over all samples so far, and follows from the same moments as ridge
    regression; their recursion differs from it by factors ``t / (t + 1)``. All classes count alike, however many
    samples they have. The hidden layers of ``sizes`` are not used.
    """

    name = "slda"
    streams = True
    options_type = SLDAOptions
    options: SLDAOptions

    def consolidate(self, task: TaskData) -> None:
        super().consolidate(replace(task, weights=None))

    def solved(self) -> tuple[Tensor, Tensor]:
        A, T, n = self.moments.A, self.moments.T, self.moments.T[:, -1]
        share = self.per_run("shrinkage", self.options.shrinkage).double()
        mu = (T[:, :-1] / n.clamp_min(1.0).unsqueeze(1)).transpose(1, 2)
        within = (A[:, :-1, :-1] - torch.bmm(mu.transpose(1, 2) * n.unsqueeze(1), mu)) / self.moments.n
        eye = torch.eye(within.shape[-1], dtype=within.dtype, device=within.device)
        P = Inverse((1 - share) * within + share * eye)
        W = P(mu.transpose(1, 2).expand(self.runs, -1, -1)).transpose(1, 2)
        return W, -0.5 * (W * mu).sum(-1)
