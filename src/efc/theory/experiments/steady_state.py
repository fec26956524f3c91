"""How far is the steady-state theorem's closed form from the equilibrium, and how fast does that shrink?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from efc.report.style import COLOURS, new_figure
from efc.theory.closed_form import READINGS, Comparison, compare, sweep_system
from efc.theory.finding import Claim, Experiment, Numbers, Tell, above, mean_std, verdict, within
from efc.theory.methods import visited
from efc.theory.situation import BETA, KAPPA, LAMBDA, Situation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STRONG = 10.0
"""A gain at which the loop is far from weak."""
FACTORS = [10.0**-k for k in np.arange(-2, 2.25, 0.25).tolist()]
"""What lambda and beta are multiplied by: two decades up to the strong target (lambda = 1), two decades down."""
GAINS = [10.0**k for k in np.arange(3, -3.5, -0.5).tolist()]
TOGETHER = ("together", "together_strong")
"""The sweeps in which lambda and beta shrink together."""
SMALL = 0.1
"""Factors up to which an order is read off."""
LABELS = {
    "softmax": "$S$: softmax output",
    "elementwise": "diag$(p)$: not normalised",
    "printed": "as printed, no factor",
    "package": "$S$, $\\gamma$ responding",
}


def measure(situation: Situation, tell: Tell) -> Numbers:
    """Errors on probes of task B, some way into it, so that the weights have something to be held back from."""
    s = situation
    steps = 100 if s.scale.quick else 300
    tell(f"task B is learned for {steps} steps")
    theta = visited(s, "EFC", steps, [steps], s.scale.lr, BETA)[0]
    found: dict[str, list[Comparison]] = {}
    for run in range(s.runs):
        tell(f"seed {s.seeds[run]}")
        for name, settings in _settings(s.theta_A).items():
            found.setdefault(name, []).append(compare(sweep_system(s, run, theta[run], *settings)))
    together = [c for name in TOGETHER for c in found[name]]
    return {
        "steps": steps,
        "samples": len(s.probes.y),
        "factors": FACTORS,
        "gains": GAINS,
        "sweeps": {name: summary(comparisons) for name, comparisons in found.items()},
        "flips": flips(together, FACTORS),
        "flips_by_seed": [flips(list(pair), FACTORS) for pair in zip(*(found[n] for n in TOGETHER), strict=True)],
        "shipped": _shipped(found["together"]),
        "any_gain": _any_gain(found["kappa"]),
    }


def _settings(like: Tensor) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """lambda, beta and kappa of every sweep, the others as EFC ships."""
    f = torch.tensor(FACTORS, dtype=torch.float64, device=like.device)
    gains = torch.tensor(GAINS, dtype=torch.float64, device=like.device)
    one = torch.ones_like(f)
    return {
        "together": (LAMBDA * f, BETA * f, KAPPA * one),
        "together_strong": (LAMBDA * f, BETA * f, STRONG * one),
        "lambda": (LAMBDA * f, BETA * one, KAPPA * one),
        "beta": (LAMBDA * one, BETA * f, KAPPA * one),
        "kappa": (LAMBDA * torch.ones_like(gains), BETA * torch.ones_like(gains), gains),
    }


def summary(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Per setting, over all seeds' samples: medians of the errors, where no ReLU flipped and where one did; orders."""
    smooth = [c.settled & ~c.flipped for c in comparisons]
    kinked = [c.settled & c.flipped for c in comparisons]
    return {
        "error": {r: medians([c.error[r] for c in comparisons], smooth) for r in READINGS},
        "relative": {r: medians([c.relative[r] for c in comparisons], smooth) for r in READINGS},
        "rates": medians([c.rates for c in comparisons], smooth),
        "error_flipped": medians([c.error["softmax"] for c in comparisons], kinked),
        "flipped": _share(kinked),
        "unsettled": _share([~c.settled for c in comparisons]),
        "order": {r: [order(c, c.error[r], FACTORS) for c in comparisons] for r in READINGS}
        if len(comparisons[0].settled) == len(FACTORS)
        else {},
    }


def medians(values: Sequence[Tensor], where: Sequence[Tensor]) -> list[float | None]:
    """Per setting, the median over the chosen samples of all seeds; None where there is none."""
    pooled, chosen = torch.cat(list(values), 1), torch.cat(list(where), 1)
    return [float(v[c].median()) if bool(c.any()) else None for v, c in zip(pooled, chosen, strict=True)]


def _share(where: Sequence[Tensor]) -> list[float]:
    shares: list[float] = torch.cat(list(where), 1).double().mean(1).tolist()
    return shares


def order(comparison: Comparison, error: Tensor, factors: Sequence[float]) -> float | None:
    """Slope of log error over log factor up to SMALL: the median over samples that settle and never flip there."""
    small = torch.tensor([f <= SMALL * 1.001 for f in factors], device=error.device)
    usable = (comparison.settled & ~comparison.flipped & (error > 0))[small].all(0)
    if not bool(usable.any()):
        return None
    x = torch.tensor(factors, dtype=error.dtype, device=error.device).log()[small]
    x = x - x.mean()
    y = error[small][:, usable].log()
    return float(((x.unsqueeze(1) * y).sum(0) / x.square().sum()).median())


