"""What may be wrong with the units of inputs that somebody hands over, and a sentence for each."""

from __future__ import annotations

from torch import Tensor

from efc.errors import EFCError
from efc.learners.arrivals import WINDOW
from efc.learners.inputs import CONSTANT, LIMIT, Standardiser
from efc.training.diagnosis import Finding

LARGEST = 1e150
"""Squares of larger numbers, summed, are not finite."""
ENOUGH = 16
"""Samples from which on it can be said that a feature hardly varies."""


def check_numbers(x: Tensor) -> None:
    """Refuse inputs of which no deviation can be worked out."""
    if x.numel() and (largest := float(x.detach().abs().max())) > LARGEST:
        raise EFCError(f"inputs: there is a number of size {largest:.0e}, and beyond {LARGEST:.0e} squares overflow")


def faint(inputs: Standardiser) -> list[Finding]:
    """Features that vary, but by so little beside their size that they count as constant; or that none varies."""
    varying = inputs.high > inputs.low
    if float(inputs.n) < ENOUGH:
        return []
    if not bool(varying.any()):
        return [Finding("constant", "all samples so far are the same: there is nothing to tell classes apart by")]
    count = int((varying & ~inputs.known).sum())
    if count == 0:
        return []
    some = f"{count} of {len(inputs.mean)} features"
    if not bool(inputs.variance[varying].any()):  # what is smaller than 1e-162 has a square of zero
        return [Finding("faint", f"{some} are so small that their squares vanish; multiply them by a large number")]
    told = f"{some} vary by less than {CONSTANT:.0e} of their size"
    return [Finding("faint", f"{told}, and count as constant; subtract an offset from them, if that is no rounding")]


def cut_off(inputs: Standardiser, x: Tensor) -> list[Finding]:
    """Whether samples x (N, d) that a stream brings are cut off in half of their features or more: its first samples
    have fixed where."""
    beyond = ((x.detach().to(inputs.mean) - inputs.mean).abs() > LIMIT * inputs.scale).double().mean(1)
    if float((beyond >= 0.5).double().mean()) <= 0.05:
        return []
    told = f"half of what arrives lies more than {LIMIT:.0f} deviations out, and is cut off there"
    return [Finding("cut", f"{told}: a stream is measured by its first {WINDOW} samples; let these be of all kinds")]
