"""The gradient of a task-B sample, split in two: what learns B, and what suppresses A through the shared head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from efc.core.outputs import loss_gradient
from efc.report.style import COLOURS, new_figure
from efc.theory.curvature import Rows, Spectrum, fisher, implicit, spectrum
from efc.theory.finding import Claim, Experiment, Numbers, Tell, above, array, bars, every, mean_std, verdict
from efc.theory.methods import Control, equilibrium, update_rows, visited
from efc.theory.rows import logits, output_rows
from efc.theory.situation import Situation, one_hot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTINGS = {"BP": (1.0, 0.0), "EWC": (1.0, 1e3), "FISH": (1.0, 1e4), "EFC": (2.0, 1.0)}
"""Multiple of back-propagation's rate, and strength: about what the alignment of `forgetting` finds."""
DAMPING = 1e-3
"""Of the inverse of F~, as a share of its norm."""


def split(situation: Situation, theta: Tensor, x: Tensor, y: Tensor, output: str = "softmax") -> tuple[Tensor, Tensor]:
    """``G_B`` and ``G_{A<-B}``, (n, P) each: the gradient through task B's outputs, and through task A's."""
    s = situation
    delta = loss_gradient(output, logits(s.layout, theta, s.sigma, x, s.classes), one_hot(y, s.classes, theta))
    of_A, of_B = delta.clone(), delta.clone()
    of_A[:, s.classes_B], of_B[:, s.classes_A] = 0.0, 0.0
    into = (s.layout, theta, s.sigma, x)
    return output_rows(*into, of_B, s.classes), output_rows(*into, of_A, s.classes)


def share(spectral: Spectrum, rows: Tensor, k: int | None = None) -> float:
    """The share of the rows' squared length that lies in the span of the first ``k`` eigenvectors."""
    return float(spectral.project(rows, k).square().sum() / rows.square().sum())


def measure(situation: Situation, tell: Tell) -> Numbers:
    s = situation
    steps = 100 if s.scale.quick else 300
    ways = {
        name: visited(s, name, steps, [steps], s.scale.lr * rate, strength)[0]
        for name, (rate, strength) in SETTINGS.items()
    }
    found = []
    for run in range(s.runs):
        tell(f"seed {s.seeds[run]}")
        found.append(_of_run(s, run, {name: theta[run] for name, theta in ways.items()}))
    gathered = {key: [one[key] for one in found] for key in found[0]}
    return {"steps": steps, "parameters": s.layout.n_parameters, "samples_A": len(s.A.y)} | gathered


def _of_run(s: Situation, run: int, ways: dict[str, Tensor]) -> Numbers:
    theta, x, y = s.theta_A[run], s.probes.x, s.probes.y
    of_B, of_A = split(s, theta, x, y)
    linear_B, linear_A = split(s, theta, x, y, "linear")
    sensitive = spectrum(fisher(s, run))
    ranks = [k for k in (1, 3, 10, 30, 100, 300) if k < len(sensitive.values)] + [len(sensitive.values)]
    noise = torch.randn(len(x), s.layout.n_parameters, generator=torch.Generator().manual_seed(run)).to(theta)
    moved = {name: (end - theta).unsqueeze(0) for name, end in ways.items()}
    away = ways["EFC"]
    solution = equilibrium(s, run, away, x, one_hot(y, s.classes, away), Control(beta=SETTINGS["EFC"][1]))
    kept = sensitive.vectors[: _half(sensitive)]
    implied = implicit(s, run, x)
    update = update_rows(s, solution)
    return {
        "interference_length": float(of_A.norm() / (of_A + of_B).norm()),
        "interference_length_squared_error": float(linear_A.norm() / (linear_A + linear_B).norm()),
        "ranks": ranks,
        "share_interference": [share(sensitive, of_A, k) for k in ranks],
        "share_learning": [share(sensitive, of_B, k) for k in ranks],
        "share_noise": [share(sensitive, noise, k) for k in ranks],
        "share_moved": {name: share(sensitive, delta) for name, delta in moved.items()},
        "share_update": share(sensitive, update.mean(0, keepdim=True)),
        **attenuation(implied, kept, noise),
        "left_over": {
            "theorem": left_over(implied, kept, of_B, of_A),
            "EFC": left_over(implicit(s, run, x, away), kept, *split(s, away, x, y), update),
        },
    }


