"""Where do the weights come to rest, with preservation and without; and does the activity come to rest at all?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from efc.core.solution import Result, Solution
from efc.core.solvers import make_solver
from efc.core.system import System
from efc.report.style import COLOURS, new_figure
from efc.theory.closed_form import sweep_system
from efc.theory.effort import Optimum, Problem
from efc.theory.finding import (
    Claim,
    Experiment,
    Numbers,
    Tell,
    above,
    array,
    every,
    mean_std,
    ratios,
    verdict,
    within,
)
from efc.theory.flows import LOOKS, Trajectory, balance, descend_effort, follow_local_rule, record
from efc.theory.methods import visited
from efc.theory.situation import BETA, KAPPA, LAMBDA, Situation, one_hot, some

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SURE = 0.9
"""The target of the least control: so much on the right class, the rest spread evenly."""
WAY = 100
"""Steps of EFC on task B before samples are looked at: there is something to be held back from."""
BETAS = (0.0, 1.0, 10.0, 100.0)
TO_REST = (480, 800)
"""Steps of the local rule: with ``--quick``, and without."""
IMPORTANCE = {"A": 0.0, "all": 1.0}
"""Task A's Fisher as it is, or with its mean given to every weight on top."""
GAINS = [10.0**k for k in np.arange(-1, 3.5, 0.5).tolist()]
DT, TOL, LONGEST = 0.1, 1e-3, 1500
"""Of the relaxation, in units of tau; the most steps it is given."""
KINDS = ("settled", "slow", "cycling")
SHOWN = 4
"""Hidden rates that are drawn: those that move most."""


def measure(situation: Situation, tell: Tell) -> Numbers:
    """Descents and rest points on a few samples of task B; the share of samples that settle. Every seed."""
    s = situation
    tell("descent of the least effort")
    descent = [_descents(s, run) for run in range(s.runs)]
    tell("the local rule, to rest")
    rest = [{name: _rest(s, run, floor) for name, floor in IMPORTANCE.items()} for run in range(s.runs)]
    tell("samples on their way")
    return {"descent": descent, "rest": rest, "betas": list(BETAS), **_activity(s)}


def _descents(s: Situation, run: int) -> dict[str, Any]:
    """By gradient descent without preservation (the flow itself), by Adam with it (where can it go?)."""
    quick = s.scale.quick
    theta = s.theta_A[run].double()
    few = some(s.probes, 4 if quick else 8)
    y = one_hot(few.y, s.classes, theta)
    target = SURE * y + (1 - SURE) / y.shape[1]
    problem = Problem(s.layout, theta, s.sigma, few.x.double(), target)
    steps = 30 if quick else 100
    found = {"0": descent_numbers(problem, 0.01, steps)}
    for beta in BETAS[3:] if quick else BETAS[2:]:
        held = replace(problem, pull=s.pull(run, beta, theta)[0], anchor=theta)
        found[f"{beta:g}"] = descent_numbers(held, 3e-3, steps, adam=True, sweeps=8)
    return found


def descent_numbers(problem: Problem, step: float, steps: int, adam: bool = False, sweeps: int = 24) -> dict[str, Any]:
    """V along the way, and at the end the size of psi, of gamma and of log f (root-mean-square over units and all)."""
    course = descend_effort(problem, step, steps, adam, sweeps)
    change = np.diff(course.V)
    end = course.end
    return {
        "V": course.V,
        "rises": int((change > 0).sum()),
        "foreseen": float(np.median(change / np.asarray(course.foreseen))),
        "psi": math.sqrt(float(end.effort.mean())),
        "gamma": float(torch.cat([state[4] for state in end.hidden], 1).norm(dim=1).mean()) if end.hidden else 0.0,
        "log_f": log_rates(end),
    }


def log_rates(optimum: Optimum) -> float:
    """Mean ``|log f|`` of the units that are on: zero if the rates were one, as the corollary has it."""
    on = [state[1][state[1] > 0].log().abs() for state in optimum.hidden]
    return float(torch.cat(on).mean()) if on else 0.0


