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
from efc.theory.finding import Claim, Experiment, Numbers, Tell, verdict
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
IMPORTANCE = {"A": 0.0, "all": 1.0}
"""Task A's Fisher as it is, or with its mean given to every weight on top."""
GAINS = [10.0**k for k in np.arange(-1, 3.5, 0.5).tolist()]
DT, TOL, LONGEST = 0.1, 1e-3, 1500
"""Of the relaxation, in units of tau; the most steps it is given."""
KINDS = ("settled", "slow", "cycling")
SHOWN = 4
"""Hidden rates that are drawn: those that move most."""


def measure(situation: Situation, tell: Tell) -> Numbers:
    """Descents and rest points on a few samples of task B (first seed); the share of samples that settle (all)."""
    tell("descent of the least effort")
    descent = _descents(situation)
    tell("the local rule, to rest")
    rest = {name: _rest(situation, floor) for name, floor in IMPORTANCE.items()}
    tell("samples on their way")
    return {"descent": descent, "rest": rest, "betas": list(BETAS), **_activity(situation)}


def _descents(s: Situation) -> dict[str, Any]:
    """By gradient descent without preservation (the flow itself), by Adam with it (where can it go?)."""
    quick = s.scale.quick
    theta = s.theta_A[0].double()
    few = some(s.probes, 4 if quick else 8)
    y = one_hot(few.y, s.classes, theta)
    target = SURE * y + (1 - SURE) / y.shape[1]
    problem = Problem(s.layout, theta, s.sigma, few.x.double(), target)
    steps = 30 if quick else 100
    found = {"0": descent_numbers(problem, 0.01, steps)}
    for beta in BETAS[3:] if quick else BETAS[2:]:
        held = replace(problem, pull=s.pull(0, beta, theta)[0], anchor=theta)
        found[f"{beta:g}"] = descent_numbers(held, 3e-3, steps, adam=True)
    return found


def descent_numbers(problem: Problem, step: float, steps: int, adam: bool = False) -> dict[str, Any]:
    """V along the way, and at the end the size of psi, of gamma and of log f (root-mean-square over units and all)."""
    course = descend_effort(problem, step, steps, adam)
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


def _rest(s: Situation, floor: float) -> dict[str, Any]:
    """The local rule on one sample at a time, and on a batch; a run per strength."""
    theta = s.theta_A[0].double()
    pulls = s.pull(0, BETAS, theta, floor=floor)
    steps = 240 if s.scale.quick else 800
    K, singles = len(BETAS), 2
    part = some(s.probes, 16)
    x, y = part.x.double(), one_hot(part.y, s.classes, theta)
    one_x, one_y = (t[:singles].repeat_interleave(K, 0).unsqueeze(1) for t in (x, y))
    alone = follow_local_rule(s, theta, pulls.repeat(singles, 1), one_x, one_y, steps)
    all_x, all_y = (t.expand(K, *t.shape).contiguous() for t in (x, y))
    batch = follow_local_rule(s, theta, pulls, all_x, all_y, steps)
    return {
        "steps": [round(k * steps / LOOKS) for k in range(LOOKS + 1)],
        "one": {k: v.view(singles, K).mean(0).tolist() for k, v in balance(alone.solution).items()},
        "batch": {k: v.tolist() for k, v in balance(batch.solution).items()},
        "loss_one": alone.loss.view(-1, singles, K).mean(1).tolist(),
        "loss_batch": batch.loss.tolist(),
    }


def _activity(s: Situation) -> dict[str, Any]:
    """Shares of samples by how their search ended, against the gain; three of them with their course."""
    theta = visited(s, "EFC", WAY, [WAY], s.scale.lr, BETA)[0]
    gains = torch.tensor(GAINS, dtype=torch.float64, device=s.device)
    one = torch.ones_like(gains)
    shares: dict[str, list[list[float]]] = {}
    trajectories: dict[str, Any] = {}
    for run in range(min(s.runs, 1 if s.scale.quick else 3)):
        system = sweep_system(s, run, theta[run], LAMBDA * one, BETA * one, gains)
        relaxed, root = solve_both(system)
        for name, share in outcome(relaxed, root).items():
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
    free = numbers["descent"]["0"]
    V = free["V"]
    return [
        Claim(
            "V = 1/2 |psi*|^2 falls along theta' = -dH/dtheta (beta = 0).",
            "Lyapunov function",
            f"gradient descent: V {V[0]:.3g} to {V[-1]:.2g} in {len(V) - 1} steps, {free['rises']} of them upwards; a "
            f"step changes V by {free['foreseen']:.2f} of what the theorem foresees (median)",
            verdict(free["rises"] == 0, abs(free["foreseen"] - 1) < 0.15),
        ),
        Claim(
            "Without preservation it rests where log f = 0.",
            "corollary, beta = 0",
            f"V, half the square of log(f/phi), is down to {100 * V[-1] / V[0]:.2g} % of its start; of the rates that "
            f"are on the mean |log f| is {free['log_f']:.2f}",
            verdict(V[-1] < 0.2 * V[0], free["log_f"] < 0.05),
        ),
        _balance_claim(numbers),
        _reach_claim(numbers),
        _settling_claim(numbers),
    ]


