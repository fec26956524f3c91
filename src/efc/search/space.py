"""What is searched: ranges of numbers, evenly in the logarithm, and names to choose among."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeGuard

from efc.errors import EFCError
from efc.learners import Learner
from efc.learners.head_policies import POLICIES

Axis = Sequence[float] | Sequence[str]
"""(low, high) of a number, or the names of a choice."""
Space = dict[str, Axis]
Setting = dict[str, float | str]
"""A point of the space."""


def is_choice(axis: Axis) -> TypeGuard[Sequence[str]]:
    return isinstance(axis[0], str)


def bounds(axis: Axis) -> tuple[float, float]:
    """Low and high of a number's axis."""
    low, high = (float(value) for value in axis)
    return low, high


def parse_axes(given: Sequence[str]) -> Space:
    """``["beta=1e-3:1e4", "normalise=none,neuron"]`` as a space."""
    space: Space = {}
    for text in given:
        name, equals, values = text.partition("=")
        low, colon, high = values.partition(":")
        try:
            numbers = (float(low), float(high)) if colon else (1.0, 2.0)
        except ValueError:
            numbers = (0.0, 0.0)
        space[name] = numbers if colon else tuple(values.split(","))
        if not (equals and name and values) or not 0 < numbers[0] < numbers[1]:
            raise EFCError(f"--search: expected NAME=LOW:HIGH with 0 < LOW < HIGH, or NAME=one,other; got {text!r}")
    return space


def space_of(learner: type[Learner], head: str, given: Space | None = None) -> Space:
    """What is searched: the given or declared space, and the ridge where the head is one big ridge regression."""
    space: Space = dict(given or learner.options_type.space())
    if not space:
        raise EFCError(f"--method: {learner.name} declares no space to search; give its options `search=`")
    return space if not POLICIES[head].owns_head or "ridge" in space else {"ridge": (1e-8, 1e1)} | space


def around(space: Space, best: Setting) -> Space:
    """A box about a setting, a quarter as wide in the logarithm, inside the space; names as they are."""
    box: Space = {}
    for name, axis in space.items():
        if is_choice(axis):
            box[name] = (str(best[name]),)
        else:
            (low, high), at = bounds(axis), float(best[name])
            reach = (high / low) ** 0.125
            box[name] = (max(low, at / reach), min(high, at * reach))
    return box


def at(axis: Axis, u: float) -> float | str:
    """The value of an axis at ``u`` in [0, 1), two digits of a number."""
    if is_choice(axis):
        return axis[min(int(u * len(axis)), len(axis) - 1)]
    low, high = (math.log(bound) for bound in bounds(axis))
    return float(f"{math.exp(low + u * (high - low)):.2g}")


def on_border(space: Space, best: Setting) -> list[str]:
    """The numbers of a setting that lie in the outermost twentieth of their axis: a wider search might find better."""
    found = []
    for name, axis in space.items():
        if not is_choice(axis):
            low, high, here = (math.log(value) for value in (*bounds(axis), float(best[name])))
            if not 0.05 <= (here - low) / (high - low) <= 0.95:
                found.append(name)
    return found