def _rest(s: Situation, run: int, floor: float) -> dict[str, Any]:
    """The local rule on one sample at a time; with the first seed, for the figure, on a batch; a run per strength."""
    theta = s.theta_A[run].double()
    pulls = s.pull(run, BETAS, theta, floor=floor)
    steps = TO_REST[0 if s.scale.quick else 1]
    K, singles = len(BETAS), 2
    part = some(s.probes, 16)
    x, y = part.x.double(), one_hot(part.y, s.classes, theta)
    one_x, one_y = (t[:singles].repeat_interleave(K, 0).unsqueeze(1) for t in (x, y))
    alone = follow_local_rule(s, theta, pulls.repeat(singles, 1), one_x, one_y, steps)
    found = {
        "steps": [round(k * steps / LOOKS) for k in range(LOOKS + 1)],
        "one": {k: v.view(singles, K).mean(0).tolist() for k, v in balance(alone.solution).items()},
        "loss_one": alone.loss.view(-1, singles, K).mean(1).tolist(),
    }
    if run > 0:
        return found
    all_x, all_y = (t.expand(K, *t.shape).contiguous() for t in (x, y))
    batch = follow_local_rule(s, theta, pulls, all_x, all_y, steps)
    return found | {"loss_batch": batch.loss.tolist()}


def _activity(s: Situation) -> dict[str, Any]:
    """Shares of samples by how their search ended, against the gain; three of them with their course."""
    theta = visited(s, "EFC", WAY, [WAY], s.scale.lr, BETA)[0]
    gains = torch.tensor(GAINS, dtype=torch.float64, device=s.device)
    one = torch.ones_like(gains)
    shares: dict[str, list[list[float]]] = {}
    trajectories: dict[str, Any] = {}
    for run in range(s.runs):
        system = sweep_system(s, run, theta[run], LAMBDA * one, BETA * one, gains)
        relaxed, root = solve_both(system)
        for name, share in (outcome(relaxed, root) | {"several": several(root)}).items():
            shares.setdefault(name, []).append(share)
        if run == 0:
            trajectories = _trajectories(system, choose_three(relaxed, root))
    return {"gains": GAINS, "shares": shares, "trajectories": trajectories}


def solve_both(system: System) -> tuple[Solution, Solution]:
    """By the differential equations, and by Newton's method, which does not care whether a rest point attracts."""
    relaxed = make_solver("relaxation", dt=DT, tol=TOL, max_steps=LONGEST).solve(system)
    return relaxed, make_solver("newton", tol=1e-8, max_steps=200).solve(system)


def outcome(relaxed: Solution, root: Solution) -> dict[str, list[float]]:
    """Per gain: the share that settles, cycles, is still on its way, and for which a rest point exists at all."""
    return {
        "settled": _mean(relaxed.result == Result.CONVERGED),
        "cycling": _mean((relaxed.result == Result.CYCLING) | (relaxed.result == Result.NON_FINITE)),
        "slow": _mean(relaxed.result == Result.MAX_STEPS),
        "rest_exists": _mean(root.settled),
    }


def several(root: Solution) -> list[float]:
    """Per gain: the share of samples that a start with every unit passing feedback on leads to another rest point.

    By Newton's method and by damped iteration, which keeps closer to its start but settles at moderate gains only.
    """
    jump = make_solver("newton", tol=1e-8, max_steps=200, start="open")
    creep = make_solver("fixed_point", tol=1e-8, max_steps=400, damping=0.2, start="open")
    return _mean(root.elsewhere(jump, creep))


def _mean(t: Tensor) -> list[float]:
    shares: list[float] = t.double().mean(1).tolist()
    return shares


