"""The least-control principle: its gradient theorem, the feedback it asks for, and what the local rule makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from efc.core.network import Layout, initialise
from efc.report.style import COLOURS, new_figure
from efc.streams import load, split
from efc.theory.descents import (
    Descent,
    Setting,
    accuracy,
    back_propagation,
    effort,
    exact_descent,
    layer_cosines,
    local_descent,
    train,
)
from efc.theory.effort import (
    Optimum,
    Problem,
    feedforward_jacobian,
    least_control,
    only_layer,
    optimal_feedback,
    outside,
    printed_deltas,
    same_units,
    selectivity,
    theorem_deltas,
)
from efc.theory.finding import POINT, Claim, Experiment, Numbers, Tell, above, array, every, mean_std, verdict, within
from efc.theory.rows import logits, outer_rows
from efc.theory.situation import LAMBDA, Situation, batches, one_hot, some

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LAMBDAS = (1e-3, 1e-2, 1e-1)
GAIN = 1e10
"""At which the controller reaches its target for all purposes."""
REACHED = 1e-4
"""How far, in its logarithm, an output rate may be from its target to count as the same output."""
FEEDBACKS = ("jacobian", "least_control")
TRAINED: dict[str, tuple[Descent, str]] = {
    "back-propagation": (back_propagation, "jacobian"),
    "local, jacobian": (local_descent, "jacobian"),
    "exact, jacobian": (exact_descent, "jacobian"),
    "local, least control": (local_descent, "least_control"),
    "exact, least control": (exact_descent, "least_control"),
}


def measure(situation: Situation, tell: Tell) -> Numbers:
    """All at ``theta_A*``, on probes of task B; then a small training on the embedded digits."""
    s = situation
    found: list[dict[str, Any]] = []
    for run in range(s.runs):
        tell(f"seed {s.seeds[run]}")
        found.append(_one_seed(s, run))
    numbers = {name: [each[name] for each in found] for name in found[0]}
    tell("training on digits")
    return {"lambdas": list(LAMBDAS), **numbers, "training": training(s.scale.quick)}


def _one_seed(s: Situation, run: int) -> dict[str, Any]:
    theta = s.theta_A[run].double()
    probes = some(s.probes, 16 if s.scale.quick else 24)
    x, y = probes.x.double(), one_hot(probes.y, s.classes, theta)
    p = torch.softmax(logits(s.layout, theta, s.sigma, x, s.classes), -1)
    optima = {lam: least_control(Problem(s.layout, theta, s.sigma, x, p - lam * (p - y))) for lam in LAMBDAS}
    setting = Setting(s.layout, activation=s.activation)
    additive = least_control(Problem(s.layout, theta, s.sigma, x, p - LAMBDA * (p - y), form="additive"))
    return {
        "settled": [float(o.settled.double().mean()) for o in optima.values()],
        "gradient": finite_differences(optima[LAMBDA], run),
        "printed_condition": printed_condition(optima[LAMBDA]),
        "outside": {k: [column_space(o, k) for o in optima.values()] for k in (*FEEDBACKS, "exact")},
        "effort": {k: [_excess(s, k, lam, theta, x, y, optima[lam]) for lam in LAMBDAS] for k in FEEDBACKS},
        "selectivity": {"multiplicative": _spread_of(optima[LAMBDA]), "additive": _spread_of(additive)},
        "cosine": cosines(setting, theta, x, y, optima[LAMBDAS[0]]),
    }


def finite_differences(optimum: Optimum, seed: int, size: float = 1e-6) -> dict[str, float]:
    """Relative error of both readings of the theorem against central differences of 1/2 |psi*|^2, samples and layers
    pooled; only samples that settle at all three points count."""
    optimum = optimum.some(optimum.settled)
    p = optimum.problem
    classes = slice(0, p.layout.sizes[-1])
    formulas = {"theorem": theorem_deltas(optimum), "printed": printed_deltas(optimum)}
    rows = {k: outer_rows(p.layout, deltas, optimum.presynaptic, classes) for k, deltas in formulas.items()}
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(p.layout.n_parameters, generator=generator, dtype=torch.float64).to(p.theta)
    errors: dict[str, list[Tensor]] = {k: [] for k in rows}
    wanted: list[Tensor] = []
    for layer in range(len(p.hidden) + 1):
        d = only_layer(p.layout, noise, layer)
        up, down = (least_control(p.at(p.theta + sign * size * d), optimum.psi) for sign in (1, -1))
        usable = up.settled & down.settled & same_units(up, down)
        wanted.append(((up.effort - down.effort) / (4 * size))[usable])
        for k, row in rows.items():
            errors[k].append((row @ d)[usable] - wanted[-1])
    scale = float(torch.cat(wanted).norm())
    return {k: float(torch.cat(e).norm()) / scale if scale > 0 else 0.0 for k, e in errors.items()}


def printed_condition(optimum: Optimum) -> dict[str, float]:
    """Of the first sample: the rank of ``df/dphi``, which the theorem wants invertible, for f and for f / phi."""
    J = feedforward_jacobian(optimum)[0]
    N = len(J)
    identity = torch.eye(N, dtype=J.dtype, device=J.device)
    return {
        "states": N,
        "columns": optimum.psi_L.shape[1],
        "rank": int(torch.linalg.matrix_rank(J)),
        "rank_ratio": int(torch.linalg.matrix_rank(J - identity)),
    }


def column_space(optimum: Optimum, kind: str) -> float | None:
    """The share of ``psi*`` outside the column space of Q, median over samples."""
    share = outside(optimum.signals, optimal_feedback(optimum, kind))
    return _median(share, optimum.settled)


def _excess(
    s: Situation, feedback: str, lam: float, theta: Tensor, x: Tensor, y: Tensor, optimum: Optimum
) -> dict[str, float | None]:
    """``|psi|^2`` of the controller that reaches the same output, over the least possible."""
    setting = Setting(s.layout, feedback, kappa=GAIN, lam=lam, activation=s.activation)
    solution = setting.solve(*(t.unsqueeze(0) for t in (theta, x, y)))
    system = solution.system
    distance = ((system.target - solution.activity.error) / system.target).log().abs().amax(-1)[0]
    usable = solution.settled[0] & (distance < REACHED) & optimum.settled
    return {
        "ratio": _median(effort(solution.psi)[0] / optimum.effort, usable),
        "share": float(usable.double().mean()),
    }


def _spread_of(optimum: Optimum) -> dict[str, float | None]:
    return {name: _median(values, optimum.settled) for name, values in selectivity(optimum).items()}


def cosines(setting: Setting, theta: Tensor, x: Tensor, y: Tensor, optimum: Optimum) -> dict[str, Any]:
    """Per layer, of the local change with the exact descent of the same controller's effort, with the theorem's
    direction for the least control, and with back-propagation: mean over samples, and of the batch's means."""
    # Every sample is a run of its own: the gradients come out per sample.
    batch = theta.expand(len(x), -1).contiguous(), x.unsqueeze(1), y.unsqueeze(1)
    classes = slice(0, setting.layout.sizes[-1])
    back = back_propagation(setting, *batch)
    theorem = outer_rows(setting.layout, theorem_deltas(optimum), optimum.presynaptic, classes)
    theorem = theorem * optimum.settled.unsqueeze(1)
    found: dict[str, Any] = {}
    for feedback in FEEDBACKS:
        mine = Setting(setting.layout, feedback, activation=setting.activation)
        local = local_descent(mine, *batch)
        references = {"exact": exact_descent(mine, *batch), "theorem": theorem, "back-propagation": back}
        found[feedback] = {name: _angle(setting.layout, local, g) for name, g in references.items()}
    return found


