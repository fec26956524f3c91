"""Making methods comparable: each reaches the same accuracy on task B after the same number of steps.

The paper aligns its methods so and does not say how. Here: back-propagation at its learning rate sets the number of
steps, seed by seed. For every other method the strength of preservation is sought that forgets least among those with
which some learning rate meets that number. Validation data decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from efc.errors import EFCError
from efc.theory.finding import Tell
from efc.theory.methods import descend, learner_at, losses
from efc.theory.situation import Situation

GOAL = 90.0
"""Accuracy on task B, among all classes, in per cent."""
LOOKS = 30
"""How often a course is looked at until the aligned step."""
STRENGTHS = {
    "EWC": np.geomspace(1e1, 1e6, 6), "FISH": np.geomspace(1e0, 1e5, 6), "EFC": np.geomspace(1e-2, 1e3, 6),
    "EFC+A": np.geomspace(1e-3, 1e2, 6),
}  # fmt: skip
NEAR = 0.1
"""How far off its number of steps a seed may be."""
RATES = np.geomspace(1.0, 100.0, 5)
"""Multiples of back-propagation's learning rate."""


@dataclass(frozen=True)
class Aligned:
    """A method's strength, its learning rate for every seed, and after how many steps it then gets to :data:`GOAL`."""

    method: str
    strength: float
    lr: list[float]
    steps: list[float]

    def to_mapping(self) -> dict[str, Any]:
        return asdict(self)


def first_reached(at: Sequence[int], accuracy: npt.ArrayLike, goal: float = GOAL) -> list[float]:
    """Per run, the step at which ``accuracy`` (len(at), R) first gets to ``goal``, interpolated; inf: it never does."""
    curve = np.asarray(accuracy, float)
    found = []
    for run in range(curve.shape[1]):
        above = np.flatnonzero(curve[:, run] >= goal)
        if len(above) == 0:
            found.append(math.inf)
        elif above[0] == 0:
            found.append(float(at[0]))
        else:
            k = above[0]
            low, high = curve[k - 1, run], curve[k, run]
            found.append(at[k - 1] + (at[k] - at[k - 1]) * (goal - low) / (high - low))
    return found


def rate_for(steps: float, rates: npt.ArrayLike, taken: Sequence[float]) -> float | None:
    """The rate at which ``taken`` would be ``steps``, interpolated in the logarithms; None outside what was tried.

    Of a curve that turns (too high a rate slows a method down again) the first crossing counts.
    """
    r, t = np.asarray(rates, float), np.asarray(taken, float)
    for k in range(len(r) - 1):
        if np.isfinite(t[k + 1]) and t[k + 1] <= steps <= t[k]:
            if not np.isfinite(t[k]) or t[k] == t[k + 1]:
                return float(r[k + 1]) if t[k + 1] == steps or not np.isfinite(t[k]) else float(r[k])
            share = (math.log(t[k]) - math.log(steps)) / (math.log(t[k]) - math.log(t[k + 1]))
            return float(math.exp(math.log(r[k]) + share * (math.log(r[k + 1]) - math.log(r[k]))))
    return None


def looks(steps: int, number: int) -> list[int]:
    """``number`` steps to look at, from 0 to ``steps``, evenly."""
    return sorted({round(steps * k / number) for k in range(number + 1)})


def reference(situation: Situation, tell: Tell) -> Aligned:
    """Back-propagation, whose numbers of steps the others have to meet, seed by seed."""
    s, limit = situation, 400
    while limit <= 25_600:
        at = looks(limit, 2 * LOOKS)
        course = descend(learner_at(s, "BP", s.scale.lr), s, limit, at, losses(s, "validation"))
        steps = first_reached(at, course["accuracy_B"])
        if all(math.isfinite(n) for n in steps):
            tell(f"BP reaches {GOAL:.0f} % on task B after {np.mean(steps):.0f} steps")
            return Aligned("BP", 0.0, [s.scale.lr] * s.runs, steps)
        limit *= 4
    raise EFCError(f"--dataset: back-propagation does not reach {GOAL:.0f} % on task B of {s.scale.dataset}")


