"""Going on with a few samples only: pick rows (samples) out of whatever is (R, B, .), and put them back.

When a handful of samples of a batch has not settled, sweeping all of it again would be a waste. The others are frozen
in any case, so this changes nothing but the time. A GPU would have to wait for the host to count: there all rows stay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
FEW = 0.25
"""Share of the batch from which the rest is gone on with alone."""


class Rows(NamedTuple):
    """Samples by number, as many in every run: those left, filled up with others where a run has fewer."""

    index: Tensor
    """(R, n)."""
    left: Tensor
    """(R, n, 1): false where it is only filled up."""

    def take(self, tree: T) -> T:
        """The same with these rows alone, for a tensor (R, B, .) or tuples, lists and named tuples of such."""
        run = torch.arange(len(self.index)).unsqueeze(1)
        return _map(lambda t: t[run, self.index], tree)

    def put(self, into: T, values: T) -> None:
        """Write ``values`` back where they were taken from, in place."""
        run = torch.arange(len(self.index)).unsqueeze(1)

        def write(t: Tensor, new: Tensor) -> Tensor:
            t[run, self.index] = torch.where(self.left, new, t[run, self.index])
            return t

        _map(write, into, values)


def few_left(done: Tensor) -> Rows | None:
    """Those whose search is not over, by (R, B, 1) booleans, if they are few."""
    if done.is_cuda:
        return None
    left = ~done.squeeze(-1)
    n = int(left.sum(1).max())
    if n > FEW * left.shape[1]:
        return None
    index = left.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :n]
    return Rows(index, left.gather(1, index).unsqueeze(-1))


def _map(function: Callable[..., Tensor], tree: Any, *others: Any) -> Any:
    if tree is None:
        return None
    if isinstance(tree, Tensor):
        return function(tree, *others)
    mapped = [_map(function, *branches) for branches in zip(tree, *others, strict=True)]
    return type(tree)(*mapped) if hasattr(tree, "_fields") else type(tree)(mapped)
