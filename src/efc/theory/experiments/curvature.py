"""Is the implicit curvature ``F~_A`` close to the Fisher of task A, and does it follow when the weights move?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from efc.report.style import COLOURS, new_figure
from efc.theory.curvature import Rows, fisher, implicit, normalised, with_diagonal, with_identity
from efc.theory.finding import (
    Claim,
    Experiment,
    Numbers,
    Tell,
    above,
    alike,
    band,
    bars,
    every,
    mean_std,
    ratios,
    verdict,
)
from efc.theory.methods import visited
from efc.theory.rows import gradient_rows
from efc.theory.situation import BETA, Situation, one_hot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LABELS = {
    "identity": "identity (BP)",
    "diagonal": "diagonal (EWC)",
    "implicit": "implicit (EFC)",
    "stored": "full, as stored (FISH)",
    "task_B": "Fisher of task B (control)",
}

PAPER = {"identity": 0.01, "diagonal": 0.09}
"""The paper's two figures: they are confirmed within a factor :data:`~efc.theory.finding.ALIKE`."""


def measure(situation: Situation, tell: Tell) -> Numbers:
    """Normalised Frobenius products with task A's Fisher: at ``theta_A*``, and along EFC's way through task B."""
    s = situation
    steps = 300 if s.scale.quick else 1000
    at = [0, *(round(steps * share) for share in (0.03, 0.1, 0.3, 1.0))]
    course = visited(s, "EFC", steps, at, s.scale.lr, BETA)
    found: dict[str, list[list[float]]] = {name: [[] for _ in at] for name in LABELS}
    unweighted = []
    for run in range(s.runs):
        tell(f"seed {s.seeds[run]}")
        stored = fisher(s, run)
        unweighted.append(normalised(_without_importance(s, run), stored))
        for k in range(len(at)):
            for name, value in _products(s, run, course[k, run], stored).items():
                found[name][k].append(value)
    return {"steps": at, "parameters": s.layout.n_parameters, "products": found, "implicit_unweighted": unweighted}


def _products(s: Situation, run: int, theta: torch.Tensor, stored: Rows) -> dict[str, float]:
    """Of each candidate with the Fisher recomputed at ``theta``."""
    now = fisher(s, run, theta)
    y = one_hot(s.probes.y, s.classes, theta)
    rows = gradient_rows(s.layout, theta, s.sigma, s.probes.x, y, s.classes)
    return {
        "identity": with_identity(now),
        "diagonal": with_diagonal(s.diagonal()[run], now),
        "implicit": normalised(implicit(s, run, s.probes.x, theta), now),
        "stored": normalised(stored, now),
        "task_B": normalised(Rows(rows, rows, len(rows)), now),
    }


def _without_importance(s: Situation, run: int) -> Rows:
    """``F~`` with all importances equal: what the network alone brings, without anything known of task A."""
    return implicit(s, run, s.probes.x, importance=torch.ones_like(s.theta_A[run]))


def judge(numbers: Numbers) -> list[Claim]:
    p = {name: values[0] for name, values in numbers["products"].items()}
    moved = {name: values[-1] for name, values in numbers["products"].items()}
    plain = numbers["implicit_unweighted"]
    share = np.asarray(plain) / np.asarray(p["implicit"])
    other = every((above(p["implicit"], plain), above(p["implicit"], p["task_B"])))
    start = float(np.mean(p["implicit"]))
    gained = [
        float(np.mean(p["implicit"]) / np.mean(p["diagonal"])),
        float(np.mean(moved["stored"]) / np.mean(moved["implicit"])),
    ]
    return [
        Claim(
            "The identity is a poor approximation of the Fisher.",
            "<I, F_A> about 0.01",
            mean_std(p["identity"]),
            verdict(above(0.1, p["identity"]), alike(ratios(p["identity"], PAPER["identity"]))),
        ),
        Claim(
            "So is its diagonal.",
            "<D_A, F_A> about 0.09",
            mean_std(p["diagonal"]),
            verdict(above(0.25, p["diagonal"]), alike(ratios(p["diagonal"], PAPER["diagonal"]))),
        ),
        Claim(
            "The dynamics recover an approximation of the full Fisher from the diagonal.",
            "F~_A captures the structure of F_A (no figure given)",
            f"<F~_A, F_A> = {mean_std(p['implicit'])}, {gained[0]:.1f} times the diagonal's; without importances "
            f"{mean_std(plain)}, {100 * share.mean():.0f} % of it; Fisher of task B {mean_std(p['task_B'])}",
            verdict(above(p["implicit"], p["diagonal"]), other, above(p["implicit"], 0.5)),
        ),
        Claim(
            "As the weights move the stored Fisher goes stale, the implicit one follows.",
            "stored curvature becomes increasingly misaligned",
            f"after {numbers['steps'][-1]} steps: stored {mean_std(moved['stored'])}, "
            f"implicit {mean_std(moved['implicit'])} (at the start {start:.3g}): {gained[1]:.1f} times",
            verdict(above(0.9, moved["stored"]), above(moved["implicit"], moved["stored"])),
        ),
    ]


def draw(numbers: Numbers) -> Figure:
    figure = new_figure((7.0, 2.8))
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.6))
    names = [name for name in LABELS if name != "stored"]
    first = [numbers["products"][name][0] for name in names]
    bars(left, first, [LABELS[name].split(" (")[0].replace("Fisher of ", "") for name in names])
    left.set_title("at $\\theta_A^*$", fontsize=8)
    left.set_ylabel("normalised product with $F_A$", fontsize=8)
    for k, name in enumerate(LABELS):
        band(right, numbers["steps"], numbers["products"][name], LABELS[name], COLOURS[k])
    right.set_xscale("symlog", linthresh=max(1, numbers["steps"][1]))
    right.set_xlim(left=0)
    right.set_xlabel("steps on task B (EFC)", fontsize=8)
    right.set_title("with the Fisher of task A recomputed there", fontsize=8)
    right.set_ylim(0, 1.05)
    right.legend(fontsize=6, loc="center left")
    for axis in (left, right):
        axis.tick_params(labelsize=7)
    return figure


EXPERIMENT = Experiment("curvature", "How close is the implicit curvature to task A's Fisher?", measure, judge, draw)
