"""Going on with a few samples only: pick rows (samples) out of whatever is (R, B, .), and put them back.

When a handful of samples of a batch has not settled, sweeping all of it again would be a waste. The others are frozen
in any case, so this changes nothing but the time. A GPU would have to wait for the host to count: there all rows stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
FEW = 0.25
"""Share of the batch from which the rest is gone on with alone."""
WORTH = 50_000
"""Rates in the largest layer of a batch from which that saves more than the picking costs."""


class Rows(NamedTuple):
    """Samples by number in the flattened (R * B) batch, as many in every run."""

    runs: int
    picked: Tensor
    """(R * n,): those left, filled up with others where a run has fewer."""
    left: Tensor
    """Which of the picked are not there to fill up."""

    def take(self, tree: T) -> T:
        """The same with these rows alone, for a tensor (R, B, .) or tuples, lists and named tuples of such."""
        picked: T = _map(lambda t: t.flatten(0, 1).index_select(0, self.picked).view(self.runs, -1, t.shape[-1]), tree)
        return picked

    def only(self, which: Tensor) -> Rows:
        """Those among them that are true in (R, n, 1) booleans."""
        return self._replace(left=self.left[which.flatten()[self.left]])

    def put(self, into: T, values: T) -> None:
        """Write ``values`` back where they were taken from, in place."""
        place = self.picked[self.left]
        _map(lambda t, new: t.flatten(0, 1).index_copy_(0, place, new.flatten(0, 1)[self.left]), into, values)


def few_left(done: Tensor | None, width: int) -> Rows | None:
    """Those whose search is not over, by (R, B, 1) booleans, if they are few and the layers wide enough to care."""
    if done is None or done.is_cuda or done.numel() * width < WORTH:
        return None
    n = int((~done).sum(1).max())
    return None if n > FEW * done.shape[1] else next(left_in_parts(done, n))


def left_in_parts(done: Tensor, most: int) -> Iterator[Rows]:
    """All whose search is not over, by (R, B, 1) booleans, at most so many of each run at a time. The host counts."""
    R, B, _ = done.shape
    left = (~done.squeeze(-1)).float()
    waiting, index = left.topk(int(left.sum(1).max()), dim=1)
    picked = index + B * torch.arange(R, device=done.device).unsqueeze(1)
    for some, those in zip(picked.split(most, 1), waiting.split(most, 1), strict=True):
        yield Rows(R, some.flatten(), those.flatten().nonzero().squeeze(1))


def _map(function: Callable[..., Tensor], tree: Any, *others: Any) -> Any:
    if tree is None:
        return None
    if isinstance(tree, Tensor):
        return function(tree, *others)
    mapped = [_map(function, *branches) for branches in zip(tree, *others, strict=True)]
    return type(tree)(*mapped) if hasattr(tree, "_fields") else type(tree)(mapped)
