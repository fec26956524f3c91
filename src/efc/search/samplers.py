"""Which settings to try: evenly scattered, on a grid, or narrowing in on the best; and what to make of the scores."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import torch

from efc.search.space import Setting, Space, around, at, is_choice

SAMPLERS = ("random", "narrowing", "grid", "optuna")
Scorer = Callable[[list[Setting], int], list[float]]
"""Mean validation accuracy of settings that are trained for so many epochs."""
Tried = list[tuple[float, Setting]]


def ranked(tried: Tried) -> Tried:
    """The best first; a score of NaN is the worst."""
    return sorted(tried, key=lambda entry: math.inf if math.isnan(entry[0]) else -entry[0])


def run_off(
    tried: Tried, finalists: int, again: Callable[[list[Setting]], list[float]], seeds: tuple[int, int]
) -> Tried:
    """Try the best settings again on further seeds; their scores become means over all, and they go first.

    With few seeds the best of many scores is a lucky one: let seeds that did not choose the finalists decide among
    them. ``seeds`` are their numbers, before and now.
    """
    order = ranked(tried)
    first, rest = order[:finalists], order[finalists:]
    before, now = seeds
    new = again([setting for _, setting in first])
    means = [(before * old + now * score) / (before + now) for (old, _), score in zip(first, new, strict=True)]
    return [*ranked(list(zip(means, (setting for _, setting in first), strict=True))), *rest]


def scattered(space: Space, n: int) -> list[Setting]:
    """``n`` points of a scrambled Sobol sequence: numbers evenly in the logarithm, names in equal shares."""
    drawn = torch.quasirandom.SobolEngine(len(space), scramble=True, seed=0).draw(n).tolist()
    return [{name: at(axis, u) for (name, axis), u in zip(space.items(), point, strict=True)} for point in drawn]


def grid(space: Space, n: int) -> list[Setting]:
    """The finest regular grid of at most ``n`` points, the same number along every numerical axis."""
    names = math.prod(len(axis) for axis in space.values() if is_choice(axis))
    numbers = sum(not is_choice(axis) for axis in space.values())
    each = 1
    while numbers and names * (each + 1) ** numbers <= n:
        each += 1
    steps = [axis if is_choice(axis) else [at(axis, (k + 0.5) / each) for k in range(each)] for axis in space.values()]
    return [dict(zip(space, point, strict=True)) for point in product(*steps)]


def search(sampler: str, space: Space, trials: int, epochs: int, score: Scorer) -> Tried:
    """Every setting tried, with its score; a score of NaN counts as the worst."""
    if sampler == "narrowing":
        first = scattered(space, -(-trials // 2))
        scores = score(first, epochs)
        box = around(space, first[max(range(len(first)), key=lambda k: scores[k])])
        second = scattered(box, trials - len(first)) if trials > len(first) else []
        return list(zip(scores + (score(second, epochs) if second else []), first + second, strict=True))
    settings = grid(space, trials) if sampler == "grid" else scattered(space, trials)
    return list(zip(score(settings, epochs), settings, strict=True))
