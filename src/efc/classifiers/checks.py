"""Whether a state that comes from outside can be that of a learner: looked at before anything is made of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from efc.errors import EFCError
from efc.learners import Analytic, Learner, Options
from efc.learners.head_policies import POLICIES
from efc.learners.readout import TRIED

MOST_SAMPLES = 2**40
LARGEST_UNIT = 1e13
ROOM, TIMES = 64 * 2**20, 64
"""What a learner may take in memory: so many bytes, and so many times what is stored of it. Its heads take twelve."""


def check_state(state: Mapping[str, Tensor], own_code: bool) -> None:
    """Refuse what is no state of a growing learner, or holds numbers that are none.

    What a method of one's own keeps beside its parameters is its own business.
    """
    if "tasks" not in state or "generators" not in state:
        raise EFCError("state: this is not the state of a learner whose head grows")
    tasks = state["tasks"]
    n = tasks.shape[1] if tasks.dim() == 2 else -1
    if n < 0 or (len(tasks) == 0 and n > 0) or not bool(tasks.any(1).all()) or not bool(tasks.any(0).all()):
        raise EFCError(f"state: tasks {tuple(tasks.shape)} does not say which outputs each task was about")
    for key, shape in (("counts", (n,)), ("misfit", (TRIED,)), ("unit", (1,))):
        if key in state and tuple(state[key].shape) != shape:
            raise EFCError(f"state: {key} is {tuple(state[key].shape)}, expected {shape}")
    for key, value in state.items():
        if value.is_complex() or (value.is_floating_point() and value.dtype not in (torch.float32, torch.float64)):
            raise EFCError(f"state: {key} is of the kind {value.dtype}")
        if own_code and key.startswith("learner.") and key != "learner.theta":
            continue
        if not bool(torch.isfinite(value).all()):
            raise EFCError(f"state: {key} holds NaN or infinite numbers")
        if not value.is_floating_point() and bool((value < 0).any()):
            raise EFCError(f"state: {key} holds negative numbers")
    counts, misfit = state.get("counts"), state.get("misfit")
    if counts is not None and (counts.is_floating_point() or bool((counts > MOST_SAMPLES).any())):
        raise EFCError("state: counts are no numbers of samples")
    if misfit is not None and bool((misfit < 0).any()):
        raise EFCError("state: misfit holds negative numbers")
    if "unit" in state and not 0 < float(state["unit"]) < LARGEST_UNIT:
        raise EFCError(f"state: unit must be above 0 and below {LARGEST_UNIT:g}, got {float(state['unit']):g}")


def check_size(learner: type[Learner], sizes: Sequence[int], head: str | None, options: Options, stored: int) -> None:
    """Refuse sizes of a network that would take far more memory than ``stored`` bytes of its state can account for."""
    if issubclass(learner, Analytic):  # its network is the head alone
        sizes = (sizes[0], sizes[-1])
    numbers = 12 * sum((a + 1) * b for a, b in pairwise(sizes))
    numbers += POLICIES[head or learner.shipped_head].numbers_kept(sizes)
    if options.remembers:
        rank = int(options.rank)
        numbers += sum(2 * (d + 1) * (min(rank, d) + 2 if rank else d + 1) for d in sizes[:-1])
    numbers += int(getattr(options, "buffer", 0)) * (sizes[0] + sizes[-1])
    if getattr(options, "feedback", "") == "learned":
        numbers += sum(sizes[1:-1]) * sizes[-1]
    if 4 * numbers > ROOM + TIMES * stored:
        told = f"a network of the sizes {_brief(sizes)} would take {4 * numbers / 2**30:.3g} GiB"
        raise EFCError(f"state: {told}, and what is stored of it has {stored} bytes")


def check_shapes(fresh: Mapping[str, Tensor], stored: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are not like a fresh learner's; what is empty there grows with the samples, all of it alike.

    What is missing or too much is told by the learner itself.
    """
    lengths: set[int] = set()
    for key in fresh.keys() & stored.keys():
        mine, given = fresh[key], stored[key]
        fits = mine.dim() == given.dim() and all(a in (b, 0) for a, b in zip(mine.shape, given.shape, strict=True))
        if not fits or mine.is_floating_point() != given.is_floating_point():
            told = f"{key} is {given.dtype} {tuple(given.shape)}, expected {mine.dtype} {tuple(mine.shape)}"
            raise EFCError(f"state: {told}")
        lengths |= {b for a, b in zip(mine.shape, given.shape, strict=True) if a == 0}
    if len(lengths) > 1:
        raise EFCError(f"state: what is kept of each sample has different lengths, {sorted(lengths)}")


def _brief(sizes: Sequence[int]) -> str:
    shown = ", ".join(f"{size:.3g}" if size > 10**9 else str(size) for size in sizes[:8])
    return f"({shown}{', ...' if len(sizes) > 8 else ''})"
