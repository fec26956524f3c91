"""How well ``EFCClassifier()`` does untuned, on two suites of data sets (``suite_data.py``), beside other classifiers.

    PYTHONPATH=src:PACKAGES python benchmarks/suite.py --suite development --json development.json
    PYTHONPATH=src:PACKAGES python benchmarks/suite.py --sets wine,vehicle --seeds 1 --estimators efc,ridge,activity

Classes come in the order of their labels, ``--per-task`` at a time, each task by one ``partial_fit``. ``ridge``,
``ridge_cv`` and ``nb`` are not continual: they are fitted once, to all training data. Figures are accuracies on the
test data in per cent, mean and deviation over the seeds; the division into training and test data is always the same.
A seed that raises is recorded with its message, and counts as an accuracy of zero in the summary.

The other method that EFC is compared with is one for the whole suite, chosen on the development suite: name it with
``--other`` for the report suite. For the last lines of the summary EFC also learns inputs of the other scale, and tasks
of the other size (``--no-compare``: it does not).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import RidgeClassifier, RidgeClassifierCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from efc.classifiers.estimators import ContinualClassifier, EFCClassifier
from efc.environment import describe_environment
from suite_data import SUITES, MissingPackageError, Split, fingerprint, split

Make = Callable[[int], Any]

OTHERS: Mapping[str, Make] = {
    "analytic": lambda seed: ContinualClassifier(method="analytic", random_state=seed),
    "activity": lambda seed: ContinualClassifier(method="activity", random_state=seed),
    "activity_compensated": lambda seed: ContinualClassifier(
        method="activity", head="input_compensated", random_state=seed
    ),
    "ewc": lambda seed: ContinualClassifier(method="ewc", random_state=seed),
    "frozen": lambda seed: ContinualClassifier(method="frozen", random_state=seed),
    "efc-paper": lambda seed: ContinualClassifier(method="efc-paper", random_state=seed),
    "sgd": lambda seed: ContinualClassifier(method="sgd", random_state=seed),
}
"""Our other methods that keep no samples, with their own defaults."""
CONTINUAL: Mapping[str, Make] = {"efc": lambda seed: EFCClassifier(random_state=seed), **OTHERS}
AT_ONCE: Mapping[str, Callable[[], Any]] = {
    "ridge": lambda: make_pipeline(StandardScaler(), RidgeClassifier(alpha=1.0)),
    "ridge_cv": lambda: make_pipeline(StandardScaler(), RidgeClassifierCV(alphas=np.logspace(-3, 4, 15))),
    "nb": GaussianNB,
}
"""Fitted to all training data; no seed matters."""
ESTIMATORS = ("efc", "ridge", "ridge_cv", *OTHERS, "nb")
COLLAPSE = 20.0
"""Points under ridge that count as a collapse."""


@dataclass(frozen=True)
class Setting:
    """How the data of a problem are presented."""

    per_task: int
    standardised: bool


@dataclass(frozen=True)
class Score:
    """One estimator on one problem: per cent and answered classes for each seed that did not raise."""

    estimator: str
    setting: Setting
    accuracies: list[float] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        """Over all seeds; one that raised counts as zero."""
        return sum(self.accuracies) / max(1, len(self.accuracies) + len(self.failures))


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

    def pairs(self) -> list[tuple[str, Setting]]:
        """Estimators and settings, in the order in which they are measured."""
        others = (self.other_scale, self.other_size) if self.compare and "efc" in self.estimators else ()
        return [(name, self.main) for name in self.estimators] + [("efc", setting) for setting in others]


def presented(data: Split, standardised: bool) -> Split:
    """The inputs as they are, or standardised by all training data beforehand."""
    if not standardised:
        return data
    scaler = StandardScaler().fit(data.x_train)
    return replace(data, x_train=scaler.transform(data.x_train), x_test=scaler.transform(data.x_test))


def learn_in_tasks(classifier: Any, data: Split, per_task: int) -> Any:
    """Feed the classes in the order of their labels, ``per_task`` at a time."""
    labels = np.unique(data.y_train)
    for first in range(0, len(labels), per_task):
        mine = np.isin(data.y_train, labels[first : first + per_task])
        classifier.partial_fit(data.x_train[mine], data.y_train[mine])
    return classifier


def fitted(name: str, data: Split, per_task: int, seed: int) -> Any:
    """An estimator that has seen all training data, in tasks if it is continual."""
    if name in AT_ONCE:
        return AT_ONCE[name]().fit(data.x_train, data.y_train)
    return learn_in_tasks(CONTINUAL[name](seed), data, per_task)


def measure(name: str, data: Split, setting: Setting, seeds: int) -> Score:
    """Accuracy for every seed; what raises is noted and the next seed tried."""
    score, began = Score(name, setting), time.perf_counter()
    shown = presented(data, setting.standardised)
    for seed in range(1 if name in AT_ONCE else seeds):
        try:
            answers = fitted(name, shown, setting.per_task, seed).predict(shown.x_test)
        except Exception as error:
            score.failures.append(f"{type(error).__name__}: {error}")
            continue
        score.accuracies.append(100 * float(np.mean(answers == shown.y_test)))
        score.answered.append(len(np.unique(answers)))
    return replace(score, seconds=round(time.perf_counter() - began, 2))


def run_problem(name: str, plan: Plan) -> Result:
    """Everything on one problem; may be in a process of its own."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    try:
        problem = SUITES[plan.suite][name]()
    except MissingPackageError as error:
        return Result(name, missing=str(error))
    except Exception as error:  # a package of another version, say
        return Result(name, missing=f"{type(error).__name__}: {error}")
    data = split(problem)
    about = {
        "samples": len(problem.y),
        "features": problem.x.shape[1],
        "classes": len(np.unique(problem.y)),
        "train": len(data.y_train),
        "test": len(data.y_test),
        "note": problem.note,
        "source": problem.source,
        "fingerprint": fingerprint(problem),
    }
    return Result(name, about, [measure(key, data, setting, plan.seeds) for key, setting in plan.pairs()])


