"""Parts of a learner that have to be saved: named tensors, and one random generator per run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

import torch
from torch import Tensor


class Part(Protocol):
    """Anything whose state is a mapping of tensors."""

    def state_dict(self) -> dict[str, Tensor]: ...

    def load_state_dict(self, state: dict[str, Tensor]) -> None: ...


class Stored:
    """A part whose state is the tensors named in ``stored``; their shapes may grow from task to task."""

    stored: ClassVar[tuple[str, ...]] = ()

    def state_dict(self) -> dict[str, Tensor]:
        return {name: getattr(self, name) for name in self.stored}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for name in self.stored:
            own: Tensor = getattr(self, name)
            setattr(self, name, state[name].to(own.device, own.dtype, copy=True))


class Generators:
    """One generator per run, on the CPU so that every device draws the same numbers."""

    def __init__(self, seeds: Sequence[int], purpose: int) -> None:
        """``purpose`` keeps the streams of numbers apart: the weights' own seeds are used for nothing else."""
        self.each = [torch.Generator().manual_seed(1_000_003 * seed + purpose) for seed in seeds]

    def integers(self, high: int, n: int) -> Tensor:
        """(R, n) whole numbers below ``high``."""
        return torch.stack([torch.randint(high, (n,), generator=g) for g in self.each])

    def normal(self, n: int) -> Tensor:
        """(R, n) numbers of mean zero and deviation one, in float64."""
        return torch.stack([torch.randn(n, generator=g, dtype=torch.float64) for g in self.each])

    def uniform(self, n: int) -> Tensor:
        """(R, n) numbers in [0, 1), in float64."""
        return torch.stack([torch.rand(n, generator=g, dtype=torch.float64) for g in self.each])

    def state_dict(self) -> dict[str, Tensor]:
        return {"generators": torch.stack([g.get_state() for g in self.each])}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for generator, s in zip(self.each, state["generators"], strict=True):
            generator.set_state(s.cpu().clone())  # a state must own its memory: a row of a larger tensor crashes torch
