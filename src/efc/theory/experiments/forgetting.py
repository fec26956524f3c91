"""The paper's empirical figure: what becomes of task A while BP, EWC, FISH and EFC learn task B at the same pace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from efc.metrics import Array
from efc.report.style import COLOURS, new_figure
from efc.theory.alignment import GOAL, align, first_reached, looks, reference
from efc.theory.finding import Claim, Experiment, Numbers, Tell, array, band, clearly, mean_std, verdict
from efc.theory.methods import METHODS, descend, learner_at, losses
from efc.theory.situation import Situation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEYOND = 6
"""How far training goes beyond the aligned step, as a multiple of it."""
RISE = 0.05
"""A loss that ends this share above its minimum has turned."""
PANELS = {
    "loss_A": ("task A, own classes: loss increase", True),
    "accuracy_A": ("task A, own classes: accuracy, %", False),
    "loss_CIL": ("both tasks, all classes: loss", False),
    "accuracy_CIL": ("both tasks, all classes: accuracy, %", False),
}


def measure(situation: Situation, tell: Tell) -> Numbers:
    s = situation
    first = reference(s, tell)
    aligned = {"BP": first} | {name: align(s, name, first.steps, tell) for name in METHODS if name != "BP"}
    meeting = float(np.mean(first.steps))
    steps = round(BEYOND * meeting)
    at = looks(steps, 60)
    methods = {}
    for name, found in aligned.items():
        learner = learner_at(s, name, found.lr, found.strength)
        course = descend(learner, s, steps, at, losses(s))
        taken = first_reached(at, course["accuracy_B"])
        tell(f"{name}: {GOAL:.0f} % of the test data after {np.mean(taken):.0f} steps")
        curves = {key: np.round(values.numpy(), 5).tolist() for key, values in course.items()}
        methods[name] = found.to_mapping() | {"steps_on_test": taken, "curves": curves}
    return {"steps": at, "aligned_step": meeting, "goal": GOAL, "methods": methods}


def increase(numbers: Numbers, method: str) -> Array:
    """(looks, R): task A's loss minus what it was."""
    curve = array(numbers["methods"][method]["curves"]["loss_A"])
    return array(curve - curve[0])


def turned(curve: Array) -> Array:
    """Per run: how far the loss ends above its minimum, as a share of it."""
    return array((curve[-1] - curve.min(0)) / curve.min(0))


def judge(numbers: Numbers) -> list[Claim]:
    k = int(np.argmin(np.abs(array(numbers["steps"]) - numbers["aligned_step"])))
    lost = {name: increase(numbers, name) for name in numbers["methods"]}
    here = {name: values[k] for name, values in lost.items()}
    end = {name: values[-1] for name, values in lost.items()}
    curves = {name: found["curves"] for name, found in numbers["methods"].items()}
    rises = {name: turned(array(c["loss_CIL"])) for name, c in curves.items()}
    accuracy = {name: array(c["accuracy_CIL"])[-1] for name, c in curves.items()}
    best_A = {name: array(c["accuracy_A"])[-1] for name, c in curves.items()}
    ratios = [float(here["EFC"].mean() / here["FISH"].mean()), float(end["EFC"].mean() / end["FISH"].mean())]
    close = [0.5 < ratio < 2 for ratio in ratios]
    settled = {name: bool(values.mean() < RISE) for name, values in rises.items()}
    others = [name for name in settled if name != "EFC"]
    order = sorted(here, key=lambda name: float(here[name].mean()))
    return [
        Claim(
            "Forgetting falls from BP over EWC to FISH.",
            "BP highest, EWC less, FISH least",
            "loss increase at the aligned step: " + ", ".join(f"{n} {mean_std(here[n], 2)}" for n in order),
            verdict(clearly(here["BP"], here["EWC"]), clearly(here["EWC"], here["FISH"])),
        ),
        Claim(
            "EFC follows FISH: the same loss increase on task A.",
            "EFC matches the forgetting profile of FISH",
            f"EFC / FISH: {ratios[0]:.2f} at the aligned step, {ratios[1]:.2f} at the end",
            verdict(*close),
        ),
        Claim(
            "Task A's accuracy falls less with EFC than with FISH.",
            "degrades less for EFC",
            f"at the end EFC {mean_std(best_A['EFC'])} %, FISH {mean_std(best_A['FISH'])} %",
            verdict(clearly(best_A["EFC"], best_A["FISH"])),
        ),
        Claim(
            "The class-incremental loss converges for EFC and for no method of back-propagation.",
            "only EFC converges",
            "rise above the minimum at the end: "
            + ", ".join(f"{name} {100 * values.mean():.0f} %" for name, values in rises.items()),
            verdict(settled["EFC"], not any(settled[name] for name in others)),
        ),
        Claim(
            "EFC tells old from new classes best.",
            "highest class-incremental accuracy",
            "at the end: " + ", ".join(f"{name} {mean_std(values)} %" for name, values in accuracy.items()),
            verdict(all(clearly(accuracy["EFC"], accuracy[name]) for name in others)),
        ),
    ]


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
    axes[0, 0].annotate(
        f"all at {numbers['goal']:.0f} % on B", (numbers["aligned_step"], 1), xycoords=("data", "axes fraction"),
        xytext=(3, -9), textcoords="offset points", fontsize=6, color="0.4",
    )  # fmt: skip
    return figure


EXPERIMENT = Experiment("forgetting", "What becomes of task A while task B is learned?", measure, judge, draw)