def _angle(layout: Layout, a: Tensor, b: Tensor) -> dict[str, list[float]]:
    return {
        "sample": [float(v.mean()) for v in layer_cosines(layout, a, b)],
        "batch": [float(v) for v in layer_cosines(layout, a.mean(0, True), b.mean(0, True))],
    }


def _median(values: Tensor, where: Tensor) -> float | None:
    """None where there is nothing to take it of."""
    return float(values[where].median()) if bool(where.any()) else None


def training(quick: bool) -> dict[str, Any]:
    """Test accuracy on the embedded digits, all classes at once, the learning rate chosen on the validation part."""
    rates = [1e-2, 3e-2] if quick else [1e-3, 3e-3, 1e-2, 3e-2]
    seeds, steps = (list(range(4)), 60) if quick else (list(range(10)), 200)
    stream = split(load("digits"), tasks=1, classes_per_task=10)
    parts = stream.tasks[0].parts
    layout = Layout((stream.n_features, 32, 32, 10))
    runs = [seed for seed in seeds for _ in rates]
    theta = initialise(layout, [torch.Generator().manual_seed(seed) for seed in runs], torch.float64)
    lr = torch.tensor(rates * len(seeds), dtype=torch.float64)
    x = parts["train"].x.double()
    y = one_hot(parts["train"].y, slice(0, 10), x)
    plan = [(x[index], y[index]) for index in batches(len(x), 64, steps, runs)]
    found: dict[str, Any] = {}
    for name, (descent, feedback) in TRAINED.items():
        setting = Setting(layout, feedback, tol=1e-4)
        end = train(descent, setting, theta, plan, lr)
        validation, test = (
            accuracy(setting, end, parts[part].x.double(), parts[part].y).view(len(seeds), -1)
            for part in ("validation", "test")
        )
        best = int(validation.mean(0).argmax())
        found[name] = {"lr": rates[best], "accuracy": test[:, best].tolist()}
    return {"steps": steps, "methods": found}