def flips(comparisons: Sequence[Comparison], factors: Sequence[float]) -> dict[str, Any]:
    """Samples with a flipped ReLU at neighbouring factors: the local order of their error, and its size against the
    median of the samples without a flip at the same factor."""
    x = np.log(factors)
    slopes: list[float] = []
    ratios: list[float] = []
    for c in comparisons:
        error, kinked, smooth = c.error["softmax"], c.settled & c.flipped, c.settled & ~c.flipped
        both = kinked[1:] & kinked[:-1]
        for k, b in both.nonzero().tolist():
            slopes.append(float((error[k + 1, b] / error[k, b]).log()) / (x[k + 1] - x[k]))
        for k, b in kinked.nonzero().tolist():
            if bool(smooth[k].any()):
                ratios.append(float(error[k, b] / error[k][smooth[k]].median()))
    return {
        "order": float(np.median(slopes)) if slopes else None,
        "pairs": len(slopes),
        "ratio": float(np.median(ratios)) if ratios else None,
        "seen": len(ratios),
    }


def _shipped(comparisons: Sequence[Comparison]) -> dict[str, list[float | None]]:
    """Relative errors as EFC ships (factor one), a median per seed, flips included."""
    k = FACTORS.index(1.0)
    found = {name: [_median(c.relative[name][k], c.settled[k]) for c in comparisons] for name in READINGS}
    return found | {"rates": [_median(c.rates[k], c.settled[k]) for c in comparisons]}


def _any_gain(comparisons: Sequence[Comparison]) -> dict[str, list[float]]:
    """Per seed, at the gain where it is most: the closed form's error (a median), the share that does not settle."""
    errors = [medians([c.relative["softmax"]], [c.settled & ~c.flipped]) for c in comparisons]
    return {
        "error": [max(_known(each)) for each in errors],
        "unsettled": [max(_share([~c.settled])) for c in comparisons],
    }


def _median(values: Tensor, chosen: Tensor) -> float | None:
    return float(values[chosen].median()) if bool(chosen.any()) else None


def judge(numbers: Numbers) -> list[Claim]:
    weak, strong = numbers["sweeps"]["together"], numbers["sweeps"]["together_strong"]
    orders = {r: _known([*weak["order"][r], *strong["order"][r]]) for r in READINGS}
    worst = {r: max(_known(numbers["sweeps"]["kappa"]["relative"][r])) for r in READINGS}
    shipped = {name: _known(values) for name, values in numbers["shipped"].items()}
    top = max(_known(weak["relative"]["softmax"]))
    return [
        Claim(
            "The closed form is a first-order approximation of the equilibrium: its error is of second order as lambda "
            "and beta shrink together.",
            "first-order linear approximation around the free state",
            f"order {mean_std(orders['softmax'])} for the softmax output (with S), {mean_std(orders['package'])} as "
            f"the package has it; kappa {KAPPA:g} and {STRONG:g}, no ReLU flipping",
            verdict(*(within(orders[r], 1.85, 2.15) for r in ("softmax", "package"))),
        ),
        Claim(
            "So it is as printed, without the derivative of the softmax.",
            "J_eff and gamma_eff without S",
            f"order {mean_std(orders['printed'])} as printed, {mean_std(orders['elementwise'])} with diag(p); as EFC "
            f"ships u is off by {_percent(shipped['printed'])} and {_percent(shipped['elementwise'])}",
            verdict(above(orders["printed"], 1.5), above(orders["elementwise"], 1.5)),
        ),
        _flip_claim(numbers["flips"], numbers["flips_by_seed"]),
        Claim(
            "As EFC ships (lambda 0.01, beta 10, kappa 0.1) the closed form is the equilibrium for all practical "
            "purposes.",
            "weak feedback",
            f"u off by {_percent(shipped['softmax'])} (package: {_percent(shipped['package'])}), "
            f"hidden rates by {_percent(shipped['rates'])} of what control changes (medians); "
            f"at lambda = 1, beta = 1000: u by {100 * top:.2g} %",
            verdict(above(0.01, shipped["softmax"]), above(0.01, shipped["rates"])),
        ),
        Claim(
            "It holds at any gain.",
            "alpha > 0, no condition on its size",
            f"kappa {min(numbers['gains']):g} to {max(numbers['gains']):g} at shipped lambda, beta: u off by at most "
            f"{100 * worst['softmax']:.2g} % (median; package: {100 * worst['package']:.2g} %), as printed "
            f"{100 * worst['printed']:.2g} %; "
            f"{100 * max(numbers['sweeps']['kappa']['unsettled']):.2g} % of samples have no equilibrium that was found",
            verdict(above(0.05, numbers["any_gain"]["error"]), above(0.01, numbers["any_gain"]["unsettled"])),
        ),
    ]


