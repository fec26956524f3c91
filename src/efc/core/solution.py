"""What a solver returns: the equilibrium, and for every sample how the search for it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from efc.core.outputs import output_shift
from efc.core.system import Activity, System

if TYPE_CHECKING:
    from efc.core.solvers.base import Solver


class Result(IntEnum):
    """How the search ended for one sample; ``message`` is the sentence a user reads."""

    CONVERGED = 0
    CYCLING = 1
    MAX_STEPS = 2
    NON_FINITE = 3

    @property
    def message(self) -> str:
        return _MESSAGES[self]


_MESSAGES = {
    Result.CONVERGED: "The sample settled: one more sweep changes it by less than the tolerance.",
    Result.CYCLING: "The sample goes round without settling: a ReLU switches on and off, or the loop gain is too high "
    "for this solver. Try a smaller gain kappa, or the Newton solver with the activation smooth_relu.",
    Result.MAX_STEPS: "The maximum number of steps was reached before the sample settled. Try more steps, a looser "
    "tolerance, or another solver.",
    Result.NON_FINITE: "The sample became infinite or NaN. Look at the input, the weights and the gain kappa.",
}


@dataclass(frozen=True)
class Solution:
    """The equilibrium of a batch, (R, B, .) throughout, with per-sample outcome.

    ``rates``, ``psi`` and ``gamma`` hold layers 1..L; ``gamma`` is zero where nothing is preserved.
    """

    system: System
    activity: Activity
    u: Tensor
    result: Tensor
    """(R, B) integers, members of :class:`Result`."""
    iterations: Tensor
    """(R, B): sweeps each sample took."""
    residual: Tensor
    """(R, B): what one more sweep would change, relative to what control changes (the largest layer)."""

    @property
    def rates(self) -> tuple[Tensor, ...]:
        """Controlled rates ``r_1..r_L``."""
        at = self.activity
        if self.system.dynamics.output == "linear_ce":
            return (*at.rates, at.z + output_shift("linear_ce", self.system.dynamics.form, at.z, at.signal))
        return (*at.rates, self.system.target - at.error)

    @property
    def psi(self) -> tuple[Tensor, ...]:
        return (*(layer.psi for layer in self.activity.hidden), self.activity.psi)

    @property
    def gamma(self) -> tuple[Tensor, ...]:
        at = self.activity
        if at.gamma is None:
            return tuple(map(torch.zeros_like, self.psi))
        return (*(layer.gamma for layer in at.hidden if layer.gamma is not None), at.gamma)

    @property
    def settled(self) -> Tensor:
        """(R, B) booleans."""
        return self.result == Result.CONVERGED

    def elsewhere(self, *others: Solver, apart: float = 0.01) -> Tensor:
        """(R, B) booleans: samples that settled, and that one of these solvers leads to another equilibrium.

        ``solution.elsewhere(FixedPoint(damping=0.2, max_steps=400, start="open"))``, for instance: one more solve, from
        a start far from the free state, in steps that keep close to it.
        Another is one whose ``u``, or a layer's controlled change of rates, differs by more than ``apart`` of its size;
        so ask with tolerances well below that. False says only that none of these starts led elsewhere.
        """
        found = torch.zeros_like(self.settled)
        for solver in others:
            other = solver.solve(self.system)
            pairs = [(self.u, other.u)]
            pairs += [(a.shift, b.shift) for a, b in zip(self.activity.hidden, other.activity.hidden, strict=True)]
            differs = torch.stack([_apart(one, two) > apart for one, two in pairs]).any(0)
            found = found | (differs & self.settled & other.settled)
        return found

    @cached_property
    def lost(self) -> Tensor | None:
        """(R, B) booleans: samples that are not finite. None if there are none, and a CPU has looked."""
        lost = self.result == Result.NON_FINITE
        return lost if lost.is_cuda or bool(lost.any()) else None  # asking would make a GPU wait

    def effort(self) -> Tensor:
        """(R, 2 L): sums over samples of the norms ``|psi_1|..|psi_L|`` and ``|gamma_1|..|gamma_L|``.

        A sample that did not settle counts as it stands, one that is not finite (``lost``) not at all.
        """
        norms = [torch.linalg.vector_norm(t, dim=-1) for t in (*self.psi, *self.gamma)]
        each = torch.cat(norms, 1).view(len(self.result), len(norms), -1)
        if self.lost is not None:
            each.masked_fill_(self.lost.unsqueeze(1), 0.0)
        return each.sum(-1)

    def counts(self) -> dict[str, int]:
        """How many samples ended how, by lower-case name."""
        return {kind.name.lower(): int((self.result == kind).sum()) for kind in Result}


def _apart(one: Tensor, two: Tensor) -> Tensor:
    """(R, B): how far two vectors are apart, as a share of the larger."""
    size = torch.maximum(one.norm(dim=-1), two.norm(dim=-1))
    found: Tensor = (one - two).norm(dim=-1) / size.clamp_min(torch.finfo(one.dtype).tiny)
    return found
