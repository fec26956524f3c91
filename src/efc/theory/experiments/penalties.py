"""What a penalty can and cannot do to the interference of task B with task A, and where it lets the weights rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from efc.core.network import forward, mean_loss_gradient
from efc.core.outputs import loss_gradient
from efc.report.style import COLOURS, new_figure
from efc.streams.split import Part
from efc.theory.curvature import cosine
from efc.theory.experiments.interference import split
from efc.theory.finding import (
    Answer,
    Claim,
    Experiment,
    Numbers,
    Tell,
    above,
    array,
    bars,
    every,
    geometric,
    mean_std,
    verdict,
)
from efc.theory.penalised import Penalised, coupled, rest
from efc.theory.rows import mean_gradient
from efc.theory.situation import Situation, batches, one_hot, some

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STIFFNESS = (0.1, 1.0, 10.0, 100.0)
"""Of the penalty against task B's loss, along its gradient."""
EXACT = 0.1
"""The relative error up to which a formula gives the displacement."""
SETTLED = 1e-4
"""What is left of the gradient at rest, of its length at the start."""
MATTERS = 0.05
"""The share from which on something is worth speaking of."""
REMOVED = ("nothing", "the mean", "each sample's own")
ETA = 0.05
"""Step of the descent with minibatches."""


def measure(situation: Situation, tell: Tell) -> Numbers:
    s = situation
    tell("task B is learned without its interference")
    learned = {kind: suppression(s, kind) for kind in REMOVED}
    found = []
    for run in range(s.runs):
        tell(f"seed {s.seeds[run]}: where penalties come to rest")
        found.append(_of_run(s, run))
    return {"stiffness": list(STIFFNESS), "suppression": learned} | {
        key: [one[key] for one in found] for key in found[0]
    }


def varying(rows: Tensor) -> float:
    """What is left of ``mean |G|^2`` when the best constant, the mean, has been taken from every row."""
    return 1.0 - float(rows.double().mean(0).square().sum() / rows.double().square().sum(1).mean())


