"""Is EFC's update the continual-natural gradient, ``-F~_A^{-1} grad L_B``?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from efc.metrics import Array
from efc.report.style import COLOURS, LINES, new_figure
from efc.theory.curvature import Rows, cosine, fisher, implicit
from efc.theory.finding import Claim, Experiment, Numbers, Tell, above, array, band, every, mean_std, verdict
from efc.theory.methods import Control, equilibrium, update_rows, visited
from efc.theory.rows import gradient_rows
from efc.theory.situation import BETA, Situation, one_hot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DAMPINGS = [10.0**k for k in range(-4, 3)]
"""Of the inverse, as multiples of the matrix's norm: far above it, the inverse is a multiple of the identity."""
CLOSER = 0.01
"""The smallest difference of two cosines that is worth speaking of."""
LABELS = {
    "gradient": r"$-\nabla L_B$ (BP)",
    "diagonal": r"$-D_A^{-1}\nabla L_B$ (EWC)",
    "implicit": r"$-\tilde{F}_A^{-1}\nabla L_B$ (the theorem)",
    "full": r"$-F_A^{-1}\nabla L_B$",
}


def measure(situation: Situation, tell: Tell) -> Numbers:
    """Cosines between EFC's update and each candidate, for the mean over a batch and sample by sample."""
    s = situation
    steps = 300 if s.scale.quick else 1000
    shares = (0.03, 0.1, 0.3, 1.0) if s.scale.quick else (0.1, 1.0)
    at = [0, *(round(steps * share) for share in shares)]
    course = visited(s, "EFC", steps, at, s.scale.lr, BETA)
    batch: dict[str, list[list[list[float]]]] = {name: [[] for _ in at] for name in LABELS}
    samples: dict[str, list[list[float]]] = {name: [[] for _ in at] for name in LABELS}
    for run in range(s.runs):
        tell(f"seed {s.seeds[run]}")
        for k in range(len(at)):
            together, single = _cosines(s, run, course[k, run])
            for name in LABELS:
                batch[name][k].append(together[name])
                samples[name][k].append(float(np.median(single[name])))
    return {"steps": at, "dampings": DAMPINGS, "batch": batch, "samples": samples}


def _cosines(s: Situation, run: int, theta: Tensor) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Of the batch, per candidate and damping; of every sample, per candidate, at its best damping for the batch."""
    x, y = s.probes.x, one_hot(s.probes.y, s.classes, theta)
    update = update_rows(s, equilibrium(s, run, theta, x, y, Control()))
    gradient = gradient_rows(s.layout, theta, s.sigma, x, y, s.classes)
    together: dict[str, list[float]] = {}
    single: dict[str, list[float]] = {}
    for name, inverse in candidates_of(fisher(s, run), implicit(s, run, x, theta), s.diagonal()[run]).items():
        mean = gradient.mean(0, keepdim=True).T
        together[name] = [-cosine(update.mean(0), inverse(mean, mu)) for mu in DAMPINGS]
        best = DAMPINGS[int(np.argmax(together[name]))]
        single[name] = (-torch.cosine_similarity(update, inverse(gradient.T, best).T, dim=1)).tolist()
    return together, single


Inverse = Callable[[Tensor, float], Tensor]
"""What a matrix's damped inverse makes of vectors (P, k), for a damping relative to the matrix's norm."""


def candidates_of(F: Rows, implied: Rows, D: Tensor) -> dict[str, Inverse]:
    size, of_F, of_implied = float(D.norm()), F.norm, implied.norm
    return {
        "gradient": lambda v, mu: v,
        "diagonal": lambda v, mu: v / (D + mu * size).unsqueeze(1),
        "implicit": lambda v, mu: implied.damped_inverse(v, mu * of_implied),
        "full": lambda v, mu: F.damped_inverse(v, mu * of_F),
    }


def best_damping(numbers: Numbers, name: str) -> Array:
    """(looks, R): the batch's cosine at the damping that suits the candidate best."""
    return array(array(numbers["batch"][name]).max(2))


def judge(numbers: Numbers) -> list[Claim]:
    best = {name: best_damping(numbers, name) for name in LABELS}
    end = {name: values[-1] for name, values in best.items()}
    single = {name: array(values)[-1] for name, values in numbers["samples"].items()}
    little = array(numbers["batch"]["implicit"])[-1, :, 0]
    beats = every(above(end["implicit"], end[name], CLOSER) for name in ("gradient", "diagonal"))
    per_sample = every(above(single["implicit"], single[name], CLOSER) for name in ("gradient", "diagonal"))
    said = ", ".join(f"{name} {mean_std(values, 2)}" for name, values in end.items())
    return [
        Claim(
            "The update points along -F~_A^{-1} grad L_B.",
            "equal up to the learning rate",
            f"cosine of the batch's update, each at its best damping, after {numbers['steps'][-1]} steps: {said}",
            verdict(above(end["implicit"], 0.9), beats),
        ),
        Claim(
            "It does so for each sample.",
            "stated for a sample x_B",
            "median cosine: " + ", ".join(f"{name} {mean_std(values, 2)}" for name, values in single.items()),
            verdict(above(single["implicit"], 0.9), per_sample),
        ),
        Claim(
            "The inverse of F~_A is what makes the difference.",
            "F~_A^{-1} preconditions",
            f"F~ has rank at most C - 1 per sample: with little damping ({numbers['dampings'][0]:g} of its norm) the "
            f"cosine is {mean_std(little, 2)}, with much it is the plain gradient's "
            f"({mean_std(end['gradient'], 2)})",
            verdict(above(little, end["gradient"])),
        ),
    ]


def draw(numbers: Numbers) -> Figure:
    figure = new_figure((7.0, 2.9))
    left, right = figure.subplots(1, 2, sharey=True)
    for k, (name, label) in enumerate(LABELS.items()):
        band(left, numbers["steps"], best_damping(numbers, name), label, COLOURS[k], LINES[k])
        band(right, numbers["dampings"], array(numbers["batch"][name])[-1].T, label, COLOURS[k], LINES[k])
    left.set_xscale("symlog", linthresh=max(1, numbers["steps"][1]))
    left.set_xlim(left=0)
    left.set_xlabel("steps on task B", fontsize=8)
    left.set_ylabel("cosine with EFC's update", fontsize=8)
    left.set_title("along training, each at its best damping", fontsize=8)
    right.set_xscale("log")
    right.set_xlabel("damping, of the matrix's norm", fontsize=8)
    right.set_title("at the end, over the damping", fontsize=8)
    right.legend(fontsize=6)
    for axis in (left, right):
        axis.tick_params(labelsize=7)
    return figure


EXPERIMENT = Experiment("natural-gradient", "Is EFC's update a natural gradient of task A?", measure, judge, draw)
