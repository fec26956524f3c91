"""Remembered activity: is its curvature the Fisher, its update a natural gradient, and what does it bound?"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from efc.learners.gradient import GradientLearner
from efc.metrics import Array
from efc.report.style import COLOURS, new_figure
from efc.theory.curvature import Rows, cosine
from efc.theory.finding import (
    Claim,
    Experiment,
    Numbers,
    Tell,
    above,
    array,
    band,
    bars,
    every,
    geometric,
    mean_std,
    verdict,
)
from efc.theory.methods import descend, learner_at
from efc.theory.remembered import Factors, Kronecker, forgetting_bound, moments, output_factors
from efc.theory.rows import gradient_rows, mean_gradient
from efc.theory.situation import Situation, one_hot, some

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LR, PULL = 3e-3, 0.3
"""As EFC ships."""
STEPS = {"plain": {}, "natural": {"step": "natural"}}
"""EFC with the pull; and with the natural step, ``mu (mu I + A)^-1``, as well."""
OWN = 0.1
"""How much closer, relatively, task A's moments have to be to its Fisher than task B's."""
DAMPINGS = [10.0**k for k in range(-6, 3)]
"""Of the inverse, as multiples of the matrix's norm."""
CLOSER, KEPT = 0.01, 0.8
"""The smallest difference of cosines that counts; the share of its product a curvature has to keep on the way."""
LABELS = {
    "identity": "identity",
    "diagonal": "diagonal",
    "remembered": "$A_i \\otimes I$",
    "recomputed": "recomputed",
    "task_B": "of task B",
    "both_factors": "$A_i \\otimes B_i$",
}


def measure(situation: Situation, tell: Tell) -> Numbers:
    """Along EFC's way through task B with the pull: products with task A's Fisher as it is there, cosines, bounds."""
    s = situation
    steps = 300 if s.scale.quick else 1000
    at = [0, *(round(steps * share) for share in (0.03, 0.1, 0.3, 1.0))]
    tell("task B is learned with the pull")
    learner = learner_at(s, "EFC+A", LR, PULL)
    course = descend(learner, s, steps, at, lambda me: {"theta": me.theta.clone()})["theta"].to(s.device)
    updates = {name: _updates(s, course, given) for name, given in STEPS.items()}
    found = []
    for run in range(s.runs):
        tell(f"seed {s.seeds[run]}")
        found.append(_of_run(s, run, course[:, run], {name: rows[:, run] for name, rows in updates.items()}))
    return {"steps": at, "dampings": DAMPINGS, "pull": PULL} | {key: [one[key] for one in found] for key in found[0]}


def _updates(s: Situation, course: Tensor, given: dict[str, Any]) -> Tensor:
    """(looks, R, P): what the learner would subtract of the probes' mean gradient and pull, had it no Adam."""
    learner = learner_at(s, "EFC+A", LR, PULL, given=given)
    assert isinstance(learner, GradientLearner)
    remembered = learner.remembered
    assert remembered is not None
    x = s.probes.x.expand(s.runs, -1, -1)
    y = one_hot(s.probes.y, s.classes, learner.theta).expand(s.runs, -1, -1)
    found = []
    for theta in course:
        learner.theta.copy_(theta)
        learner.descent(x, y)
        remembered.pull(learner.theta, learner.gradient)
        step = learner.gradient.clone()
        found.append(remembered.project(step) if learner.options.step == "natural" else step)
    return torch.stack(found)


def _of_run(s: Situation, run: int, course: Tensor, updates: dict[str, Tensor]) -> Numbers:
    theta = s.theta_A[run]
    A, D = moments(s, theta, s.A.x), s.diagonal()[run]
    stored = Kronecker(s.layout, A)
    of_B = Kronecker(s.layout, moments(s, theta, s.probes.x))
    both = Kronecker(s.layout, A, output_factors(Factors.of(s, theta, s.A, s.classes_A)))
    rows = gradient_rows(s.layout, theta, s.sigma, s.A.x, one_hot(s.A.y, s.classes_A, theta), s.classes_A)
    F = Rows(rows, rows, len(rows))
    anchor = held_at(s, theta)
    products: dict[str, list[float]] = {name: [] for name in LABELS}
    cosines: dict[str, dict[str, list[list[float]]]] = {name: {} for name in STEPS}
    for k, point in enumerate(course):
        now = Factors.of(s, point, s.A, s.classes_A)
        diagonal = _diagonal(s, now)
        products["identity"].append(float(diagonal.sum()) / (math.sqrt(len(D)) * now.norm))
        products["diagonal"].append(float(diagonal @ D.double()) / (float(D.double().norm()) * now.norm))
        products["recomputed"].append(Kronecker(s.layout, moments(s, point, s.A.x)).normalised(now))
        for name, matrix in (("remembered", stored), ("task_B", of_B), ("both_factors", both)):
            products[name].append(matrix.normalised(now))
        y = one_hot(s.probes.y, s.classes, point)
        g = mean_gradient(s.layout, point.unsqueeze(0), s.sigma, s.probes.x, y, s.classes)[1][0]
        for name, rows_ in updates.items():
            for candidate, values in candidates(stored, F, D, g, rows_[k], point - anchor).items():
                cosines[name].setdefault(candidate, []).append(values)
    return {
        "products": products,
        "cosines": cosines,
        "bounds": [asdict(forgetting_bound(s, point, theta, A, s.A)) for point in course],
        "objective": _objective(s, anchor, course, stored),
    }


