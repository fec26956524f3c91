"""Search for good settings on the validation split: which to try next, and what to make of the scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import torch
import yaml

from efc.errors import EFCError
from efc.learners import Learner, find_learner
from efc.learners.head_policies import POLICIES
from efc.runs.config import Row, RunConfig

SAMPLERS = ("random", "narrowing", "grid", "optuna")
PACKERS = ("axis", "none")
FIRST_SEED = 100
"""Trials use other seeds than results do."""
Setting = dict[str, Any]
Space = dict[str, Sequence[Any]]
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


def parse_axes(given: Sequence[str]) -> Space:
    """``["beta=1e-3:1e4", "normalise=none,neuron"]`` as a space."""
    space: Space = {}
    for text in given:
        name, equals, values = text.partition("=")
        low, colon, high = values.partition(":")
        try:
            space[name] = (float(low), float(high)) if colon else tuple(values.split(","))
        except ValueError:
            space[name] = ()
        numbers = space[name] if colon else (1.0, 2.0)
        if not (equals and name and values) or len(numbers) != 2 or not 0 < numbers[0] < numbers[1]:
            raise EFCError(f"--search: expected NAME=LOW:HIGH with 0 < LOW < HIGH, or NAME=one,other; got {text!r}")
    return space


def space_of(learner: type[Learner], head: str, given: Space | None = None) -> Space:
    """What is searched: the given or declared space, and the ridge where the head is one big ridge regression."""
    space: Space = dict(given or learner.options_type.space())
    if not space:
        raise EFCError(f"--method: {learner.name} declares no space to search; give its options `search=`")
    return space if not POLICIES[head].owns_head or "ridge" in space else {"ridge": (1e-8, 1e1)} | space


def scattered(space: Space, n: int) -> list[Setting]:
    """``n`` points of a scrambled Sobol sequence: numbers evenly in the logarithm, names in equal shares."""
    drawn = torch.quasirandom.SobolEngine(len(space), scramble=True, seed=0).draw(n).tolist()
    return [{name: _at(axis, u) for (name, axis), u in zip(space.items(), point, strict=True)} for point in drawn]


def grid(space: Space, n: int) -> list[Setting]:
    """The finest regular grid of at most ``n`` points, the same number along every numerical axis."""
    names = math.prod(len(axis) for axis in space.values() if isinstance(axis[0], str))
    numbers = sum(not isinstance(axis[0], str) for axis in space.values())
    each = 1
    while numbers and names * (each + 1) ** numbers <= n:
        each += 1
    steps = [
        axis if isinstance(axis[0], str) else [_at(axis, (k + 0.5) / each) for k in range(each)]
        for axis in space.values()
    ]
    return [dict(zip(space, point, strict=True)) for point in product(*steps)]


def around(space: Space, best: Setting) -> Space:
    """A box about a setting, a quarter as wide in the logarithm, inside the space; names as they are."""
    box: Space = {}
    for name, axis in space.items():
        if isinstance(axis[0], str):
            box[name] = (best[name],)
        else:
            reach = (axis[1] / axis[0]) ** 0.125
            box[name] = (max(axis[0], best[name] / reach), min(axis[1], best[name] * reach))
    return box


def _at(axis: Sequence[Any], u: float) -> Any:
    if isinstance(axis[0], str):
        return axis[min(int(u * len(axis)), len(axis) - 1)]
    low, high = (math.log(bound) for bound in axis)
    return float(f"{math.exp(low + u * (high - low)):.2g}")


def search(sampler: str, space: Space, trials: int, epochs: int, score: Scorer) -> list[tuple[float, Setting]]:
    """Every setting tried, with its score; a score of NaN counts as the worst."""
    if sampler == "narrowing":
        first = scattered(space, -(-trials // 2))
        scores = score(first, epochs)
        box = around(space, first[max(range(len(first)), key=lambda k: scores[k])])
        second = scattered(box, trials - len(first)) if trials > len(first) else []
        return list(zip(scores + (score(second, epochs) if second else []), first + second, strict=True))
    settings = grid(space, trials) if sampler == "grid" else scattered(space, trials)
    return list(zip(score(settings, epochs), settings, strict=True))


def trial_config(base: RunConfig, settings: Sequence[Setting], seeds: int, epochs: int) -> RunConfig:
    """One row per setting, measured on validation data."""
    row = base.rows[0]
    kind = find_learner(row.method).options_type
    rows = []
    for setting in settings:
        try:
            rows.append(Row(row.method, row.head, row.scenario, kind.from_mapping(row.options | setting).to_mapping()))
        except EFCError as mistake:
            raise EFCError(f"{row.method}.{mistake}") from None
    return replace(base, rows=tuple(rows), evaluate="validation", seeds=seeds, epochs=epochs)


def on_border(space: Space, best: Setting) -> list[str]:
    """The numbers of a setting that lie in the outermost twentieth of their axis: a wider search might find better."""
    found = []
    for name, axis in space.items():
        if not isinstance(axis[0], str):
            low, high, at = math.log(axis[0]), math.log(axis[1]), math.log(best[name])
            if not 0.05 <= (at - low) / (high - low) <= 0.95:
                found.append(name)
    return found


def preset_text(
    existing: str,
    base: RunConfig,
    tried: Tried,
    command: str,
    how: str,
    space: Space,
    name: str | None = None,
) -> str:
    """The preset file with the best setting, the budget, the scores and the command that found it."""
    preset = yaml.safe_load(existing) or {}
    row = base.rows[0]
    best, options = tried[0]
    preset.setdefault("training", {"epochs": base.epochs, "batch_size": base.batch_size})
    entry = {
        "options": options,
        "validation_accuracy": round(best, 2),
        "settings_tried": len(tried),
        "how": how,
        "command": command,
        "scores": sorted((round(score, 2) for score, _ in tried), reverse=True)[:10],
        "best": [[round(score, 2), dict(setting)] for score, setting in tried[:5]],
        "searched": {axis: list(values) for axis, values in space.items()},
        "on_border": on_border(space, options),
    }
    preset.setdefault(row.scenario, {}).setdefault(name or row.method, {})[row.head] = entry
    head = "# Found by `efc sweep` on validation data; use it with: efc run --preset THIS_FILE\n"
    return head + yaml.safe_dump(preset, sort_keys=False, default_flow_style=None, width=110)