def align(situation: Situation, method: str, goals: Sequence[float], tell: Tell) -> Aligned:
    """The strength that forgets least among those that can be aligned, and its learning rate for every seed.

    Strengths are ranked on seed 0; the first for which every seed comes within :data:`NEAR` of its number of steps is
    taken, or else the one that comes nearest.
    """
    tried: list[tuple[float, Aligned]] = []
    for strength, rate in _candidates(situation, method, goals[0]):
        worst, found = _per_seed(situation, method, strength, rate, goals)
        tried.append((worst, found))
        if worst <= NEAR:
            break
    if not tried:
        raise EFCError(f"alignment: no strength of {method} reaches {GOAL:.0f} % on task B in {goals[0]:.0f} steps")
    found = min(tried, key=lambda pair: pair[0])[1]
    rate, steps = float(np.exp(np.mean(np.log(found.lr)))), np.mean(found.steps)
    tell(f"{method}: strength {found.strength:.2g}, learning rate about {rate:.2g}: {steps:.0f} steps")
    return found


def align_again(situation: Situation, method: str, like: Aligned, goals: Sequence[float]) -> Aligned:
    """Other seeds at a strength that was chosen before: their learning rates alone are sought."""
    rate = float(np.exp(np.mean(np.log(like.lr))))
    return _per_seed(situation, method, like.strength, rate, goals)[1]


def _candidates(situation: Situation, method: str, goal: float) -> list[tuple[float, float]]:
    """Strengths that can reach the goal in time on seed 0, with the rate they need; the least forgetful first."""
    strengths, rates = STRENGTHS[method], situation.scale.lr * RATES
    grid = [(float(strength), float(rate)) for strength in strengths for rate in rates]
    taken, forgotten = _try(situation, method, grid, [goal] * len(grid), [0] * len(grid))
    found = []
    for k, strength in enumerate(strengths):
        mine = slice(k * len(rates), (k + 1) * len(rates))
        rate = rate_for(goal, rates, taken[mine])
        if rate is not None:
            lost = float(np.interp(math.log(rate), np.log(rates), forgotten[mine]))
            found.append((lost, float(strength), rate))
    return [(strength, rate) for _, strength, rate in sorted(found)]


def _per_seed(
    situation: Situation, method: str, strength: float, rate: float, goals: Sequence[float]
) -> tuple[float, Aligned]:
    """Correct the rate of every seed until its number of steps is met; how far off the worst seed is at best."""
    rates = [rate] * len(goals)
    best: tuple[float, Aligned] | None = None
    for _ in range(5):
        pairs = [(strength, lr) for lr in rates]
        taken, _ = _try(situation, method, pairs, goals, range(len(goals)))
        worst = max(abs(t / goal - 1) for t, goal in zip(taken, goals, strict=True))
        if best is None or worst < best[0]:
            best = worst, Aligned(method, strength, rates, taken)
        if worst < NEAR:
            break
        # steps are roughly inverse to the rate
        ratios = (t / goal for t, goal in zip(taken, goals, strict=True))
        rates = [lr * min(1.6, max(0.6, ratio)) for lr, ratio in zip(rates, ratios, strict=True)]
    assert best is not None
    return best


def _try(
    situation: Situation,
    method: str,
    pairs: Sequence[tuple[float, float]],
    goals: Sequence[float],
    runs: Sequence[int],
) -> tuple[list[float], list[float]]:
    """For pairs of strength and rate, side by side: the steps to the goal, and task A's loss at the aligned step."""
    limit = round(1.6 * max(goals))
    at = looks(limit, 2 * LOOKS)
    strength, rate = (torch.tensor(values) for values in zip(*pairs, strict=True))
    learner = learner_at(situation, method, rate, strength, runs=runs)
    course = descend(learner, situation, limit, at, losses(situation, "validation"))
    there = [int(np.argmin(np.abs(np.array(at) - goal))) for goal in goals]
    forgotten = [float(course["loss_A"][k, run]) for run, k in enumerate(there)]
    return first_reached(at, course["accuracy_B"]), forgotten