def judge(numbers: Numbers) -> list[Claim]:
    gradient = {k: [g[k] for g in numbers["gradient"]] for k in ("theorem", "printed")}
    out = {k: _means([o[k] for o in numbers["outside"]]) for k in (*FEEDBACKS, "exact")}
    ratio = {k: _ratios(numbers["effort"], k) for k in FEEDBACKS}
    jacobian, least = (array([o[k][0] for o in numbers["outside"]]) for k in FEEDBACKS)  # where control is weakest
    first, *_ = conditions = numbers["printed_condition"]
    spread = {k: {m: _selectivity(numbers, k, m) for m in ("correlation", "silent")} for k in _FORMS}
    middle = list(numbers["lambdas"]).index(LAMBDA)
    each = [seed["jacobian"][middle] for seed in numbers["effort"]]
    settled = [s[middle] for s in numbers["settled"]]
    return [
        Claim(
            "d|psi*|^2/dtheta = log f^T d log f (first-order gradient theorem).",
            "stated for e^psi f = 1",
            f"relative error against finite differences: {max(gradient['theorem']):.1e} for the net's phi = e^psi f, "
            f"with f / phi in the place of f; {min(gradient['printed']):.1e} to the letter, f being the rates. "
            f"{100 * (1 - np.mean(settled)):.0f} % of the optima lie on a kink, where there is no gradient",
            verdict(max(gradient["theorem"]) < 1e-3, max(gradient["printed"]) < 1e-3),
        ),
        Claim(
            "The least control lies in the column space of Q = diag(f) J^T.",
            "col Q = row[diag(f) (df/dphi)^-1]",
            f"share of psi* outside, lambda {numbers['lambdas'][0]:g} to {numbers['lambdas'][-1]:g}: "
            f"{out['least_control'][0]:.2g} to {out['least_control'][-1]:.2g} (diag(r), at the controlled state: "
            f"{max(out['exact']):.0e}); Q = J^T, which the paper uses: {out['jacobian'][0]:.2g}. As printed df/dphi "
            f"has rank {first['rank']} of {first['states']}; where it is invertible, {first['columns']} columns cannot "
            "span the space",
            verdict(
                max(out["exact"]) < 1e-4,
                every((above(0.02, least), above(0.2 * jacobian, least))),
                all(one["rank"] == one["states"] for one in conditions),
            ),
        ),
        Claim(
            "Q = J^T gives optimal control.",
            "J^T calculated and applied for optimal control",
            f"|psi|^2 for the same output over the least possible, lambda {LAMBDA:g}: jacobian "
            f"{ratio['jacobian'][middle]:.3f}, least_control {ratio['least_control'][middle]:.3f}",
            verdict(above(1.02, [e["ratio"] for e in each if e["ratio"] is not None])),
        ),
        Claim(
            "Multiplicative control acts in proportion to the rates, additive control uniformly.",
            "larger components of f get a proportionally stronger psi",
            f"rank correlation of effort and rate {mean_std(spread['multiplicative']['correlation'])}, additive "
            f"{mean_std(spread['additive']['correlation'])}; effort on silent units "
            f"{100 * np.mean(spread['multiplicative']['silent']):.2g} %, additive "
            f"{100 * np.mean(spread['additive']['silent']):.2g} %",
            verdict(
                above(spread["multiplicative"]["correlation"], 0.3),
                within(spread["additive"]["correlation"], -0.3, 0.3),
            ),
        ),
        _direction_claim(numbers["cosine"]),
        _training_claim(numbers["training"]),
    ]


