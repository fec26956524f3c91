"""Measured forgetting against the paper's bounds, for steps of any size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from efc.metrics import Array
from efc.report.style import COLOURS, new_figure
from efc.theory.curvature import Rows, fisher, implicit, spectrum
from efc.theory.finding import Claim, Experiment, Numbers, Tell, above, array, band, bars, mean_std, ratios, verdict
from efc.theory.rows import mean_gradient, model_fisher_along
from efc.theory.situation import Situation, one_hot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DAMPING = 1e-3
"""Of all inverses, as a share of the matrix's norm: D_A has zeros, F_A and F~_A have a large null space."""
LENGTHS = np.geomspace(1e-3, 10.0, 17)
"""Of the displacement."""
METHODS = ("BP", "EWC", "FISH", "EFC")
BROKEN = 0.5
"""The share of the quadratic approximation by which the loss may differ from it."""


def measure(situation: Situation, tell: Tell) -> Numbers:
    s = situation
    found = []
    for run in range(s.runs):
        tell(f"seed {s.seeds[run]}")
        found.append(_of_run(s, run))
    gathered = {key: [one[key] for one in found] for key in found[0]}
    return {"lengths": LENGTHS.tolist(), "damping": DAMPING, "parameters": s.layout.n_parameters} | gathered


def _of_run(s: Situation, run: int) -> Numbers:
    theta = s.theta_A[run]
    gradient = mean_gradient(
        s.layout, theta.unsqueeze(0), s.sigma, s.probes.x, one_hot(s.probes.y, s.classes, theta), s.classes
    )[1][0]
    F, implied, D = fisher(s, run), implicit(s, run, s.probes.x), s.diagonal()[run]
    ways = directions(F, implied, D, gradient)
    courses = {name: forgetting(s, run, way, F) for name, way in ways.items()}
    return compare(F, implied, D, gradient, ways) | {
        "measured": {name: course["increase"] for name, course in courses.items()},
        "quadratic": {name: course["empirical"] for name, course in courses.items()},
        "fits": {name: fitting(course["increase"], course["empirical"]) for name, course in courses.items()},
        "fits_bent": {name: fitting(course["bent"], course["empirical"]) for name, course in courses.items()},
        "fits_model": {name: fitting(course["bent"], course["model"]) for name, course in courses.items()},
        "model_over_empirical": courses["BP"]["model"][0] / courses["BP"]["empirical"][0],
        "idle": float((D == 0).double().mean()),
    }


def directions(F: Rows, implied: Rows, D: Tensor, g: Tensor) -> dict[str, Tensor]:
    """The update rules of the supplement, at eta = 1."""
    return {
        "BP": -g,
        "EWC": -g / (D + DAMPING * D.norm()),
        "FISH": -F.damped_inverse(g, DAMPING * F.norm),
        "EFC": -implied.damped_inverse(g, DAMPING * implied.norm),
    }


def compare(F: Rows, implied: Rows, D: Tensor, g: Tensor, ways: dict[str, Tensor]) -> Numbers:
    """At eta = 1: ``1/2 Delta^T F_A Delta`` against each bound, and the pairwise and volume comparisons."""
    half = {name: 0.5 * float(way.double() @ F.times(way).double()) for name, way in ways.items()}
    size = 0.5 * float(g.double().square().sum())
    largest = float(spectrum(F).values[0])
    implied_values = torch.linalg.eigvals(implied.small).real
    implied_largest = float(implied_values.max()) + DAMPING * implied.norm
    weighted = D.double() / (D.double() + DAMPING * float(D.norm())).square()
    bound = {"BP": size * largest, "EWC": size * float(weighted.sum()), "EFC": size / implied_largest}
    progress = {name: -float(g.double() @ way.double()) for name, way in ways.items()}
    return {
        "half": half,
        "bound": bound,
        "share_of_bound": {name: half[name] / bound[name] for name in bound},
        "at_equal_progress": {name: half[name] / progress[name] ** 2 for name in ways},
        "pairwise": {
            name: {"measured": half[name] - half["EFC"], "claimed": bound[name] - bound["EFC"]}
            for name in ("EWC", "BP")
        },
        "volume": volumes(F, implied, D),
        "length": float(g.double().norm()),
        "largest_eigenvalue": largest,
        "best_case": best_case(F, implied, D),
    }


def best_case(F: Rows, implied: Rows, D: Tensor) -> Numbers:
    """Forgetting of EWC minus that of EFC for a unit gradient at eta = 1, against half of ``n / tr D - 1 / lambda_1``.

    Along the all-ones vector, which the corollary takes the first eigenvector of F_A for, and along the one that is.
    """
    first = spectrum(F).vectors[0]
    ones = torch.full_like(first, 1 / math.sqrt(len(first)))
    largest = float(spectrum(F).values[0])
    n_over_trace = len(D) / float(D.double().sum())
    measured = {}
    for name, v in (("ones", ones), ("first", first)):
        ways = directions(F, implied, D, v)
        half = {way: 0.5 * float(ways[way].double() @ F.times(ways[way]).double()) for way in ("EWC", "EFC")}
        measured[name] = half["EWC"] - half["EFC"]
    weighted = ones / (D + DAMPING * D.norm())
    return {
        "claimed": 0.5 * (n_over_trace - 1 / largest),
        "measured": measured,
        "cosine": abs(float(first @ ones)),
        "step": float(weighted.double() @ F.times(weighted).double()) / n_over_trace,
    }


