"""What ``suite.py`` measured: scores, the lines of its summary, its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from efc.training.loop import EPOCHS

OTHERS = ("analytic", "activity", "ewc", "online_ewc", "si", "mas", "frozen", "efc-paper", "sgd")
"""Our other methods that keep no samples."""
COLLAPSE = 20.0
"""Points under ridge that count as a collapse."""


@dataclass(frozen=True)
class Setting:
    """How the data of a problem are presented."""

    per_task: int
    standardised: bool
    epochs: int = EPOCHS


@dataclass(frozen=True)
class Score:
    """One estimator on one problem: for each seed that did not raise per cent, calibration error, what that would be if
    the probabilities were exact, answered classes."""

    estimator: str
    setting: Setting
    accuracies: list[float] = field(default_factory=list)
    calibration: list[float] = field(default_factory=list)
    calibration_at_best: list[float] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        """Over all seeds; one that raised counts as zero."""
        return sum(self.accuracies) / max(1, len(self.accuracies) + len(self.failures))


def together(scores: Sequence[Score]) -> list[Score]:
    """Scores of single seeds as one for each estimator and setting."""
    found: dict[tuple[str, Setting], Score] = {}
    for one in scores:
        key = (one.estimator, one.setting)
        if key in found:
            lists = ("accuracies", "calibration", "calibration_at_best", "answered", "failures")
            sums = {name: getattr(found[key], name) + getattr(one, name) for name in (*lists, "seconds")}
            found[key] = replace(one, **sums)
        else:
            found[key] = one
    return list(found.values())


@dataclass(frozen=True)
class Result:
    """All that was measured on one problem, or why nothing was."""

    name: str
    about: Mapping[str, Any] = field(default_factory=dict)
    scores: Sequence[Score] = ()
    missing: str = ""

    def score(self, estimator: str, setting: Setting) -> Score | None:
        return next((s for s in self.scores if (s.estimator, s.setting) == (estimator, setting)), None)


@dataclass(frozen=True)
class Plan:
    """What is to be measured on every problem."""

    suite: str
    seeds: int
    main: Setting
    estimators: tuple[str, ...]
    compare: bool

    @property
    def other_scale(self) -> Setting:
        return replace(self.main, standardised=not self.main.standardised)

    @property
    def other_size(self) -> Setting:
        return replace(self.main, per_task=2 if self.main.per_task == 1 else 1)

    def longer(self, times: int) -> Setting:
        return replace(self.main, epochs=times * self.main.epochs)

    def pairs(self) -> list[tuple[str, Setting]]:
        """Estimators and settings, those that take long first."""
        compared = self.compare and "efc" in self.estimators
        others = (self.longer(4), self.longer(2), self.other_scale, self.other_size) if compared else ()
        return [("efc", setting) for setting in others] + [(name, self.main) for name in self.estimators]


def collapsed(result: Result, setting: Setting) -> str:
    """Why EFC's result on this problem counts as a collapse; empty if it does not."""
    efc, ridge = result.score("efc", setting), result.score("ridge", setting)
    if efc is None:
        return ""
    reasons = []
    if efc.failures:
        reasons.append("raised")
    if 1 in efc.answered:
        reasons.append(f"one class ({efc.answered.count(1)} of {len(efc.answered)})")
    if ridge is not None and not ridge.failures and efc.mean < ridge.mean - COLLAPSE:
        reasons.append(f"{ridge.mean - efc.mean:.0f} under ridge")
    return ", ".join(reasons)


def differences(results: Sequence[Result], one: tuple[str, Setting], two: tuple[str, Setting]) -> dict[str, float]:
    """By how many points ``one`` leads ``two`` on each problem where both were measured, and ``two`` never raised."""
    pairs = ((result.name, result.score(*one), result.score(*two)) for result in results)
    return {name: a.mean - b.mean for name, a, b in pairs if a is not None and b is not None and not b.failures}


def best_other(results: Sequence[Result], plan: Plan) -> str | None:
    """Of our other methods the one with the highest mean over all problems."""
    found = {name: [s.mean for result in results if (s := result.score(name, plan.main))] for name in OTHERS}
    means = {name: float(np.mean(scores)) for name, scores in found.items() if scores}
    return max(means, key=lambda name: means[name]) if means else None


