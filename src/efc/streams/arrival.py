"""Streams without boundaries: in which order the samples of all tasks arrive, and how their inputs change meanwhile.

| stream        | what arrives                                                                             |
|---------------|------------------------------------------------------------------------------------------|
| `blurred:F`   | groups of classes one after the other; each fades in and out over F of its stay          |
| `random`      | everything mixed: nothing may be lost                                                    |
| `recurring:N` | every group comes N times, for a part of its samples                                     |
| `drift:F`     | everything mixed; pictures turn by F of a right angle and darken, other features mix     |
| `single`      | as `blurred:0.25`, one sample at a time                                                  |
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from efc.data.dataset import IntArray
from efc.errors import EFCError, choose
from efc.streams.split import Stream

KINDS: dict[str, float] = {"blurred": 0.25, "random": 0.0, "recurring": 3.0, "drift": 0.5, "single": 0.25}
"""What a stream without boundaries may be like, and the number that each takes unless one is given."""
LIMITS = {"blurred": (0.0, 10.0), "recurring": (1.0, 1000.0), "drift": (0.0, 1.0)}
"""Between what the number may be, for those that have one to be chosen."""
DARKER = 0.5
"""The share of their brightness that inputs lose by a full drift."""


@dataclass(frozen=True)
class Arrival:
    """How samples arrive: one of ``KINDS``, and its number."""

    kind: str
    amount: float

    @classmethod
    def parse(cls, text: str) -> Arrival:
        """``blurred:0.25``, or the name alone."""
        name, colon, number = text.partition(":")
        choose("stream", name, KINDS)
        if not colon:
            return cls(name, KINDS[name])
        if name not in LIMITS:
            raise EFCError(f"stream: {name} takes no number, got {text!r}")
        low, high = LIMITS[name]
        try:
            amount = float(number)
        except ValueError:
            amount = math.nan
        if not low <= amount <= high or (name == "recurring" and amount != int(amount)):
            what = "a whole number" if name == "recurring" else "a number"
            raise EFCError(f"stream: {name} takes {what} from {low:g} to {high:g}, got {number!r}")
        return cls(name, amount)

    @property
    def batch_size(self) -> int:
        """Samples that arrive together, unless one says otherwise."""
        return 1 if self.kind == "single" else 16

    def order(self, group: IntArray, seed: int) -> IntArray:
        """In which order samples of these groups (tasks, from 0 on) arrive."""
        rng = np.random.default_rng([20261119, seed])
        n, u = len(group), rng.random(len(group))
        if self.kind in ("random", "drift"):
            when = u
        elif self.kind == "recurring":
            visit = rng.integers(int(self.amount), size=n)
            when = visit * (group.max(initial=0) + 1) + group + u
        else:
            when = group + u + self.amount * (2 * rng.random(n) - 1)
        return np.asarray(np.argsort(when, kind="stable"))

    def inputs(self, x: Tensor, progress: float, seed: int) -> Tensor:
        """Inputs (B, d) as they are when ``progress``, 0 to 1, of the stream has passed."""
        share = self.amount * progress
        if self.kind != "drift" or share == 0:
            return x
        darker = 1 - DARKER * share
        side, channels = _picture(x.shape[1])
        if side:
            return darker * _turned(x.reshape(-1, channels, side, side), 90 * share).reshape(x.shape)
        other = torch.as_tensor(np.random.default_rng([20261120, seed]).permutation(x.shape[1]), device=x.device)
        return darker * ((1 - share) * x + share * x[:, other])


def all_samples(stream: Stream, part: str) -> tuple[Tensor, Tensor, IntArray]:
    """Inputs and outputs of all tasks together, and the task of each sample."""
    parts = [task.parts[part] for task in stream.tasks]
    group = np.repeat(np.arange(len(parts)), [len(one.y) for one in parts])
    return torch.cat([one.x for one in parts]), torch.cat([one.y for one in parts]), group


def _picture(d: int) -> tuple[int, int]:
    """Side and channels of square pictures with d numbers; (0, 0) where d is none of them."""
    for channels in (1, 3):
        side = math.isqrt(d // channels)
        if channels * side * side == d and side >= 8:
            return side, channels
    return 0, 0


def _turned(pictures: Tensor, degrees: float) -> Tensor:
    """Pictures (B, channels, side, side), turned about their middle; what comes in from outside is zero."""
    a = math.radians(degrees)
    turn = pictures.new_tensor([[math.cos(a), -math.sin(a), 0.0], [math.sin(a), math.cos(a), 0.0]])
    grid = torch.nn.functional.affine_grid(
        turn.expand(len(pictures), -1, -1), list(pictures.shape), align_corners=False
    )
    return torch.nn.functional.grid_sample(pictures, grid, align_corners=False)