def choose_three(relaxed: Solution, root: Solution) -> dict[str, tuple[int, int]]:
    """(gain, sample): the quickest at the lowest gain, the slowest that settles anywhere, and at the lowest gain where
    there is one a sample that goes round its rest point; if there is none, one that has no rest point to go round."""
    settled = relaxed.settled
    quick = torch.where(settled[0], relaxed.iterations[0], LONGEST + 1)
    slow = torch.where(settled, relaxed.iterations, -1)
    found = {"settled": (0, int(quick.argmin())), "slow": divmod(int(slow.argmax()), slow.shape[1])}
    round_ = relaxed.result == Result.CYCLING
    for where in (round_ & root.settled, round_):
        if bool(where.any()):
            found["cycling"] = divmod(int(where.flatten().double().argmax()), where.shape[1])
            break
    return found


def _trajectories(system: System, chosen: dict[str, tuple[int, int]], duration: float = 100.0) -> dict[str, Any]:
    found = record(system, list(chosen.values()), duration, DT)
    return {
        kind: trajectory_numbers(course) | {"gain": GAINS[chosen[kind][0]]}
        for kind, course in zip(chosen, found, strict=True)
    }


def trajectory_numbers(course: Trajectory, points: int = 250) -> dict[str, Any]:
    """Thinned, with the hidden rates that move most, as differences from where they began."""
    moved = course.r - course.r[0]
    most = moved.abs().amax(0).topk(min(SHOWN, moved.shape[1])).indices
    every = max(1, len(course.t) // points)
    return {
        "t": _short(course.t[::every]),
        "u": [_short(row) for row in course.u[::every].T],
        "r": [_short(row) for row in moved[::every, most].T],
    }


def _short(values: Tensor) -> list[float]:
    return [float(f"{v:.5g}") for v in values.tolist()]


def slope(steps: Sequence[float], losses: Sequence[Sequence[float]], beta: int) -> float:
    """d log loss / d log step between a quarter and a half of the way, where the rate is still full."""
    a, b = LOOKS // 4, LOOKS // 2
    return math.log(losses[b][beta] / losses[a][beta]) / math.log(steps[b] / steps[a])


def judge(numbers: Numbers) -> list[Claim]:
    free = [seed["0"] for seed in numbers["descent"]]
    V = array([[found["V"][0], found["V"][-1]] for found in free])
    foreseen, log_f = ([found[name] for found in free] for name in ("foreseen", "log_f"))
    left = V[:, 1] / V[:, 0]
    return [
        Claim(
            "V = 1/2 |psi*|^2 falls along theta' = -dH/dtheta (beta = 0).",
            "Lyapunov function",
            f"gradient descent: V {V[:, 0].mean():.3g} to {V[:, 1].mean():.2g} in {len(free[0]['V']) - 1} steps, "
            f"{sum(found['rises'] for found in free)} of them upwards; a step changes V by {mean_std(foreseen, 2)} of "
            "what the theorem foresees (median)",
            verdict(all(found["rises"] == 0 for found in free), within(foreseen, 0.85, 1.15)),
        ),
        Claim(
            "Without preservation it rests where log f = 0.",
            "corollary, beta = 0",
            f"V, half the square of log(f/phi), is down to {mean_std(100 * left, 2)} % of its start; of the rates that "
            f"are on the mean |log f| is {mean_std(log_f, 2)}",
            verdict(above(0.2, left), above(0.05, log_f)),
        ),
        _balance_claim(numbers),
        _reach_claim(numbers),
        _settling_claim(numbers),
        _single_claim(numbers),
    ]


def _balance_claim(numbers: Numbers) -> Claim:
    held = {beta: [seed[beta] for seed in numbers["descent"]] for beta in numbers["descent"][0] if beta != "0"}
    left = {beta: array([found["V"][-1] / found["V"][0] for found in seeds]) for beta, seeds in held.items()}
    strong = _strong(numbers)
    size = {name: array([seed["all"]["one"][name] for seed in numbers["rest"]])[:, strong] for name in ("psi", "sum")}
    size = {name: values / array([seed["all"]["one"]["gamma"] for seed in numbers["rest"]])[:, strong]
            for name, values in size.items()}  # fmt: skip
    exact = "; ".join(
        f"beta {b}: V {mean_std(100 * v, 2)} %, |gamma| {mean_std([found['gamma'] for found in held[b]], 2)}"
        for b, v in left.items()
    )
    return Claim(
        "With preservation it rests where log f = -gamma, that is, psi = 0.",
        "convergence theorem, beta > 0",
        f"exact descent of |psi*|^2: {exact}. Local rule, one sample, every weight important, at rest: |psi| / "
        f"|gamma| = {mean_std(size['psi'][:, -1])}, |psi + gamma| / |gamma| at most {size['sum'].max():.0e} (psi = "
        "-gamma, f = phi, is the proof's other branch)",
        verdict(every(above(0.2, v) for v in left.values()), every(above(0.1, v) for v in size["psi"].T)),
    )


def _reach_claim(numbers: Numbers) -> Claim:
    strong = _strong(numbers)
    ends = {name: array([seed[name]["loss_one"][-1] for seed in numbers["rest"]]) for name in IMPORTANCE}
    slopes = {
        name: array(
            [[slope(seed[name]["steps"], seed[name]["loss_one"], k) for k in strong] for seed in numbers["rest"]]
        )
        for name in IMPORTANCE
    }
    floors, reached = (", ".join(f"{ends[name][:, k].mean():.2g}" for k in strong) for name in ("all", "A"))
    betas = ", ".join(f"{numbers['betas'][k]:g}" for k in strong)
    stuck = {name: every(within(v, -0.1, 0.1) for v in values.T) for name, values in slopes.items()}
    return Claim(
        "With beta not zero the perfectly learned state cannot be reached.",
        "corollary, beta not 0",
        f"local rule, one sample, beta {betas}: loss {reached}, going as step^{slopes['A'].mean():.1f}, with task "
        f"A's own Fisher, which is zero for the new classes' outputs (beta 0: {ends['A'][:, 0].mean():.1g}); with "
        f"every weight important {floors}, going as step^{slopes['all'].mean():.1g}",
        verdict(
            every((stuck["all"], *(above(ratios(ends["all"][:, k], ends["all"][:, 0]), math.log(10)) for k in strong))),
            stuck["A"],
        ),
    )


def _settling_claim(numbers: Numbers) -> Claim:
    settled, exists = (array(numbers["shares"][name]) for name in ("settled", "rest_exists"))
    gains = numbers["gains"]
    good = [gain for gain, share in zip(gains, settled.mean(0), strict=True) if share >= 0.99]
    middle = gains.index(min(gains, key=lambda gain: abs(math.log(gain / 10))))
    at = [f"{100 * settled[:, k].mean():.0f} %" for k in (middle, -1)]
    found = [f"{100 * exists[:, k].mean():.0f}" for k in (middle, -1)]
    nearly = [above(share, 0.99) for share in settled.T]
    return Claim(
        "The activity converges to the equilibrium.",
        "guaranteed under mild contractivity",
        f"at least 99 % of samples settle up to kappa = {max(good, default=0):.2g} (shipped: {KAPPA:g}); at "
        f"{gains[middle]:g} {at[0]}, at {gains[-1]:g} {at[1]}, although Newton's method finds a rest point for "
        f"{found[0]} and {found[1]} %",
        verdict(nearly[0], every(nearly)),
    )


def _single_claim(numbers: Numbers) -> Claim:
    elsewhere = array(numbers["shares"]["several"])
    gains, worst = numbers["gains"], int(elsewhere.mean(0).argmax())
    hardly = [above(0.01, share) for share in elsewhere.T]
    return Claim(
        "There is one equilibrium, whatever the start.",
        "spoken of as the equilibrium",
        f"another start ends at another rest point for {100 * elsewhere[:, 0].mean():.2g} % of samples at "
        f"kappa = {gains[0]:g}, for {100 * elsewhere[:, worst].mean():.2g} % at {gains[worst]:.2g}, where it is most",
        verdict(hardly[0], every(hardly)),
    )


def _strong(numbers: Numbers) -> list[int]:
    return [k for k, beta in enumerate(numbers["betas"]) if beta > 0]


def draw(numbers: Numbers) -> Figure:
    figure = new_figure((7.0, 6.4))
    axes = figure.subplots(3, 3)
    _draw_descent(axes[0, 0], numbers["descent"][0])
    _draw_losses(axes[0, 1], numbers)
    _draw_shares(axes[0, 2], numbers)
    for column, kind in enumerate(KINDS):
        _draw_course(axes[1, column], axes[2, column], kind, numbers["trajectories"].get(kind))
    axes[1, 0].set_ylabel("$u(t)$", fontsize=8)
    axes[2, 0].set_ylabel("hidden rates $r(t) - r(0)$", fontsize=8)
    for axis in axes.flat:
        axis.tick_params(labelsize=6)
    return figure


def _draw_descent(axis: Axes, descent: dict[str, Any]) -> None:
    for k, (beta, found) in enumerate(descent.items()):
        label = "$\\beta$ = 0, gradient descent" if beta == "0" else f"$\\beta$ = {beta}, Adam"
        axis.semilogy([v / found["V"][0] for v in found["V"]], color=COLOURS[k], label=label, linewidth=1.2)
    axis.set_title("exact descent: $V / V_0$", fontsize=8)
    axis.set_xlabel("steps", fontsize=7)
    axis.legend(fontsize=6)


def _draw_losses(axis: Axes, numbers: Numbers) -> None:
    for k, beta in enumerate(numbers["betas"]):
        for name, line in (("A", "-"), ("all", ":")):
            rest = numbers["rest"][0][name]
            if beta == 0 and name == "all":
                continue  # the same
            label = f"$\\beta$ = {beta:g}" if name == "A" else None
            full = slice(1, LOOKS // 2 + 1)  # later the rate falls, and everything comes to a stop
            losses = [row[k] for row in rest["loss_batch"]][full]
            axis.loglog(rest["steps"][full], losses, line, color=COLOURS[k], label=label, linewidth=1.2)
    axis.minorticks_off()
    shown = [rest["steps"][k] for k in (1, LOOKS // 4, LOOKS // 2)]
    axis.set_xticks(shown, [str(step) for step in shown])
    axis.set_title("local rule: loss of 16 samples", fontsize=8)
    axis.set_xlabel("steps (dotted: all weights important)", fontsize=7)
    axis.legend(fontsize=5.5, ncols=2, loc="lower left")


def _draw_shares(axis: Axes, numbers: Numbers) -> None:
    labels = {"settled": "settles", "cycling": "cycles", "slow": "neither, so far", "rest_exists": "rest point exists",
              "several": "several exist"}  # fmt: skip
    lines = {"rest_exists": "k--", "several": "k:"}
    for k, (name, label) in enumerate(labels.items()):
        line = lines.get(name, "-")
        colour = {} if name in lines else {"color": COLOURS[k]}
        axis.semilogx(numbers["gains"], np.mean(numbers["shares"][name], 0), line, label=label, linewidth=1.2, **colour)
    axis.set_title("share of samples", fontsize=8)
    axis.set_xlabel("gain $\\kappa$", fontsize=7)
    axis.set_ylim(-0.03, 1.45)
    axis.set_yticks((0, 0.5, 1))
    axis.legend(fontsize=5.5, loc="upper center", ncols=2)


def _draw_course(above: Axes, below: Axes, kind: str, course: dict[str, Any] | None) -> None:
    if course is None:
        above.set_title(f"{kind}: none was found", fontsize=8)
        return
    for values, axis in ((course["u"], above), (course["r"], below)):
        for k, row in enumerate(values):
            axis.plot(course["t"], row, color=COLOURS[k % len(COLOURS)], linewidth=0.8)
        axis.set_xlim(0, 30 if kind == "settled" else course["t"][-1])
    above.set_title(f"{kind}, $\\kappa$ = {course['gain']:.2g}", fontsize=8)
    below.set_xlabel("$t / \\tau$", fontsize=7)


EXPERIMENT = Experiment(
    "equilibrium", "Where do weights and activity come to rest, with preservation and without?", measure, judge, draw
)