def summarise(results: Sequence[Result], plan: Plan, other: str | None) -> dict[str, Any]:
    """The lines of the goals; a line is missing where what it compares was not measured."""
    there = [result for result in results if not result.missing]
    if not there or "efc" not in plan.estimators:
        return {}
    chosen = other or best_other(there, plan)
    scale, size = ("raw", "standardised"), (plan.main.per_task, plan.other_size.per_task)
    lines = {
        "EFC minus ridge": ("ridge", plan.main),
        "EFC minus ridge_cv": ("ridge_cv", plan.main),
        f"EFC minus {chosen} ({'given by --other' if other else 'best other method on these very sets'})": (
            chosen or "",
            plan.main,
        ),
        f"EFC on {scale[plan.main.standardised]} minus {scale[not plan.main.standardised]} inputs": (
            "efc",
            plan.other_scale,
        ),
        f"EFC with {size[0]} minus {size[1]} classes a task": ("efc", plan.other_size),
        **{f"EFC after {EPOCHS} minus {times * EPOCHS} epochs": ("efc", plan.longer(times)) for times in (2, 4)},
    }
    summary: dict[str, Any] = {"sets": len(there), "other": chosen}
    for title, against in lines.items():
        if found := differences(there, ("efc", plan.main), against):
            least, most = (pick(found, key=lambda name: found[name]) for pick in (min, max))
            summary[title] = {
                "mean": float(np.mean(list(found.values()))),
                "sets": len(found),
                "worst": [least, found[least]],
                "best": [most, found[most]],
                "largest": max(map(abs, found.values())),
            }
    if known := calibrations(there, plan):
        worst = max(known, key=lambda name: known[name])
        at_best = calibrations(there, plan, "calibration_at_best")
        summary["calibration"] = {
            "error": float(np.mean(list(known.values()))),
            "at_best": float(np.mean(list(at_best.values()))) if at_best else None,
            "worst": [worst, known[worst]],
        }
    summary["collapses"] = {result.name: why for result in there if (why := collapsed(result, plan.main))}
    return summary


def calibration_of(result: Result, plan: Plan, kind: str = "calibration") -> float | None:
    """EFC's expected calibration error in the main setting, or what it would be at best; mean over the seeds."""
    score = result.score("efc", plan.main)
    errors = getattr(score, kind) if score else []
    return float(np.mean(errors)) if errors else None


def calibrations(results: Sequence[Result], plan: Plan, kind: str = "calibration") -> dict[str, float]:
    """Those of all problems where they were measured."""
    found = {result.name: calibration_of(result, plan, kind) for result in results}
    return {name: error for name, error in found.items() if error is not None}


def cell(score: Score | None) -> str:
    """Mean and deviation, or that it failed."""
    if score is None:
        return ""
    if not score.accuracies:
        return "failed"
    shown = f"{np.mean(score.accuracies):.1f}"
    if len(score.accuracies) > 1:
        shown += f" ± {np.std(score.accuracies, ddof=1):.1f}"
    return shown + (f" ({len(score.failures)} failed)" if score.failures else "")


def table_of(results: Sequence[Result], plan: Plan) -> Table:
    """A line for each problem, a column for each estimator, and the mean of each column."""
    kind = "standardised" if plan.main.standardised else "raw"
    table = Table(title=f"{plan.suite} suite, {kind} inputs, {plan.main.per_task} classes a task, {plan.seeds} seeds")
    table.add_column("set")
    for name in (*plan.estimators, "calibration", "at best", "collapse"):
        table.add_column(name, justify="left" if name == "collapse" else "right")
    there = [result for result in results if not result.missing]
    for result in there:
        scores = [cell(result.score(name, plan.main)) for name in plan.estimators]
        errors = [calibration_of(result, plan), calibration_of(result, plan, "calibration_at_best")]
        told = ["" if error is None else f"{error:.3f}" for error in errors]
        table.add_row(result.name, *scores, *told, collapsed(result, plan.main))
    if there:
        table.add_section()
        columns = [[s.mean for r in there if (s := r.score(name, plan.main))] for name in plan.estimators]
        number = sum(bool(collapsed(result, plan.main)) for result in there)
        told = [
            f"{np.mean(known):.3f}" if (known := list(calibrations(there, plan, kind).values())) else ""
            for kind in ("calibration", "calibration_at_best")
        ]
        means = (f"{np.mean(column):.1f}" if column else "" for column in columns)
        table.add_row("mean", *means, *told, f"{number} of {len(there)}")
    return table


def show(console: Console, results: Sequence[Result], plan: Plan, summary: Mapping[str, Any]) -> None:
    """The table, the summary, and all that went wrong."""
    console.print(table_of(results, plan))
    for title, line in summary.items():
        if isinstance(line, Mapping) and "mean" in line:
            (low, least), (high, most) = line["worst"], line["best"]
            console.print(
                f"{title}: mean {line['mean']:+.1f} over {line['sets']} sets, "
                f"worst {least:+.1f} ({low}), best {most:+.1f} ({high}), largest size {line['largest']:.1f}"
            )
    if "calibration" in summary:
        name, most = summary["calibration"]["worst"]
        told = f"calibration error: mean {summary['calibration']['error']:.3f}, worst {most:.3f} ({name})"
        least = summary["calibration"]["at_best"]
        console.print(told if least is None else f"{told}; at best: mean {least:.3f}")
    for name, why in summary.get("collapses", {}).items():
        console.print(f"collapse on {name}: {why}")
    for result in results:
        if result.missing:
            console.print(f"not measured: {result.name}: {result.missing}")
        for score in result.scores:
            for message in sorted(set(score.failures)):
                console.print(f"failed: {result.name}, {score.estimator}: {message}", markup=False)


def joined(pieces: Sequence[Result], names: Sequence[str]) -> list[Result]:
    """One result for each problem, in the order of ``names``."""
    of = {name: [piece for piece in pieces if piece.name == name] for name in names}
    return [
        replace(some[0], scores=together([s for piece in some for s in piece.scores])) for some in of.values() if some
    ]
