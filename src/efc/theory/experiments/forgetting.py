"""The paper's empirical figure: what becomes of task A while all methods learn task B at the same pace."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from efc.metrics import Array
from efc.report.style import COLOURS, new_figure
from efc.theory.alignment import GOAL, Aligned, align, align_again, first_reached, looks, reference
from efc.theory.finding import (
    ALIKE,
    POINT,
    Answer,
    Claim,
    Experiment,
    Numbers,
    Tell,
    above,
    alike,
    array,
    band,
    every,
    interval,
    mean_std,
    ratios,
    told_ratio,
    verdict,
)
from efc.theory.methods import METHODS, PAPERS, descend, learner_at, losses
from efc.theory.situation import Situation, further

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEYOND = 6
"""How far training goes beyond the aligned step, as a multiple of it."""
RISE = 0.05
"""A loss that ends this share above its minimum has turned."""
FORGOTTEN = 1e-3
"""In ratios, a smaller increase of task A's loss is taken for this one."""
LOOKED = 3
"""How often the equivalence test is looked at, at most: each time with a third of the error of 5 %."""
PANELS = {
    "loss_A": ("task A, own classes: loss increase", True),
    "accuracy_A": ("task A, own classes: accuracy, %", False),
    "loss_CIL": ("both tasks, all classes: loss", False),
    "accuracy_CIL": ("both tasks, all classes: accuracy, %", False),
}


def measure(situation: Situation, tell: Tell) -> Numbers:
    """The courses of all methods; with twice as many seeds as long as it is open whether EFC follows FISH.

    The strengths are those chosen for the first seeds, and the step up to which training goes is theirs.
    """
    s, aligned = situation, _aligned(situation, tell)
    meeting = float(np.mean(aligned["BP"].steps))
    at = looks(round(BEYOND * meeting), 60)
    numbers = {
        "steps": at, "aligned_step": meeting, "goal": GOAL, "seeds": list(s.seeds),
        "methods": _courses(s, aligned, at, tell),
    }  # fmt: skip

    def more(number: int) -> tuple[dict[str, Any], list[int]]:
        nonlocal s
        s = further(s, number)
        tell(f"not decided: {number} more seeds")
        first = reference(s, tell)
        again = {name: align_again(s, name, found, first.steps) for name, found in aligned.items() if name != "BP"}
        return _courses(s, {"BP": first} | again, at, tell), s.seeds

    return extended(numbers, s.scale.most_seeds, more)


def extended(numbers: Numbers, most: int, more: Callable[[int], tuple[dict[str, Any], list[int]]]) -> Numbers:
    """The same with seeds that ``more`` measures: as many again, while the test is open, up to ``most`` in all."""
    for _ in range(LOOKED - 1):
        known = len(numbers["seeds"])
        number = min(known, most - known)
        if number <= 0 or None not in follows(numbers):
            break
        methods, seeds = more(number)
        numbers = numbers | {"methods": joined(numbers["methods"], methods), "seeds": numbers["seeds"] + seeds}
    return numbers


def _aligned(s: Situation, tell: Tell) -> dict[str, Aligned]:
    first = reference(s, tell)
    return {"BP": first} | {name: align(s, name, first.steps, tell) for name in METHODS if name != "BP"}


def _courses(s: Situation, aligned: dict[str, Aligned], at: list[int], tell: Tell) -> dict[str, Any]:
    methods = {}
    for name, found in aligned.items():
        course = descend(learner_at(s, name, found.lr, found.strength), s, at[-1], at, losses(s))
        taken = first_reached(at, course["accuracy_B"])
        tell(f"{name}: {GOAL:.0f} % of the test data after {np.mean(taken):.0f} steps")
        curves = {key: np.round(values.numpy(), 5).tolist() for key, values in course.items()}
        methods[name] = found.to_mapping() | {"steps_on_test": taken, "curves": curves}
    return methods