def _flip_claim(found: dict[str, Any], seeds: Sequence[dict[str, Any]]) -> Claim:
    statement = "The order survives a ReLU that switches between the free state and the equilibrium."
    if found["ratio"] is None or found["order"] is None:
        return Claim(statement, "activation assumed differentiable", "no such sample was seen", verdict(None))
    measured = (
        f"median order {found['order']:.2f} over {found['pairs']} pairs of settings, error {found['ratio']:.1f} times "
        f"that of samples without a flip ({found['seen']} seen)"
    )
    orders, ratios = ([seed[name] for seed in seeds if seed[name] is not None] for name in ("order", "ratio"))
    return Claim(
        statement, "activation assumed differentiable", measured, verdict(above(orders, 1.85), above(1.5, ratios))
    )


def _known(values: Sequence[float | None]) -> list[float]:
    return [v for v in values if v is not None] or [math.nan]


def _percent(values: Sequence[float]) -> str:
    return f"{100 * float(np.mean(values)):.2g} %"


def draw(numbers: Numbers) -> Figure:
    figure = new_figure((7.0, 4.6))
    (a, b), (c, d) = figure.subplots(2, 2)
    factors, sweeps = numbers["factors"], numbers["sweeps"]
    _orders(a, factors, sweeps["together"])
    a.set_title(f"both shrink together ($\\kappa$ = {KAPPA:g})", fontsize=8)
    for name, colour, label in (
        ("together", COLOURS[0], "$\\lambda$ and $\\beta$"),
        ("lambda", COLOURS[3], f"$\\lambda$ alone, $\\beta$ = {BETA:g}"),
        ("beta", COLOURS[4], f"$\\beta$ alone, $\\lambda$ = {LAMBDA:g}"),
    ):
        _line(b, factors, sweeps[name]["error"]["softmax"], colour, label)
    b.set_title("one alone: the other sets a floor ($S$)", fontsize=8)
    for k, reading in enumerate(READINGS):
        _line(c, numbers["gains"], sweeps["kappa"]["relative"][reading], COLOURS[k], LABELS[reading], _style(reading))
    _line(c, numbers["gains"], sweeps["kappa"]["rates"], COLOURS[5], "hidden rates ($S$)", "--")
    c.set_title(f"gain ($\\lambda$ = {LAMBDA:g}, $\\beta$ = {BETA:g})", fontsize=8)
    for name, colour in (("together", COLOURS[0]), ("together_strong", COLOURS[1])):
        gain = KAPPA if name == "together" else STRONG
        d.plot(factors, sweeps[name]["flipped"], "-", color=colour, label=f"a ReLU flips, $\\kappa$ = {gain:g}")
        d.plot(
            factors, sweeps[name]["unsettled"], ":", color=colour, label=f"no equilibrium found, $\\kappa$ = {gain:g}"
        )
    d.set_xscale("log")
    d.set_ylim(bottom=0)
    d.set_title("where the theorem's smoothness fails", fontsize=8)
    for axis in (a, b, d):
        axis.set_xlabel("$\\lambda$ / 0.01 (and $\\beta$ / 10)", fontsize=8)
    c.set_xlabel("gain $\\kappa$", fontsize=8)
    c.set_ylabel("relative error", fontsize=8)
    d.set_ylabel("share of samples", fontsize=8)
    for axis in (a, b):
        axis.set_ylabel("error of $u$ / $\\kappa$", fontsize=8)
    for axis in (a, b, c, d):
        axis.tick_params(labelsize=7)
        axis.legend(fontsize=6)
        axis.grid(linewidth=0.3)
    return figure


def _orders(axis: Axes, factors: Sequence[float], sweep: dict[str, Any]) -> None:
    for k, reading in enumerate(READINGS):
        _line(axis, factors, sweep["error"][reading], COLOURS[k], LABELS[reading], _style(reading))
    flipped = [(f, e) for f, e in zip(factors, sweep["error_flipped"], strict=True) if e is not None]
    if flipped:
        axis.plot(*zip(*flipped, strict=True), "k^", markersize=3.5, label="$S$, a ReLU flips")
    last = sweep["error"]["softmax"][-1]
    if last is not None:
        guide = [last * (f / factors[-1]) ** 2 for f in factors]
        axis.plot(factors, guide, ":", color="#8C8C8C", linewidth=1, label="slope 2")


def _style(reading: str) -> str:
    return "--" if reading == "package" else "-"  # it lies on the theorem's line


def _line(axis: Axes, x: Sequence[float], y: Sequence[float | None], colour: str, label: str, style: str = "-") -> None:
    points = [(at, value) for at, value in zip(x, y, strict=True) if value is not None]
    if points:
        axis.loglog(*zip(*points, strict=True), style, color=colour, label=label, linewidth=1.3)


EXPERIMENT = Experiment(
    "steady-state", "How exact is the closed form of the equilibrium, and in what order?", measure, judge, draw
)