def run_all(names: Sequence[str], plan: Plan, jobs: int) -> Iterator[Result]:
    """The results as they come; with more than one job each problem is run in a worker process."""
    work = partial(run_problem, plan=plan)
    if jobs <= 1:
        yield from map(work, names)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(work, name) for name in names]):
            yield done.result()


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
    means = {
        name: float(np.mean([score.mean for result in results if (score := result.score(name, plan.main))]))
        for name in plan.estimators
        if name in OTHERS
    }
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
    summary["collapses"] = {result.name: why for result in there if (why := collapsed(result, plan.main))}
    return summary


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
    for name in (*plan.estimators, "collapse"):
        table.add_column(name, justify="left" if name == "collapse" else "right")
    there = [result for result in results if not result.missing]
    for result in there:
        scores = [cell(result.score(name, plan.main)) for name in plan.estimators]
        table.add_row(result.name, *scores, collapsed(result, plan.main))
    if there:
        table.add_section()
        columns = [[s.mean for r in there if (s := r.score(name, plan.main))] for name in plan.estimators]
        number = sum(bool(collapsed(result, plan.main)) for result in there)
        table.add_row("mean", *(f"{np.mean(column):.1f}" for column in columns), f"{number} of {len(there)}")
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
    for name, why in summary.get("collapses", {}).items():
        console.print(f"collapse on {name}: {why}")
    for result in results:
        if result.missing:
            console.print(f"not measured: {result.name}: {result.missing}")
        for score in result.scores:
            for message in sorted(set(score.failures)):
                console.print(f"failed: {result.name}, {score.estimator}: {message}", markup=False)


def write(path: Path, results: Sequence[Result], plan: Plan, summary: Mapping[str, Any]) -> None:
    """Everything, for programs."""
    found = [asdict(result) for result in results]
    about = {"plan": asdict(plan), "environment": describe_environment(torch.device("cpu"))}
    path.write_text(json.dumps({**about, "results": found, "summary": summary}, indent=1, default=str) + "\n")


def chosen_of(text: str | None, known: Sequence[str], what: str) -> tuple[str, ...]:
    """A list in a command line, checked; all there are if there is none."""
    names = tuple(text.split(",")) if text else tuple(known)
    if strange := [name for name in names if name not in known]:
        raise SystemExit(f"{what}: {', '.join(strange)} is unknown; there are {', '.join(known)}")
    return names


def read_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=tuple(SUITES), default="development")
    parser.add_argument("--sets", help="names, with commas between them (default: the whole suite)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--per-task", type=int, default=2, help="classes a task (default: 2)")
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--raw", dest="standardised", action="store_false", help="inputs as they are (default)")
    scale.add_argument("--standardised", action="store_true", help="inputs standardised by all training data")
    parser.add_argument("--estimators", help=f"names, with commas between them (default: {','.join(ESTIMATORS)})")
    parser.add_argument("--other", choices=tuple(OTHERS), help="the other method to compare with (default: the best)")
    parser.add_argument("--no-compare", dest="compare", action="store_false", help="EFC in the main setting alone")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes, a problem each at a time")
    parser.add_argument("--json", type=Path, help="write everything to this file, after every problem")
    parser.set_defaults(standardised=False)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    given = read_arguments(arguments)
    names = chosen_of(given.sets, tuple(SUITES[given.suite]), "--sets")
    estimators = chosen_of(given.estimators, ESTIMATORS, "--estimators")
    if given.other and given.other not in estimators:
        raise SystemExit(f"--other: {given.other} is not among the estimators that are measured")
    plan = Plan(given.suite, given.seeds, Setting(given.per_task, given.standardised), estimators, given.compare)
    console = Console()
    if not console.is_terminal:
        console = Console(width=220)
    results: list[Result] = []
    for result in run_all(names, plan, given.jobs):
        results = sorted([*results, result], key=lambda one: names.index(one.name))
        console.print(f"{len(results)} of {len(names)}: {result.name}", style="dim")
        if given.json:
            write(given.json, results, plan, summarise(results, plan, given.other))
    show(console, results, plan, summarise(results, plan, given.other))


if __name__ == "__main__":
    main()