def _balance_claim(numbers: Numbers) -> Claim:
    held = {beta: found for beta, found in numbers["descent"].items() if beta != "0"}
    left = {beta: found["V"][-1] / found["V"][0] for beta, found in held.items()}
    rest = numbers["rest"]["all"]["one"]
    ratios = [(rest["psi"][k] / rest["gamma"][k], rest["sum"][k] / rest["gamma"][k]) for k in _strong(numbers)]
    exact = "; ".join(f"beta {b}: V {100 * v:.1g} %, |gamma| {held[b]['gamma']:.2g}" for b, v in left.items())
    return Claim(
        "With preservation it rests where log f = -gamma, that is, psi = 0.",
        "convergence theorem, beta > 0",
        f"exact descent of |psi*|^2: {exact}. Local rule, one sample, every weight important, at rest: |psi| / "
        f"|gamma| = {ratios[-1][0]:.2f}, |psi + gamma| / |gamma| at most {max(s for _, s in ratios):.0e} (psi = "
        "-gamma, f = phi, is the proof's other branch)",
        verdict(max(left.values()) < 0.2, max(p for p, _ in ratios) < 0.1),
    )


def _reach_claim(numbers: Numbers) -> Claim:
    strong = _strong(numbers)
    ends = {name: rest["loss_one"][-1] for name, rest in numbers["rest"].items()}
    slopes = {
        name: [slope(rest["steps"], rest["loss_one"], k) for k in strong] for name, rest in numbers["rest"].items()
    }
    floors = ", ".join(f"{ends['all'][k]:.2g}" for k in strong)
    reached = ", ".join(f"{ends['A'][k]:.2g}" for k in strong)
    betas = ", ".join(f"{numbers['betas'][k]:g}" for k in strong)
    return Claim(
        "With beta not zero the perfectly learned state cannot be reached.",
        "corollary, beta not 0",
        f"local rule, one sample, beta {betas}: loss {reached}, going as step^{np.mean(slopes['A']):.1f}, with task "
        f"A's own Fisher, which is zero for the new classes' outputs (beta 0: {ends['A'][0]:.1g}); with every weight "
        f"important {floors}, going as step^{np.mean(slopes['all']):.1g}",
        verdict(
            all(ends["all"][k] > 10 * ends["all"][0] for k in strong) and max(map(abs, slopes["all"])) < 0.1,
            max(map(abs, slopes["A"])) < 0.1,
        ),
    )


def _settling_claim(numbers: Numbers) -> Claim:
    settled = np.mean(numbers["shares"]["settled"], 0)
    exists = np.mean(numbers["shares"]["rest_exists"], 0)
    gains = numbers["gains"]
    good = [gain for gain, share in zip(gains, settled, strict=True) if share >= 0.99]
    middle = gains.index(min(gains, key=lambda gain: abs(math.log(gain / 10))))
    return Claim(
        "The activity converges to the equilibrium.",
        "guaranteed under mild contractivity",
        f"at least 99 % of samples settle up to kappa = {max(good, default=0):.2g} (shipped: {KAPPA:g}); at "
        f"{gains[middle]:g} {100 * settled[middle]:.0f} %, at {gains[-1]:g} {100 * settled[-1]:.0f} %, although "
        f"Newton's method finds a rest point for {100 * exists[middle]:.0f} and {100 * exists[-1]:.0f} %",
        verdict(settled[0] >= 0.99, bool((settled >= 0.99).all())),
    )


def _strong(numbers: Numbers) -> list[int]:
    return [k for k, beta in enumerate(numbers["betas"]) if beta > 0]


def draw(numbers: Numbers) -> Figure:
    figure = new_figure((7.0, 6.4))
    axes = figure.subplots(3, 3)
    _draw_descent(axes[0, 0], numbers["descent"])
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
            rest = numbers["rest"][name]
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
    labels = {"settled": "settles", "cycling": "cycles", "slow": "neither, so far", "rest_exists": "rest point exists"}
    for k, (name, label) in enumerate(labels.items()):
        line = "k--" if name == "rest_exists" else "-"
        colour = {} if name == "rest_exists" else {"color": COLOURS[k]}
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
