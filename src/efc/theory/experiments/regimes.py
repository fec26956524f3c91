"""How the class-incremental loss falls, turns and rises while task B is learned, and whether EFC escapes that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from efc.metrics import Array
from efc.report.style import COLOURS, new_figure
from efc.streams.split import Part
from efc.theory.curvature import cosine, fisher
from efc.theory.finding import (
    Claim,
    Experiment,
    Numbers,
    Tell,
    above,
    alike,
    array,
    band,
    mean_std,
    ratios,
    verdict,
    within,
)
from efc.theory.methods import Control, equilibrium, update_rows, visited
from efc.theory.rows import gradient_rows, mean_gradient
from efc.theory.situation import Situation, one_hot, some

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ETA = 0.05
"""Step of the gradient flow."""
BETA = 1.0


def measure(situation: Situation, tell: Tell) -> Numbers:
    """Gradient descent on task B's loss alone, both tasks' gradients watched; then EFC's own direction on its way."""
    s = situation
    steps = 1500 if s.scale.quick else 800
    tell(f"gradient flow, {steps} steps")
    flow, at_turn = follow(s, steps)
    tell("EFC's direction")
    return flow | at_turn | _directions(s)


def gradients(s: Situation, theta: Tensor, part: Part, classes: slice) -> tuple[Tensor, Tensor]:
    return mean_gradient(s.layout, theta, s.sigma, part.x, one_hot(part.y, classes, theta), classes)


def follow(s: Situation, steps: int, eta: float = ETA) -> tuple[Numbers, Numbers]:
    """``theta' = -grad L_B``: the two terms of ``d/dt L_CIL``, and what is true where they cancel."""
    B = some(s.B, s.scale.fisher_samples)
    theta = s.theta_A.clone()
    seen: dict[str, list[Tensor]] = {name: [] for name in ("loss", "improvement", "interference")}
    turned: dict[int, Numbers] = {}
    for _ in range(steps):
        loss_A, g_A = gradients(s, theta, s.A, s.classes)
        loss_B, g_B = gradients(s, theta, B, s.classes)
        terms = -g_B.square().sum(1), -(g_A * g_B).sum(1)
        for name, value in zip(seen, (loss_A + loss_B, *terms), strict=True):
            seen[name].append(value)
        for run in torch.nonzero(terms[0] + terms[1] >= 0).flatten().tolist():
            if run not in turned:
                turned[run] = _at_turn(s, run, theta[run], g_A[run], g_B[run], B)
        theta = theta - eta * g_B
    flow = {name: torch.stack(values).double().cpu().numpy() for name, values in seen.items()}
    kept = np.unique(np.geomspace(1, steps, 80).astype(int)) - 1
    numbers = {name: values[kept].tolist() for name, values in flow.items()}
    errors = [derivative_error(s, point, B) for point in (s.theta_A, theta)]
    return (
        numbers
        | {"time": (eta * kept).tolist(), "derivative_error": [max(pair) for pair in zip(*errors, strict=True)]},
        {"turns": [turned.get(run) for run in range(s.runs)]},
    )


def derivative_error(s: Situation, theta: Tensor, B: Part, h: float = 1e-6) -> list[float]:
    """Per run: how far the sum of the two terms is from what a tiny step along ``-grad L_B`` does, relative to it."""
    A, B, theta = Part(s.A.x.double(), s.A.y), Part(B.x.double(), B.y), theta.double()
    g_A, g_B = (gradients(s, theta, part, s.classes)[1] for part in (A, B))
    ends = [sum(gradients(s, theta + k * h * g_B, part, s.classes)[0] for part in (A, B)) for k in (-1, 1)]
    happened = (ends[0] - ends[1]) / (2 * h)
    predicted = -(g_B.square() + g_A * g_B).sum(1)
    return ((happened - predicted).abs() / predicted.abs()).tolist()


def _at_turn(s: Situation, run: int, theta: Tensor, g_A: Tensor, g_B: Tensor, B: Part) -> Numbers:
    """At the stationary point: the orthogonality, the quadratic approximation, the rate at which grad L_B decays."""
    quadratic = fisher(s, run).times(theta - s.theta_A[run])
    own = gradients(s, theta.unsqueeze(0), s.A, s.classes_A)[1][0]
    rows = gradient_rows(s.layout, theta, s.sigma, B.x, one_hot(B.y, s.classes, theta), s.classes)
    predicted = -2 * float((rows @ g_B).square().mean())
    small = 1e-2
    after = gradients(s, (theta - small * g_B).unsqueeze(0), B, s.classes)[1][0]
    happened = float(after.square().sum() - g_B.square().sum()) / small
    return {
        "cosine_B_CIL": cosine(g_B, g_A + g_B),
        "cosine_quadratic": cosine(g_A, quadratic),
        "cosine_quadratic_own": cosine(own, quadratic),
        "decay_predicted_over_happened": predicted / happened,
    }