def joined(methods: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """The same with further seeds, per method: one column each."""
    found = {}
    for name, one in methods.items():
        other = more[name]
        per_seed = {key: one[key] + other[key] for key in ("lr", "steps", "steps_on_test")}
        curves = {key: np.hstack([one["curves"][key], other["curves"][key]]).tolist() for key in one["curves"]}
        found[name] = one | per_seed | {"curves": curves}
    return found


def increase(numbers: Numbers, method: str) -> Array:
    """(looks, R): task A's loss minus what it was."""
    curve = array(numbers["methods"][method]["curves"]["loss_A"])
    return array(curve - curve[0])


def at_two_points(numbers: Numbers, method: str) -> tuple[Array, Array]:
    """Task A's loss increase (R,) at the aligned step, and at the end."""
    k = int(np.argmin(np.abs(array(numbers["steps"]) - numbers["aligned_step"])))
    lost = increase(numbers, method)
    return lost[k], lost[-1]


def against_FISH(numbers: Numbers, method: str) -> list[Array]:
    """``log method / FISH`` of the increase (R,), at both points."""
    pairs = zip(at_two_points(numbers, method), at_two_points(numbers, "FISH"), strict=True)
    return [ratios(mine, fish, FORGOTTEN) for mine, fish in pairs]


def follows(numbers: Numbers) -> list[Answer]:
    """The equivalence test, at both points: whether EFC / FISH is one but for a factor of :data:`ALIKE`."""
    return [alike(logs, error=0.05 / LOOKED) for logs in against_FISH(numbers, "EFC")]


def turned(curve: Array) -> Array:
    """Per run: how far the loss ends above its minimum, as a share of it."""
    return array((curve[-1] - curve.min(0)) / curve.min(0))


def converges(rises: Array) -> Answer:
    """Whether a loss that has once been low stays there."""
    return above(RISE, rises)


def judge(numbers: Numbers) -> list[Claim]:
    curves = {name: found["curves"] for name, found in numbers["methods"].items()}
    here = {name: at_two_points(numbers, name)[0] for name in curves}
    rises = {name: turned(array(c["loss_CIL"])) for name, c in curves.items()}
    accuracy = {name: array(c["accuracy_CIL"])[-1] for name, c in curves.items()}
    own = {name: array(c["accuracy_A"])[-1] for name, c in curves.items()}
    others = [name for name in PAPERS if name != "EFC"]
    order = sorted(here, key=lambda name: float(here[name].mean()))
    seeds = len(here["EFC"])
    rate = np.exp(np.mean(np.log(array(numbers["methods"]["EWC"]["lr"]) / array(numbers["methods"]["BP"]["lr"]))))
    return [
        Claim(
            "Forgetting falls from BP over EWC to FISH.",
            "BP highest, EWC less, FISH least",
            f"loss increase at the aligned step ({GOAL:.0f} % on task B): "
            + ", ".join(f"{n} {mean_std(here[n], 2)}" for n in order if n in PAPERS)
            + f"; EWC at {rate:.1f} times BP's learning rate",
            verdict(above(here["BP"], here["EWC"]), above(here["EWC"], here["FISH"])),
        ),
        Claim(
            "EFC follows FISH: the same loss increase on task A.",
            "EFC matches the forgetting profile of FISH",
            f"EFC / FISH, {seeds} seeds: {_told(numbers, 'EFC', 0.05 / LOOKED)}; margins {1 / ALIKE:g} to {ALIKE:g}",
            verdict(*follows(numbers)),
        ),
        Claim(
            "Task A's accuracy falls less with EFC than with FISH.",
            "degrades less for EFC",
            f"at the end EFC {mean_std(own['EFC'])} %, FISH {mean_std(own['FISH'])} %",
            verdict(above(own["EFC"], own["FISH"], POINT)),
        ),
        Claim(
            "The class-incremental loss converges for EFC and for no method of back-propagation.",
            "only EFC converges",
            "rise above the minimum at the end: " + _rises(rises, PAPERS),
            verdict(converges(rises["EFC"]), every(above(rises[name], RISE) for name in others)),
        ),
        Claim(
            "EFC tells old from new classes best.",
            "highest class-incremental accuracy",
            "at the end: " + ", ".join(f"{name} {mean_std(accuracy[name])} %" for name in PAPERS),
            verdict(every(above(accuracy["EFC"], accuracy[name], POINT) for name in others)),
        ),
        *_remembered_claims(numbers, rises, accuracy),
    ]


def _remembered_claims(numbers: Numbers, rises: dict[str, Array], accuracy: dict[str, Array]) -> list[Claim]:
    """Of EFC with remembered activity, which the paper does not have."""
    logs = against_FISH(numbers, "EFC+A")
    pull = numbers["methods"]["EFC+A"]["strength"]
    said = "not in the paper"
    return [
        Claim(
            "EFC with remembered activity forgets no more than FISH.",
            said,
            f"EFC+A / FISH: {_told(numbers, 'EFC+A')}; margin {ALIKE:g}; pull {pull:.2g}",
            verdict(*(above(math.log(ALIKE), each) for each in logs)),
        ),
        Claim(
            "With remembered activity the class-incremental loss converges.",
            said,
            "rise above the minimum at the end: " + _rises(rises, ("EFC+A",)),
            verdict(converges(rises["EFC+A"])),
        ),
        Claim(
            "With remembered activity EFC tells old from new classes best of all.",
            said,
            f"at the end: EFC+A {mean_std(accuracy['EFC+A'])} %",
            verdict(every(above(accuracy["EFC+A"], accuracy[name], POINT) for name in PAPERS)),
        ),
    ]


def _told(numbers: Numbers, method: str, error: float = 0.05) -> str:
    first, last = (told_ratio(logs, error) for logs in against_FISH(numbers, method))
    return f"{first} at the aligned step, {last} at the end"


def _rises(rises: dict[str, Array], names: tuple[str, ...]) -> str:
    spans = {name: interval(100 * rises[name]) for name in names}
    return ", ".join(f"{name} {100 * rises[name].mean():.0f} % ({a:.0f} to {b:.0f})" for name, (a, b) in spans.items())


def draw(numbers: Numbers) -> Figure:
    figure = new_figure((7.0, 4.6))
    axes = figure.subplots(2, 2, sharex=True)
    for axis, (key, (title, differs)) in zip(axes.flat, PANELS.items(), strict=True):
        for colour, (name, found) in zip(COLOURS, numbers["methods"].items(), strict=False):
            curve = array(found["curves"][key])
            band(axis, numbers["steps"], curve - curve[0] if differs else curve, name, colour)
        axis.axvline(numbers["aligned_step"], color="0.5", linewidth=0.8, linestyle=":")
        axis.set_title(title, fontsize=8)
        axis.tick_params(labelsize=7)
    for axis in axes[1]:
        axis.set_xlabel("steps on task B", fontsize=8)
    axes[0, 0].legend(fontsize=7)
    axes[0, 1].annotate(
        f"all at {numbers['goal']:.0f} % on B", (numbers["aligned_step"], 0), xycoords=("data", "axes fraction"),
        xytext=(3, 4), textcoords="offset points", fontsize=6, color="0.4",
    )  # fmt: skip
    return figure


EXPERIMENT = Experiment("forgetting", "What becomes of task A while task B is learned?", measure, judge, draw)