def _half(sensitive: Spectrum) -> int:
    """How many eigenvectors carry nine tenths of the Fisher's trace."""
    return int((sensitive.values.cumsum(0) < 0.9 * sensitive.values.sum()).sum()) + 1


def attenuation(m: Rows, V: Tensor, outside: Tensor, damping: float = DAMPING) -> Numbers:
    """How much ``(M + mu I)^{-1}`` shortens vectors of span(V), V (k, P) orthonormal, and others, against the bound.

    Factors are relative to ``1 / mu``, what a direction unknown to M gets: 1 is untouched, 0 is suppressed. The lemma
    has ``|M^{-1} v| <= |v| / lambda_min`` with the smallest eigenvalue of M restricted to span(V).
    """
    mu = damping * m.norm
    smallest = smallest_restricted(m, V) + mu
    others = outside - (outside @ V.T) @ V
    others = others / others.norm(dim=1, keepdim=True)
    inside = m.damped_inverse(V.T, mu).norm(dim=0)
    return {
        "attenuation_inside": float(mu * inside.mean()),
        "attenuation_outside": float(mu * m.damped_inverse(others.T, mu).norm(dim=0).mean()),
        "largest_over_bound": float(inside.max()) * smallest if smallest > 0 else None,
        "smallest_restricted_eigenvalue": (smallest - mu) / m.norm,
    }


def smallest_restricted(m: Rows, V: Tensor) -> float:
    """The smallest eigenvalue of M (of its symmetric part) restricted to span(V)."""
    restricted = (V @ m.left.T) @ (m.right @ V.T) / m.n
    return float(torch.linalg.eigvalsh((restricted + restricted.T).double() / 2)[0])


def left_over(
    m: Rows, V: Tensor, of_B: Tensor, of_A: Tensor, update: Tensor | None = None, damping: float = DAMPING
) -> Numbers:
    """``epsilon = Delta + eta (M + mu I)^{-1} G_B^perp`` against the lemma's bound, over samples (n, P).

    ``Delta`` is ``-(M + mu I)^{-1} (G_B + G_{A<-B})`` at eta = 1, or an ``update`` that was measured, with the eta
    that leaves least of it. The bound is ``eta |G_B^parallel + G_{A<-B}| / lambda_min``: none if that is not positive.
    """
    mu = damping * m.norm
    inside = (of_B @ V.T) @ V
    learning = m.damped_inverse((of_B - inside).T, mu).T
    step = -m.damped_inverse((of_B + of_A).T, mu).T if update is None else update
    eta = 1.0 if update is None else max(0.0, -float((step * learning).sum() / learning.square().sum()))
    epsilon = (step + eta * learning).norm(dim=1)
    smallest = smallest_restricted(m, V) + mu
    bound = eta * (inside + of_A).norm(dim=1) / smallest
    kept = (epsilon <= 1.001 * bound).double().mean() if smallest > 0 and eta > 0 else None
    return {
        "share": float(epsilon.norm() / step.norm()),
        "within_bound": None if kept is None else float(kept),
    }