def _diagonal(s: Situation, F: Factors) -> Tensor:
    """(P,): the diagonal of ``F``."""
    flat = torch.zeros(1, s.layout.n_parameters, dtype=torch.float64, device=F.deltas[0].device)
    layers = s.layout.views(flat)
    for d, r, W, b in zip(F.deltas, F.rates, layers.weights, layers.biases, strict=True):
        square = d.square().T @ r.square() / len(d)
        W[0].copy_(square[:, :-1])
        b[0].copy_(square[:, -1])
    return flat[0]


def candidates(H: Kronecker, F: Rows, D: Tensor, g: Tensor, update: Tensor, moved: Tensor) -> dict[str, list[float]]:
    """Cosines of what is subtracted with each candidate, for every damping of its inverse."""
    n, of_F, of_D = H.norm, F.norm, float(D.norm())
    penalised = g + PULL * H.times(moved)
    return {
        "gradient": [cosine(update, g)] * len(DAMPINGS),
        "penalised": [cosine(update, penalised)] * len(DAMPINGS),
        "diagonal": [cosine(update, g / (D + mu * of_D)) for mu in DAMPINGS],
        "remembered": [cosine(update, H.damped_inverse(g, mu * n)) for mu in DAMPINGS],
        "remembered, penalised": [cosine(update, H.damped_inverse(penalised, mu * n)) for mu in DAMPINGS],
        "full": [cosine(update, F.damped_inverse(g, mu * of_F)) for mu in DAMPINGS],
    }


def held_at(s: Situation, theta: Tensor) -> Tensor:
    """(P,): where the pull holds the weights, ``theta_A*`` but for the head's new rows, which it holds at zero."""
    anchor = theta.clone().unsqueeze(0)
    layers = s.layout.views(anchor)
    layers.weights[-1][:, s.classes_B], layers.biases[-1][:, s.classes_B] = 0.0, 0.0
    return anchor[0]


def _objective(s: Situation, anchor: Tensor, course: Tensor, H: Kronecker) -> list[float]:
    """``L_B + p R`` along the way, over a part of task B's training data."""
    B = some(s.B, s.scale.fisher_samples)
    found = []
    for point in course:
        y = one_hot(B.y, s.classes, point)
        loss = mean_gradient(s.layout, point.unsqueeze(0), s.sigma, B.x, y, s.classes)[0]
        moved = (point - anchor).double()
        found.append(float(loss) + 0.5 * PULL * float(moved @ H.times(moved)))
    return found


def best(numbers: Numbers, step: str, candidate: str) -> Array:
    """(looks, R): the cosine at the damping that suits the candidate best."""
    return array([np.max(seed[step][candidate], 1) for seed in numbers["cosines"]]).T


def product(numbers: Numbers, name: str) -> Array:
    """(looks, R)."""
    return array([seed[name] for seed in numbers["products"]]).T


def judge(numbers: Numbers) -> list[Claim]:
    p = {name: product(numbers, name) for name in LABELS}
    end = f"after {numbers['steps'][-1]} steps"
    said = "not in the paper"
    start = {name: values[0] for name, values in p.items()}
    kept = p["remembered"][-1] / p["remembered"][0]
    told = "; ".join(f"{name.replace('_', ' ')} {mean_std(values)}" for name, values in start.items())
    return [
        Claim(
            "The curvature of remembered activity, A (x) I, is closer to the Fisher than the diagonal.",
            said,
            f"normalised product at theta_A*: {told}",
            verdict(
                above(start["remembered"], start["diagonal"]), above(start["remembered"] / start["task_B"], 1.0, OWN)
            ),
        ),
        Claim(
            "It stays as close while task B moves the weights.",
            said,
            f"{end}: remembered {mean_std(p['remembered'][-1])}, {100 * kept.mean():.0f} % of what it was; recomputed "
            f"there {mean_std(p['recomputed'][-1])}; diagonal {mean_std(p['diagonal'][-1])}",
            verdict(above(kept, KEPT), above(p["remembered"][-1], p["diagonal"][-1])),
        ),
        _update_claim(
            numbers, "plain", "With the pull, EFC's update is a natural gradient of remembered activity.", end
        ),
        _update_claim(numbers, "natural", "With the natural step it is.", end),
        *_bound_claims(numbers),
    ]