def volumes(F: Rows, implied: Rows, D: Tensor) -> dict[str, float]:
    """Logarithms, per parameter: of ``sqrt(det D / det F~)``, damped, and of the paper's ``(lambda_1 n / tr D)^1/2``.

    The determinant of ``F~ + mu I`` is that of its small matrix, times a power of mu.
    """
    n = len(D)
    mu = DAMPING * float(D.norm())
    eye = torch.eye(len(implied.small), dtype=torch.float64, device=D.device)
    small = float(torch.linalg.slogdet(implied.small / mu + eye)[1])
    log_D = float((D.double() / mu + 1).log().sum())
    closed = 0.5 * math.log(float(spectrum(F).values[0]) * n / float(D.double().sum()))
    return {"measured": 0.5 * (log_D - small) / n, "claimed": closed}


def forgetting(s: Situation, run: int, way: Tensor, F: Rows) -> dict[str, list[float]]:
    """At displacements of all lengths along ``way``: task A's loss increase, and without the slope it has at theta_A*
    (``bent``); half the quadratic form of its empirical Fisher, and of the Fisher with the model's own labels."""
    unit = way.double() / way.double().norm()
    steps = torch.as_tensor(LENGTHS, device=way.device)
    points = s.theta_A[run].double() + steps.unsqueeze(1) * unit
    y = one_hot(s.A.y, s.classes_A, unit)
    x = s.A.x.double()
    here, slope = mean_gradient(s.layout, s.theta_A[run].double().unsqueeze(0), s.sigma, x, y, s.classes_A)
    there = torch.cat([mean_gradient(s.layout, p.unsqueeze(0), s.sigma, x, y, s.classes_A)[0] for p in points])
    quadratic = 0.5 * float(unit @ F.times(unit.to(way)).double()) * steps.square()
    model = model_fisher_along(s.layout, s.theta_A[run].double(), s.sigma, x, unit, s.classes_A)
    return {
        "increase": (there - here).tolist(),
        "bent": (there - here - steps * float(slope[0] @ unit)).tolist(),
        "empirical": quadratic.tolist(),
        "model": (0.5 * model * steps.square()).tolist(),
    }


def fitting(measured: list[float], quadratic: list[float]) -> list[float | None]:
    """The range of lengths over which the loss is within :data:`BROKEN` of its approximation; None if there is none."""
    fits = np.abs(array(measured) - array(quadratic)) < BROKEN * array(quadratic)
    if not fits.any():
        return [None, None]
    first = int(fits.argmax())
    beyond = np.flatnonzero(~fits[first:])
    last = first + int(beyond[0]) - 1 if len(beyond) else len(fits) - 1
    return [float(LENGTHS[first]), float(LENGTHS[last])]