_FORMS = ("multiplicative", "additive")


def _selectivity(numbers: Numbers, form: str, name: str) -> list[float]:
    return [s[form][name] for s in numbers["selectivity"] if s[form][name] is not None]


def _means(seeds: Sequence[Sequence[float | None]]) -> list[float]:
    """Over the seeds in which there is a number at all."""
    columns = [[value for value in column if value is not None] for column in zip(*seeds, strict=True)]
    return [float(np.mean(column)) if column else float("nan") for column in columns]


def _ratios(efforts: Sequence[dict[str, Any]], kind: str) -> list[float]:
    return _means([[each["ratio"] for each in seed[kind]] for seed in efforts])


def _cosine(cosine: Sequence[dict[str, Any]], feedback: str, reference: str, over: str) -> list[float]:
    means: list[float] = np.mean([c[feedback][reference][over] for c in cosine], 0).tolist()
    return means


def _direction_claim(cosine: Sequence[dict[str, Any]]) -> Claim:
    found = {k: {over: _cosine(cosine, k, "exact", over)[-1] for over in ("sample", "batch")} for k in FEEDBACKS}
    theorem = {k: _cosine(cosine, k, "theorem", "batch")[-1] for k in FEEDBACKS}
    seeds = [[c[k]["exact"][over][-1] for c in cosine] for k in FEEDBACKS for over in ("sample", "batch")]
    return Claim(
        "The local weight change descends |psi|^2.",
        "theta is updated by descending |psi*|^2",
        f"cosine with the exact descent of the same |psi|^2: {found['jacobian']['sample']:.2f} per sample, "
        f"{found['jacobian']['batch']:.2f} for the batch (jacobian), {found['least_control']['sample']:.2f} and "
        f"{found['least_control']['batch']:.2f} (least_control); with the theorem's direction "
        f"{theorem['jacobian']:.2f} and {theorem['least_control']:.2f}",
        verdict(*(every(above(each, bar) for each in seeds) for bar in (0.0, 0.9))),
    )


_TRAINED_FEEDBACKS = ("jacobian", "least control")


def _training_claim(training: dict[str, Any]) -> Claim:
    methods = training["methods"]
    told = "; ".join(f"{name} {mean_std(found['accuracy'])} %" for name, found in methods.items())
    pairs = [(methods[f"exact, {k}"]["accuracy"], methods[f"local, {k}"]["accuracy"]) for k in _TRAINED_FEEDBACKS]
    return Claim(
        "The local rule learns as well as the exact descent would.",
        f"not examined; here: at most {POINT:g} point worse",
        f"digits, {training['steps']} steps, rate chosen on validation: {told}",
        verdict(*(above(array(local) + POINT, exact) for exact, local in pairs)),
    )


def draw(numbers: Numbers) -> Figure:
    figure = new_figure((7.0, 4.6))
    axes = figure.subplots(2, 3)
    _draw_gradient(axes[0, 0], numbers["gradient"])
    _draw_by_lambda(axes[0, 1], axes[0, 2], numbers)
    _draw_selectivity(axes[1, 0], numbers)
    _draw_cosines(axes[1, 1], numbers["cosine"])
    _draw_training(axes[1, 2], numbers["training"])
    for axis in axes.flat:
        axis.tick_params(labelsize=6)
    return figure