def _directions(s: Situation) -> Numbers:
    """Along EFC's way: does its direction, and does ``-grad L_B``, lead down the class-incremental loss?"""
    steps = 400 if s.scale.quick else 2000
    at = sorted({round(n) for n in np.geomspace(1, steps, 12)} | {0})
    course = visited(s, "EFC", steps, at, 2 * s.scale.lr, BETA)
    x, y = s.probes.x, s.probes.y
    found: dict[str, list[list[float]]] = {"EFC": [], "BP": []}
    for theta in course:
        g_A, g_B = gradients(s, theta, s.A, s.classes)[1], gradients(s, theta, s.probes, s.classes)[1]
        directions = []
        for run in range(s.runs):
            at_rest = equilibrium(s, run, theta[run], x, one_hot(y, s.classes, theta), Control(beta=BETA))
            directions.append(update_rows(s, at_rest).mean(0))
        found["EFC"].append([cosine(g_A[r] + g_B[r], directions[r]) for r in range(s.runs)])
        found["BP"].append([cosine(g_A[r] + g_B[r], -g_B[r]) for r in range(s.runs)])
    return {"direction_steps": at, "directions": found}


def regimes(numbers: Numbers) -> Array:
    """(3, R): whether the loss falls at first, whether it turns, whether it ends above its minimum."""
    rate = array(numbers["improvement"]) + array(numbers["interference"])
    loss = array(numbers["loss"])
    turns = array([float(turn is not None) for turn in numbers["turns"]])
    return array(np.stack([rate[0] < 0, turns > 0, loss[-1] > 1.02 * loss.min(0)]))


def judge(numbers: Numbers) -> list[Claim]:
    falls, turns, rises = regimes(numbers).astype(bool)
    points = [turn for turn in numbers["turns"] if turn is not None]
    n = len(numbers["turns"])
    down = {name: 100 * (array(v) < 0).mean(0) for name, v in numbers["directions"].items()}

    def of(name: str) -> list[float]:
        return [point[name] for point in points]

    claims = [
        Claim(
            "d/dt L_CIL is the sum of task B's improvement and task A's interference.",
            "identity",
            f"differs from what a tiny step does by {max(numbers['derivative_error']):.1g} of it at most",
            verdict(max(numbers["derivative_error"]) < 1e-3),
        ),
        Claim(
            "Under back-propagation the class-incremental loss falls, turns and rises.",
            "three regimes",
            f"of {n} seeds {falls.sum()} fall at first, {turns.sum()} turn, {rises.sum()} end above their minimum",
            verdict(bool(falls.all()), bool(turns.all()), bool(rises.all())),
        ),
        Claim(
            "Each EFC update leads down the class-incremental loss.",
            "one-step descent",
            f"on EFC's way {mean_std(down['EFC'], 2)} % of its directions lead down; -grad L_B there "
            f"{mean_std(down['BP'], 2)} %",
            verdict(above(down["EFC"], 99), above(down["EFC"], down["BP"], 5)),
        ),
    ]
    if points:
        claims[2:2] = [
            Claim(
                "At the turn grad L_B is orthogonal to grad L_CIL.",
                "cosine 0",
                f"cosine {mean_std(of('cosine_B_CIL'), 2)}",
                verdict(within(of("cosine_B_CIL"), -0.05, 0.05)),
            ),
            Claim(
                "There grad L_A is still F_A (theta - theta_A*).",
                "quadratic approximation near the optimum of task A",
                f"cosine {mean_std(of('cosine_quadratic'), 2)} among all classes, "
                f"{mean_std(of('cosine_quadratic_own'), 2)} among its own",
                verdict(above(of("cosine_quadratic"), 0.9), above(of("cosine_quadratic_own"), 0.9)),
            ),
            Claim(
                "Task B's Fisher governs how fast grad L_B decays.",
                "d/dt |grad L_B|^2 = -2 grad^T F_B grad",
                f"predicted / happened at the turn: {mean_std(of('decay_predicted_over_happened'), 2)}",
                verdict(alike(ratios(of("decay_predicted_over_happened"), 1.0, 1e-6))),
            ),
        ]
    return claims


def draw(numbers: Numbers) -> Figure:
    figure = new_figure((7.0, 2.6))
    left, middle, right = figure.subplots(1, 3)
    time = array(numbers["time"]) + ETA
    band(left, time.tolist(), numbers["loss"], "$L_{CIL}$", COLOURS[0])
    left.set_title("class-incremental loss (BP)", fontsize=8)
    band(middle, time.tolist(), numbers["improvement"], "improvement of B", COLOURS[2])
    band(middle, time.tolist(), numbers["interference"], "interference with A", COLOURS[1])
    middle.axhline(0, color="0.5", linewidth=0.6)
    middle.set_yscale("symlog", linthresh=1e-3)
    middle.set_title("the two terms of its rate", fontsize=8)
    middle.legend(fontsize=6)
    for axis in (left, middle):
        axis.set_xscale("log")
        axis.set_xlabel("time", fontsize=8)
    for k, (name, values) in enumerate(numbers["directions"].items()):
        band(right, numbers["direction_steps"], values, name, COLOURS[3 + k])
    right.axhline(0, color="0.5", linewidth=0.6)
    right.set_xscale("symlog", linthresh=1)
    right.set_xlim(left=0)
    right.set_xlabel("EFC's steps on task B", fontsize=8)
    right.set_title("cosine of $\\nabla L_{CIL}$ with directions", fontsize=8)
    right.legend(fontsize=7)
    for axis in (left, middle, right):
        axis.tick_params(labelsize=7)
    return figure


EXPERIMENT = Experiment("regimes", "When does learning task B begin to harm both?", measure, judge, draw)