def judge(numbers: Numbers) -> list[Claim]:
    lies = array([values[-1] for values in numbers["share_interference"]])
    learning = array([values[-1] for values in numbers["share_learning"]])
    length = array(numbers["interference_length"])
    inside, outside = array(numbers["attenuation_inside"]), array(numbers["attenuation_outside"])
    bound = [value for value in numbers["largest_over_bound"] if value is not None]
    moved = {name: array([one[name] for one in numbers["share_moved"]]) for name in SETTINGS}
    negative = sum(value <= 0 for value in numbers["smallest_restricted_eigenvalue"])
    told = f"largest |F~^-1 v| / bound: {mean_std(bound, 2)}" if bound else "no bound: the eigenvalue is not positive"
    return [
        Claim(
            "The gradient of a task-B sample contains a part that suppresses task A.",
            "grad L_B = G_B + G_{A<-B}",
            f"|G_{{A<-B}}| / |grad L_B| = {mean_std(length)} at theta_A* "
            f"(squared error: {mean_std(numbers['interference_length_squared_error'])})",
            verdict(above(length, 0.05)),
        ),
        Claim(
            "The interference term lies in the span of task A's gradients.",
            "by construction, all of it",
            f"share of its squared length: {mean_std(lies)} ({numbers['samples_A']} gradients, "
            f"{numbers['parameters']} parameters); of G_B {mean_std(learning)}",
            verdict(above(lies, 0.99), above(lies, learning)),
        ),
        Claim(
            "F~_A^{-1} attenuates directions task A is sensitive to, and lets others pass.",
            "small on V_A, large outside",
            f"length left inside {mean_std(inside)}, outside {mean_std(outside)}",
            verdict(above(outside, inside, 0.1), above(0.5, inside)),
        ),
        Claim(
            "On V_A, |F~_A^{-1} v| <= |v| / lambda_min.",
            "lemma",
            f"{told}; smallest eigenvalue of F~ on V_A not positive in {negative} of {len(inside)} seeds",
            verdict(len(bound) == len(inside) and max(bound) <= 1.001),
        ),
        Claim(
            "EFC moves less in task A's subspace than the others.",
            "both G_{A<-B} and the parallel part of G_B are suppressed",
            f"share of the way of {numbers['steps']} steps: "
            + ", ".join(f"{name} {mean_std(values, 2)}" for name, values in moved.items()),
            verdict(*(above(moved[name], moved["EFC"]) for name in SETTINGS if name != "EFC")),
        ),
        _left_over_claim(numbers["left_over"]),
    ]


def _left_over_claim(found: Sequence[Numbers]) -> Claim:
    names = {"theorem": "the theorem's update", "EFC": "EFC's"}
    share = {name: array([one[name]["share"] for one in found]) for name in names}
    kept = {name: [one[name]["within_bound"] for one in found] for name in names}
    bounded = {name: sum(value is not None and value > 0.999 for value in values) for name, values in kept.items()}
    return Claim(
        "But for an epsilon, the update is -eta F~^-1 G_B^perp; |epsilon| <= eta |G_B^par + G_{A<-B}| / lambda_min.",
        "lemma: EFC's update decomposed",
        ", ".join(f"{told}: epsilon is {mean_std(share[name], 2)} of it" for name, told in names.items())
        + "; within the bound for all samples in "
        + " and ".join(f"{bounded[name]}" for name in names)
        + f" of {len(found)} seeds (elsewhere most often there is none: lambda_min <= 0)",
        verdict(
            *(bounded[name] == len(found) for name in names), every(above(0.5, values) for values in share.values())
        ),
    )


def draw(numbers: Numbers) -> Figure:
    figure = new_figure((7.0, 2.6))
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.5, 1.1, 0.8))
    ranks = min(numbers["ranks"], key=len)
    rows = {"interference": "$G_{A\\leftarrow B}$", "learning": "$G_B$", "noise": "random"}
    for k, (name, label) in enumerate(rows.items()):
        values = array([one[: len(ranks)] for one in numbers[f"share_{name}"]])
        left.plot(ranks, values.mean(0), "o-", color=COLOURS[k], label=label, markersize=3)
    left.set_xscale("log")
    left.set_xlabel("leading eigenvectors of $F_A$", fontsize=8)
    left.set_title("share of the squared length inside", fontsize=8)
    left.legend(fontsize=7)
    bars(middle, [[one[name] for one in numbers["share_moved"]] for name in SETTINGS], list(SETTINGS))
    middle.set_title(f"way of {numbers['steps']} steps inside", fontsize=8)
    bars(right, [numbers["attenuation_inside"], numbers["attenuation_outside"]], ["inside", "outside"])
    right.set_title("length left by $\\tilde{F}_A^{-1}$", fontsize=8)
    for axis in (left, middle, right):
        axis.set_ylim(bottom=0)
        axis.tick_params(labelsize=7)
    return figure


EXPERIMENT = Experiment(
    "interference", "Does EFC filter what suppresses task A out of the gradient?", measure, judge, draw
)