def _draw_gradient(axis: Axes, gradient: Sequence[dict[str, float]]) -> None:
    for k, name in enumerate(("theorem", "printed")):
        axis.plot([k] * len(gradient), [g[name] for g in gradient], "o", color=COLOURS[k], markersize=4)
    axis.set_yscale("log")
    axis.axhline(1, color="#8C8C8C", linewidth=0.7)
    axis.set_xticks((0, 1), ("with $f/\\phi$", "as printed"), fontsize=7)
    axis.set_xlim(-0.5, 1.5)
    axis.set_title("gradient of $|\\psi^*|^2$: error", fontsize=8)


def _draw_by_lambda(left: Axes, right: Axes, numbers: Numbers) -> None:
    labels = {"jacobian": "$J^T$", "least_control": "diag$(f) J^T$", "exact": "diag$(r) J^T$, exp. factors"}
    for k, name in enumerate(labels):
        shares = _means([o[name] for o in numbers["outside"]])
        left.loglog(numbers["lambdas"], np.maximum(shares, 1e-16), "o-", color=COLOURS[k], label=labels[name], ms=3)
    left.set_title("share of $\\psi^*$ outside col $Q$", fontsize=8)
    left.legend(fontsize=6)
    for k, name in enumerate(FEEDBACKS):
        ratios = _ratios(numbers["effort"], name)
        right.semilogx(numbers["lambdas"], ratios, "o-", color=COLOURS[k], label=labels[name], ms=3)
    right.axhline(1, color="#8C8C8C", linewidth=0.7)
    right.set_title("$|\\psi|^2$ / least, same output", fontsize=8)
    right.legend(fontsize=6)
    for axis in (left, right):
        axis.set_xlabel("$\\lambda$", fontsize=7)


def _draw_selectivity(axis: Axes, numbers: Numbers) -> None:
    for k, form in enumerate(_FORMS):
        for j, name in enumerate(("correlation", "silent")):
            values = _selectivity(numbers, form, name)
            axis.bar(j + 0.38 * k - 0.19, np.mean(values), 0.36, color=COLOURS[k], label=form if j == 0 else None)
            axis.plot([j + 0.38 * k - 0.19] * len(values), values, "k.", markersize=2.5)
    axis.axhline(0, color="k", linewidth=0.5)
    axis.set_xticks((0, 1), ("rank correlation\nwith the rate", "share on\nsilent units"), fontsize=6)
    axis.set_title("where the least effort goes", fontsize=8)
    axis.legend(fontsize=6)


def _draw_cosines(axis: Axes, cosine: Sequence[dict[str, Any]]) -> None:
    labels = {"exact": "exact descent", "theorem": "theorem, least control", "back-propagation": "back-propagation"}
    layers = len(cosine[0]["jacobian"]["exact"]["sample"])
    for k, name in enumerate(labels):
        for feedback, line in (("jacobian", "o-"), ("least_control", "s:")):
            label = labels[name] if feedback == "jacobian" else None
            axis.plot(
                range(layers), _cosine(cosine, feedback, name, "sample"), line, color=COLOURS[k], label=label, ms=3
            )
    axis.set_xticks(range(layers), [*(f"layer {i + 1}" for i in range(layers - 1)), "all"], fontsize=6)
    axis.set_ylim(-0.55, 1.05)
    axis.set_yticks((0, 0.5, 1))
    axis.set_title("local change: cosine with ...", fontsize=8)
    axis.legend(fontsize=5.5, title="solid: jacobian, dotted: least c.", title_fontsize=5.5, loc="lower left")


def _draw_training(axis: Axes, training: dict[str, Any]) -> None:
    names = list(training["methods"])
    for k, name in enumerate(names):
        values = training["methods"][name]["accuracy"]
        axis.barh(k, np.mean(values), color=COLOURS[k], height=0.7)
        axis.plot(values, [k] * len(values), "k.", markersize=3)
    lowest = min(min(found["accuracy"]) for found in training["methods"].values())
    axis.set_xlim(max(0.0, lowest - 5), 100)
    axis.set_yticks(range(len(names)), [name.replace(", ", ",\n") for name in names], fontsize=6)
    axis.invert_yaxis()
    axis.set_title(f"digits, {training['steps']} steps: test acc., %", fontsize=8)


EXPERIMENT = Experiment(
    "least-control", "Do the least-control theorems hold, and does the local rule follow them?", measure, judge, draw
)