def suppression(s: Situation, removed: str) -> Numbers:
    """Stochastic descent of task B's loss from ``theta_A*`` with the interference as it is, without its mean over
    task B's data (as much as a penalty could cancel, whatever it is), or without each sample's own.

    The increase of task A's loss among all classes, and task B's loss at the end, per seed.
    """
    B = some(s.B, s.scale.fisher_samples)
    steps, size = 150 if s.scale.quick else 300, min(32, len(B.y) // 4)
    theta, start = s.theta_A.clone(), _loss(s, s.theta_A, s.A)
    for index in batches(len(B.y), size, steps, s.seeds, s.device):
        x, y = B.x[index], B.y[index]
        step = outer_gradient(s, theta, x, y, keep_interference=removed != REMOVED[2])
        if removed == REMOVED[1]:
            parts = [outer_gradient(s, theta, B.x.unsqueeze(0), B.y.unsqueeze(0), keep) for keep in (True, False)]
            step = step - (parts[0] - parts[1])
        theta = theta - ETA * step
    return {"loss_A": (_loss(s, theta, s.A) - start).tolist(), "loss_B": _loss(s, theta, B).tolist()}


def _loss(s: Situation, theta: Tensor, part: Part) -> Tensor:
    return mean_gradient(s.layout, theta, s.sigma, part.x, one_hot(part.y, s.classes, theta), s.classes)[0]


def outer_gradient(s: Situation, theta: Tensor, x: Tensor, y: Tensor, keep_interference: bool = True) -> Tensor:
    """(R, P): the mean gradient over batches x (R or 1, B, d_0), y (R or 1, B); without what goes through task A's
    outputs unless ``keep_interference``."""
    layers = s.layout.views(theta).active(s.classes)
    trace = forward(layers, s.sigma, x.expand(len(theta), -1, -1))
    delta = loss_gradient("softmax", trace.z, one_hot(y, s.classes, theta).expand_as(trace.z))
    if not keep_interference:
        delta[..., s.classes_A] = 0.0
    gradient = torch.zeros_like(theta)
    mean_loss_gradient(layers, s.sigma, trace, delta, s.layout.views(gradient).active(s.classes))
    return gradient


def _of_run(s: Situation, run: int) -> Numbers:
    theta = s.theta_A[run].double()
    part = Part(s.probes.x.double(), s.probes.y)
    every_weight, as_it_is = (s.pull(run, 1.0, theta, 1.0, floor)[0] for floor in (1.0, 0.0))
    problem = Penalised(s, part, theta, every_weight)
    g = problem.gradient(theta)
    unit = g / g.norm()
    bend = float(unit @ problem.bend(unit)) / float(unit.square() @ every_weight)
    found = []
    for stiffness in STIFFNESS:
        held = problem.times(stiffness * abs(bend))
        end, left = rest(held)
        found.append(at_rest(held, end) | formulas(held, end) | {"settled": left < SETTLED})
    printed = [Penalised(s, part, theta, stiffness * abs(bend) * as_it_is) for stiffness in STIFFNESS]
    return {
        "varying": varying(split(s, theta, part.x, part.y)[1]),
        "rest": found,
        "minimum_as_printed": [coupled(one) is not None for one in printed],
        "idle": float((as_it_is == 0).double().mean()),
    }


def at_rest(problem: Penalised, theta: Tensor) -> Numbers:
    """``E[G_B] + E[G_{A<-B}] + grad R`` against the sum of the lengths, and what varies from sample to sample."""
    s, part = problem.situation, problem.part
    of_B, of_A = split(s, theta, part.x, part.y)
    pull = problem.pull(theta)
    means = of_B.mean(0), of_A.mean(0), pull
    return {
        "residual": float(sum(means).norm()) / sum(float(t.norm()) for t in means),  # type: ignore[union-attr]
        "varying": varying(of_A),
        "against_interference": cosine(pull, -of_A.mean(0)),
    }


def formulas(problem: Penalised, theta: Tensor) -> Numbers:
    """Relative errors of ``-(H_B + beta D)^{-1} g`` and of ``-(beta D)^{-1} g`` against where the weights have come."""
    moved = theta - problem.anchor
    exact, plain = coupled(problem), -problem.gradient(problem.anchor) / problem.strength
    return {
        "coupled": None if exact is None else float((exact - moved).norm() / moved.norm()),
        "uncoupled": float((plain - moved).norm() / moved.norm()),
    }


def judge(numbers: Numbers) -> list[Claim]:
    return [
        _cancelling_claim(numbers),
        _suppression_claim(numbers["suppression"]),
        _stationary_claim(numbers),
        _coupled_claim(numbers),
    ]


def _cancelling_claim(numbers: Numbers) -> Claim:
    left = array(numbers["varying"])
    return Claim(
        "No fixed penalty cancels the interference of every sample.",
        "lemma: G_{A<-B}(x_1) differs from G_{A<-B}(x_2)",
        f"the best constant leaves {mean_std(100 * left)} % of E |G_{{A<-B}}|^2 at theta_A*",
        verdict(above(left, 0.0, MATTERS)),
    )


def _suppression_claim(found: dict[str, Any]) -> Claim:
    lost = {kind: array(found[kind]["loss_A"]) for kind in REMOVED}
    share = (lost[REMOVED[1]] - lost[REMOVED[2]]) / lost[REMOVED[0]]
    told = ", ".join(f"{kind} {mean_std(values, 2)}" for kind, values in lost.items())
    return Claim(
        "What a penalty cannot cancel, the variation from sample to sample, suppresses task A.",
        "per-sample interference continues to vary, suppressing task A's outputs",
        f"increase of task A's loss among all classes, taken from the interference: {told}; the variation "
        f"does {mean_std(100 * share, 2)} % of the harm",
        verdict(above(share, 0.0, MATTERS)),
    )


def _stationary_claim(numbers: Numbers) -> Claim:
    at = [point for seed in numbers["rest"] for point in seed]
    residual = array([point["residual"] for point in at if point["settled"]])
    left = array([[point["varying"] for point in seed] for seed in numbers["rest"]])
    against = array([[point["against_interference"] for point in seed] for seed in numbers["rest"]])
    smallest = float(residual.max()) if len(residual) else math.inf
    return Claim(
        "At rest E[G_B + G_{A<-B}] + grad R = 0: only the mean interference is countered.",
        "stationarity corollary",
        f"left of the three, of their lengths: {smallest:.1g} at most where descent came to rest ({len(residual)} of "
        f"{len(at)} times; else it is held up where ReLUs switch); varying from sample to sample there: "
        f"{mean_std(100 * left[:, -1])} % of E |G_{{A<-B}}|^2; cosine of grad R and -E[G_{{A<-B}}] "
        f"{mean_std(against[:, -1], 2)}",
        verdict(smallest < 1e-3, above(left[:, -1], 0.0, MATTERS), above(against[:, -1], 0.9)),
    )


def _coupled_claim(numbers: Numbers) -> Claim:
    error = {kind: [[point[kind] for point in seed] for seed in numbers["rest"]] for kind in ("coupled", "uncoupled")}
    there = [all(seed) for seed in numbers["minimum_as_printed"]]
    ends = [k for k, stiffness in enumerate(numbers["stiffness"]) if stiffness in (1.0, 100.0)]

    def exact(kind: str, k: int) -> Answer:
        values = [seed[k] for seed in error[kind]]
        return False if None in values else above(EXACT, values)

    def told(kind: str) -> str:
        known = [[seed[k] for seed in error[kind] if seed[k] is not None] for k in ends]
        return " and ".join(mean_std(values, 2) if values else "no minimum" for values in known)

    return Claim(
        "A penalty moves the weights by -(H_B + beta D_A)^-1 grad L_B, in stiff ones by -(beta D_A)^-1 grad L_B.",
        "EWC's update, coupled to task B's Hessian",
        f"relative error, every weight important, penalty as stiff as task B's loss and a hundred times: coupled "
        f"{told('coupled')}, uncoupled {told('uncoupled')}. With D_A as it is ({_percent(numbers['idle'])} zeros) the "
        f"quadratic model has a minimum in {sum(there)} of {len(there)} seeds",
        verdict(every(exact("coupled", k) for k in ends), exact("uncoupled", ends[-1]), all(there)),
    )


def _percent(values: Sequence[float]) -> str:
    return f"{100 * array(values).mean():.0f} %"


def draw(numbers: Numbers) -> Figure:
    figure = new_figure((7.0, 2.6))
    left, middle, right = figure.subplots(1, 3, width_ratios=(0.8, 1, 1.3))
    places = [[point["varying"] for point in [{"varying": at_A}, seed[-1]]] for at_A, seed in _pairs(numbers)]
    bars(left, list(zip(*places, strict=True)), [r"$\theta_A^*$", "at rest"])
    left.set_ylim(0, 1)
    left.set_title("share of $E|G_{A\\leftarrow B}|^2$ that varies", fontsize=8)
    bars(middle, [numbers["suppression"][kind]["loss_A"] for kind in REMOVED], ["nothing", "mean", "each"])
    middle.set_title("harm to task A; removed:", fontsize=8)
    for k, (kind, line) in enumerate((("coupled", "o-"), ("uncoupled", "s--"))):
        spans = []
        for j, stiffness in enumerate(numbers["stiffness"]):
            values = [seed[j][kind] for seed in numbers["rest"] if seed[j][kind] is not None]
            if values:
                spans.append((stiffness, *geometric(values)))
        x, mean, low, high = zip(*spans, strict=True) if spans else ((), (), (), ())
        right.loglog(x, mean, line, color=COLOURS[k], label=kind, markersize=3)
        right.fill_between(x, low, high, color=COLOURS[k], alpha=0.18, linewidth=0)
    right.axhline(EXACT, color="0.5", linewidth=0.6)
    right.set_xlabel("stiffness of the penalty", fontsize=8)
    right.set_title("displacement: relative error", fontsize=8)
    right.legend(fontsize=7)
    for axis in (left, middle, right):
        axis.tick_params(labelsize=7)
    return figure


def _pairs(numbers: Numbers) -> list[tuple[float, Any]]:
    return list(zip(numbers["varying"], numbers["rest"], strict=True))


EXPERIMENT = Experiment("penalties", "What can a penalty not do, and where does it come to rest?", measure, judge, draw)