def _update_claim(numbers: Numbers, step: str, statement: str, end: str) -> Claim:
    values = {name: best(numbers, step, name)[-1] for name in numbers["cosines"][0][step]}
    natural = np.maximum(values["remembered"], values["remembered, penalised"])
    others = every(above(natural, values[name], CLOSER) for name in ("gradient", "penalised", "diagonal"))
    told = ", ".join(f"{name} {mean_std(each, 2)}" for name, each in values.items())
    return Claim(
        statement,
        "-F~_A^{-1} grad L_B, with another curvature",
        f"cosine of the batch's update, each at its best damping, {end}: {told}",
        verdict(above(natural, 0.9), others),
    )


def _bound_claims(numbers: Numbers) -> list[Claim]:
    points = [list(seed[1:]) for seed in numbers["bounds"]]
    kept = [all(p["forgotten"] <= p["bound"] for p in seed) for seed in points]
    last = [seed[-1] for seed in points]
    guess = math.log(2)
    largest = [max(p["shift"] / p["rho"] for p in seed) for seed in points]
    falls = [all(b <= seed[0] for b in seed[1:]) for seed in numbers["objective"]]
    return [
        Claim(
            "What remembered activity holds bounds forgetting: by e rho + rho^2 / 4, rho = sum_i prod_{k>i} |W_k| "
            "sqrt(2 R_i).",
            "not in the paper; proved in remembered.py, e^2 = E |p - y|^2 on task A",
            f"kept in {sum(kept)} of {len(kept)} seeds; at the end forgotten "
            f"{mean_std([p['forgotten'] for p in last], 2)}, bound {mean_std([p['bound'] for p in last], 2)}; "
            f"change of the outputs, of its bound rho: "
            f"{mean_std(100 * array(largest), 2)} % at most",
            verdict(all(kept), above(guess, [p["bound"] for p in last])),
        ),
        Claim(
            "So the bound falls as the pull p grows: R <= (L_B at the start - L_B) / p.",
            "not in the paper; true of every descent of L_B + p R",
            f"L_B + p R never above its start in {sum(falls)} of {len(falls)} seeds; bound from R alone at the end "
            f"{mean_std([p['bound_of_R'] for p in last], 2)}",
            verdict(all(falls), all(p["forgotten"] <= p["bound_of_R"] for p in last)),
        ),
    ]


def draw(numbers: Numbers) -> Figure:
    figure = new_figure((7.0, 4.6))
    (a, b), (c, d) = figure.subplots(2, 2)
    names = [name for name in LABELS if name != "recomputed"]
    bars(a, [product(numbers, name)[0].tolist() for name in names], [LABELS[name] for name in names])
    a.set_title("normalised product with $F_A$ at $\\theta_A^*$", fontsize=8)
    for k, name in enumerate(("diagonal", "remembered", "recomputed", "task_B")):
        band(b, numbers["steps"], product(numbers, name), LABELS[name], COLOURS[k])
    b.set_title("with the Fisher recomputed there", fontsize=8)
    for k, name in enumerate(("gradient", "penalised", "remembered", "full")):
        for step, line in (("plain", "-"), ("natural", ":")):
            label = name if step == "plain" else None
            band(c, numbers["steps"], best(numbers, step, name), label or "_", COLOURS[k], line)
    c.set_title("cosine with the update (dotted: natural step)", fontsize=8)
    for k, (name, label) in enumerate((("forgotten", "forgotten"), ("bound", "bound"), ("bound_of_R", "from R alone"))):
        values = array([[max(point[name], 1e-6) for point in seed[1:]] for seed in numbers["bounds"]]).T
        mean, low, high = zip(*(geometric(row) for row in values), strict=True)
        d.plot(numbers["steps"][1:], mean, "o-", color=COLOURS[k], label=label, markersize=3)
        d.fill_between(numbers["steps"][1:], low, high, color=COLOURS[k], alpha=0.18, linewidth=0)
    d.set_yscale("log")
    d.set_title("loss of task A", fontsize=8)
    for axis in (b, c, d):
        axis.set_xscale("symlog", linthresh=max(1, numbers["steps"][1]))
        axis.set_xlim(left=0)
        axis.set_xlabel("steps on task B", fontsize=8)
        axis.legend(fontsize=6)
    for axis in (a, b, c, d):
        axis.tick_params(labelsize=7)
    return figure


EXPERIMENT = Experiment(
    "remembered-activity", "Is remembered activity the curvature that was missing?", measure, judge, draw
)