def judge(numbers: Numbers) -> list[Claim]:
    share = {name: array([one[name] for one in numbers["share_of_bound"]]) for name in ("BP", "EWC", "EFC")}
    equal = {name: array([one[name] for one in numbers["at_equal_progress"]]) for name in METHODS}
    relative = {name: values / equal["BP"] for name, values in equal.items()}
    pairs = {name: [one[name] for one in numbers["pairwise"]] for name in ("EWC", "BP")}
    kept = {name: sum(p["measured"] >= p["claimed"] for p in values) for name, values in pairs.items()}
    seeds = len(numbers["idle"])
    volume = [(one["measured"], one["claimed"]) for one in numbers["volume"]]
    kinds = ("fits", "fits_bent", "fits_model")
    fits = {key: [one["BP"] for one in numbers[key] if one["BP"][0] is not None] for key in kinds}
    return [
        Claim(
            "Forgetting of BP is at most |grad L_B|^2 lambda_max.",
            "bound, eta < 1 / lambda_max",
            f"half Delta^T F Delta is {mean_std(share['BP'], 2)} of the bound; task A's loss itself is within it at "
            f"{mean_std(100 * _kept(numbers), 2)} % of the lengths that the theorem allows",
            verdict(bool((share["BP"] <= 1).all()), bool((_kept(numbers) == 1).all())),
        ),
        Claim(
            "Forgetting of EWC is at most |grad L_B|^2 tr(D^-1 F D^-1) <= |grad L_B|^2 n / lambda_min.",
            "bound, grows with the number of parameters",
            f"{mean_std(share['EWC'], 2)} of the bound with a damped inverse; as printed it is infinite: "
            f"{100 * np.mean(numbers['idle']):.0f} % of D_A's entries are zero",
            verdict(bool((share["EWC"] <= 1).all()), bool(np.mean(numbers["idle"]) == 0)),
        ),
        Claim(
            "Forgetting of EFC is at most |grad L_B|^2 / lambda~_max.",
            "the tightest bound",
            f"{mean_std(share['EFC'], 2)} times the bound (an inverse is largest at the smallest eigenvalue)",
            verdict(bool((share["EFC"] <= 1).all())),
        ),
        Claim(
            "At the same progress on task B the order is EFC, EWC, BP.",
            "EFC least, BP most",
            "forgetting relative to BP's: " + ", ".join(f"{name} {mean_std(v, 2)}" for name, v in relative.items()),
            verdict(above(ratios(equal["EWC"], equal["EFC"])), above(ratios(equal["BP"], equal["EWC"]))),
        ),
        Claim(
            "EWC and BP forget more than EFC by at least the difference of the bounds.",
            "pairwise comparisons",
            f"true for EWC in {kept['EWC']}, for BP in {kept['BP']} of {seeds} seeds",
            verdict(kept["EWC"] == seeds, kept["BP"] == seeds),
        ),
        Claim(
            "The volume ratio of EFC's and EWC's regions is (lambda_1 n / tr D)^{n/2}.",
            "grows exponentially with dimension",
            f"log per parameter: {mean_std([v[0] for v in volume], 2)} (damped), claimed "
            f"{mean_std([v[1] for v in volume], 2)}",
            verdict(all(abs(a / b - 1) < 0.1 for a, b in volume)),
        ),
        _best_case_claim(numbers["best_case"]),
        Claim(
            "Forgetting is half Delta^T F_A Delta for small steps.",
            "quadratic approximation",
            f"along -grad L_B within {100 * BROKEN:.0f} %: {_range(fits['fits'], seeds)}; "
            f"without the slope that the loss has at theta_A*: {_range(fits['fits_bent'], seeds)}; "
            f"and with the Fisher of the model's own labels, {mean_std(numbers['model_over_empirical'], 2)} times as "
            f"large: {_range(fits['fits_model'], seeds)}",
            verdict(*(len(fits[key]) == seeds for key in kinds)),
        ),
    ]


def _kept(numbers: Numbers) -> Array:
    """Per seed, the share of BP's displacements with ``eta < 1 / lambda_max`` whose loss increase is in the bound."""
    lengths, kept = array(numbers["lengths"]), []
    for run, largest in enumerate(numbers["largest_eigenvalue"]):
        allowed = lengths < numbers["length"][run] / largest
        inside = array(numbers["measured"][run]["BP"]) <= 0.5 * largest * lengths**2
        kept.append(float(inside[allowed].mean()) if allowed.any() else 1.0)
    return array(kept)


def _best_case_claim(found: Sequence[Numbers]) -> Claim:
    held = {name: sum(one["measured"][name] >= one["claimed"] for one in found) for name in ("ones", "first")}
    return Claim(
        "In the best case for EFC, EWC forgets more by |grad L_B|^2 (n / tr D - 1 / lambda_1) / 2 at least.",
        "grad L_B along the first eigenvector of F_A, which has equal components",
        f"true along (1, ..., 1) in {held['ones']}, along F_A's first eigenvector in {held['first']} of {len(found)} "
        f"seeds (EWC damped); cosine between the two {mean_std([one['cosine'] for one in found], 2)}; "
        f"v^T D^-1 F D^-1 v, which the proof has at n / tr D or less, is "
        f"{mean_std([one['step'] for one in found], 2)} times that",
        verdict(
            held["ones"] == len(found),
            held["first"] == len(found),
            above([one["cosine"] for one in found], 0.9),
            all(one["step"] <= 1 for one in found),
        ),
    )


def _range(found: list[list[float]], seeds: int) -> str:
    if not found:
        return "at no length"
    low, high = np.median(found, axis=0)
    return f"lengths {low:.2g} to {high:.2g} ({len(found)} of {seeds} seeds)"


def draw(numbers: Numbers) -> Figure:
    figure = new_figure((7.0, 2.8))
    left, right = figure.subplots(1, 2, width_ratios=(1.6, 1))
    for k, name in enumerate(METHODS):
        measured = array([one[name] for one in numbers["measured"]]).T
        band(left, numbers["lengths"], np.abs(measured), name, COLOURS[k])
        quadratic = array([one[name] for one in numbers["quadratic"]]).mean(0)
        left.plot(numbers["lengths"], quadratic, ":", color=COLOURS[k], linewidth=1)
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xlabel("length of the displacement", fontsize=8)
    left.set_title("loss increase of task A (dotted: quadratic)", fontsize=8)
    left.legend(fontsize=7)
    bars(right, [[one[name] / one["BP"] for one in numbers["at_equal_progress"]] for name in METHODS], METHODS)
    right.set_yscale("log")
    right.set_title("at equal progress on B, relative to BP", fontsize=8)
    for axis in (left, right):
        axis.tick_params(labelsize=7)
    return figure


EXPERIMENT = Experiment("bounds", "Do the forgetting bounds bound, and how tightly?", measure, judge, draw)
