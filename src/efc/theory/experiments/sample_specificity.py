"""Does it help that every sample is preserved against in its own way?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from efc.report.style import COLOURS, new_figure
from efc.theory.effort import rank_correlation
from efc.theory.finding import Claim, Experiment, Numbers, Tell, above, array, bars, mean_std, verdict
from efc.theory.methods import Control, equilibrium, update_rows, visited
from efc.theory.rows import effective_preservation, mean_gradient
from efc.theory.situation import Situation, one_hot
from efc.training.batches import batches as epoch_batches

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BETAS = (1.0, 10.0, 100.0)
BATCH = 20
RELATED, CHEAPER = 0.1, 0.05
"""The smallest rank correlation, and the smallest relative difference of prices, that are worth speaking of."""


def measure(situation: Situation, tell: Tell) -> Numbers:
    """Batches of task B at a point of EFC's way: their spread of gamma_eff, and the forgetting of their update.

    And the same update with every sample given the batch's mean signal, at the same progress on task B.
    """
    s = situation
    steps = 150 if s.scale.quick else 500
    batches = 20 if s.scale.quick else 40
    found: dict[str, list[Numbers]] = {}
    for beta in BETAS:
        tell(f"beta {beta:g}")
        course = visited(s, "EFC", steps, [steps], 2 * s.scale.lr, beta)[0]
        found[f"{beta:g}"] = [_of_run(s, run, course[run], beta, batches) for run in range(s.runs)]
    return {"steps": steps, "batch": BATCH, "betas": found}


def _of_run(s: Situation, run: int, theta: Tensor, beta: float, batches: int) -> Numbers:
    y_A = one_hot(s.A.y, s.classes_A, theta)
    g_A = mean_gradient(s.layout, theta.unsqueeze(0), s.sigma, s.A.x, y_A, s.classes_A)[1][0]
    spread: list[float] = []
    own: list[float] = []
    averaged: list[float] = []
    for index in epoch_batches(len(s.B.y), BATCH, [torch.Generator().manual_seed(run)], s.device)[:batches]:
        x, y = s.B.x[index[0]], one_hot(s.B.y[index[0]], s.classes, theta)
        spread.append(float((beta * effects(s, run, theta, x)).var(0).sum()))
        g_B = mean_gradient(s.layout, theta.unsqueeze(0), s.sigma, x, y, s.classes)[1][0]
        for kept, mean in ((own, False), (averaged, True)):
            solution = equilibrium(s, run, theta, x, y, Control(beta=beta), averaged=mean)
            kept.append(price(update_rows(s, solution).mean(0), g_A, g_B))
    together = rank_correlation(torch.tensor(spread), torch.tensor(own))
    return {"spread": spread, "own": own, "averaged": averaged, "rank_correlation": together}


def effects(s: Situation, run: int, theta: Tensor, x: Tensor) -> Tensor:
    """``gamma_eff`` (n, C) of samples x (n, d_0), at beta = 1."""
    D, anchor = s.diagonal()[run], s.theta_A[run]

    def one(sample: Tensor) -> Tensor:
        return effective_preservation(s.layout, theta, s.sigma, sample, D, anchor, s.classes)

    return vmap(one)(x)


def price(update: Tensor, g_A: Tensor, g_B: Tensor) -> float:
    """What a small step along ``update`` does to task A's loss, for each unit by which it lowers task B's."""
    gained = -float(g_B.double() @ update.double())
    lost = float(g_A.double() @ update.double())
    return lost / gained


def judge(numbers: Numbers) -> list[Claim]:
    correlations = {b: array([one["rank_correlation"] for one in runs]) for b, runs in numbers["betas"].items()}
    own = {b: array([np.median(one["own"]) for one in runs]) for b, runs in numbers["betas"].items()}
    averaged = {b: array([np.median(one["averaged"]) for one in runs]) for b, runs in numbers["betas"].items()}
    size = {b: (np.abs(own[b]).mean() + np.abs(averaged[b]).mean()) / 2 for b in own}
    cheaper = {b: (averaged[b] - own[b]) / size[b] for b in own}
    return [
        Claim(
            "The more gamma_eff varies over the samples, the less is forgotten.",
            "bound minus c Var(gamma_eff), c > 0",
            "rank correlation of batches' spread and forgetting: "
            + ", ".join(f"{mean_std(v, 2)} (beta {b})" for b, v in correlations.items()),
            verdict(*(above(-v, least=RELATED) for v in correlations.values())),
        ),
        Claim(
            "Preserving sample by sample forgets less than preserving on average.",
            "an additional advantage over static regularisers",
            "task A's loss per unit of task B's, own signal / the batch's mean: "
            + ", ".join(f"{own[b].mean():.2g} / {averaged[b].mean():.2g} (beta {b})" for b in own)
            + "; difference, of their size: "
            + ", ".join(mean_std(cheaper[b], 2) for b in own),
            verdict(*(above(cheaper[b], least=CHEAPER) for b in own)),
        ),
    ]


def draw(numbers: Numbers) -> Figure:
    figure = new_figure((7.0, 2.6))
    left, right = figure.subplots(1, 2, width_ratios=(1.4, 1))
    for k, (beta, runs) in enumerate(numbers["betas"].items()):
        spread = np.concatenate([array(one["spread"]) / np.median(one["spread"]) for one in runs])
        own = np.concatenate([array(one["own"]) for one in runs])
        left.plot(spread, own, ".", color=COLOURS[k], markersize=3, label=f"$\\beta$ = {beta}")
    left.set_xscale("log")
    left.set_xlabel("variance of $\\gamma_{eff}$ in a batch, of its median", fontsize=8)
    left.set_title("loss of task A per unit of task B", fontsize=8)
    left.legend(fontsize=7)
    values, names = [], []
    for beta, runs in numbers["betas"].items():
        values += [[float(np.median(one[kind])) for one in runs] for kind in ("own", "averaged")]
        names += [f"own\n$\\beta$ {beta}", "mean"]
    bars(right, values, names)
    right.set_title("own signal against the batch's mean", fontsize=8)
    for axis in (left, right):
        axis.tick_params(labelsize=6, which="both")
    return figure


EXPERIMENT = Experiment("sample-specificity", "Does preserving sample by sample forget less?", measure, judge, draw)
