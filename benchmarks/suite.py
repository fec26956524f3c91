"""How well ``EFCClassifier()`` does untuned, on two suites of data sets (``suite_data.py``), beside other classifiers.

    PYTHONPATH=src:PACKAGES python benchmarks/suite.py --suite development --json development.json
    PYTHONPATH=src:PACKAGES python benchmarks/suite.py --sets wine,vehicle --seeds 1 --estimators efc,ridge,activity

Classes come in the order of their labels, ``--per-task`` at a time, each task by one ``partial_fit``. ``ridge``,
``ridge_cv`` and ``nb`` are not continual: they are fitted once, to all training data. Figures are accuracies on the
test data in per cent, mean and deviation over the seeds; the division into training and test data is always the same.
``calibration`` is EFC's expected calibration error, mean over the seeds; ``at best`` is what the same probabilities
would show if they were exact (on few test samples that is far from 0): labels are drawn from them. A seed that raises
is recorded with its message, and counts as an accuracy of zero in the summary.

The other method that EFC is compared with is one for the whole suite, chosen on the development suite: name it with
``--other`` for the report suite. It has the same defaults as EFC: head, width, epochs, standardised inputs. For the
last lines of the summary EFC also learns inputs of the other scale, tasks of the other size, and for two and four times
as many epochs (``--no-compare``: it does not).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from sklearn.linear_model import RidgeClassifier, RidgeClassifierCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from efc.classifiers.estimators import ContinualClassifier, EFCClassifier
from efc.environment import describe_environment
from suite_data import SUITES, MissingPackageError, Split, fingerprint, split
from suite_report import OTHERS, Plan, Result, Score, Setting, joined, show, summarise

AT_ONCE: Mapping[str, Callable[[], Any]] = {
    "ridge": lambda: make_pipeline(StandardScaler(), RidgeClassifier(alpha=1.0)),
    "ridge_cv": lambda: make_pipeline(StandardScaler(), RidgeClassifierCV(alphas=np.logspace(-3, 4, 15))),
    "nb": GaussianNB,
}
"""Fitted to all training data; no seed matters."""
ESTIMATORS = ("efc", "ridge", "ridge_cv", *OTHERS, "nb")
BINS = 15
"""Of confidence, for the expected calibration error."""


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


def fitted(name: str, data: Split, setting: Setting, seed: int) -> Any:
    """An estimator that has seen all training data, in tasks if it is continual."""
    if name in AT_ONCE:
        return AT_ONCE[name]().fit(data.x_train, data.y_train)
    kind = EFCClassifier if name == "efc" else partial(ContinualClassifier, method=name)
    return learn_in_tasks(kind(random_state=seed, epochs=setting.epochs), data, setting.per_task)


def calibration_error(probabilities: Any, classes: Any, labels: Any) -> float:
    """Expected calibration error: ``sum_b (n_b / n) |accuracy_b - confidence_b|`` over bins of confidence."""
    confidence, right = probabilities.max(1), classes[probabilities.argmax(1)] == labels
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [abs(float(np.sum(right[bins == b] - confidence[bins == b]))) for b in range(BINS)]
    return sum(gaps) / len(labels)


def calibration_at_best(probabilities: Any, draws: int = 200) -> float:
    """The expected calibration error on as many samples whose labels are drawn from these very probabilities."""
    rng, shares = np.random.default_rng(0), np.cumsum(probabilities, 1)
    classes, chosen = np.arange(probabilities.shape[1]), rng.random((draws, len(probabilities), 1))
    drawn = np.minimum((chosen > shares).sum(-1), len(classes) - 1)
    return float(np.mean([calibration_error(probabilities, classes, labels) for labels in drawn]))


def measure(name: str, data: Split, setting: Setting, seed: int) -> Score:
    """The accuracy with one seed; what raises is noted."""
    score, began = Score(name, setting), time.perf_counter()
    shown = presented(data, setting.standardised)
    try:
        model = fitted(name, shown, setting, seed)
        answers = model.predict(shown.x_test)
    except Exception as error:
        score.failures.append(f"{type(error).__name__}: {error}")
        return score
    score.accuracies.append(100 * float(np.mean(answers == shown.y_test)))
    score.answered.append(len(np.unique(answers)))
    if name not in AT_ONCE:
        probabilities = model.predict_proba(shown.x_test)
        score.calibration.append(calibration_error(probabilities, model.classes_, shown.y_test))
        score.calibration_at_best.append(calibration_at_best(probabilities))
    return replace(score, seconds=round(time.perf_counter() - began, 2))


def run_piece(name: str, estimator: str, setting: Setting, seed: int, suite: str) -> Result:
    """One estimator in one setting on one problem with one seed; may be in a process of its own."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    try:
        problem = SUITES[suite][name]()
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
    return Result(name, about, [measure(estimator, data, setting, seed)])


def pieces_of(names: Sequence[str], plan: Plan) -> list[Callable[[], Result]]:
    """All there is to do, those that take long first."""
    return [
        partial(run_piece, name, estimator, setting, seed, plan.suite)
        for estimator, setting in plan.pairs()
        for name in names
        for seed in range(1 if estimator in AT_ONCE else plan.seeds)
    ]


def run_all(pieces: Sequence[Callable[[], Result]], jobs: int) -> Iterator[tuple[int, Result]]:
    """The results as they come, with their places; with more than one job in worker processes."""
    if jobs <= 1:
        yield from ((place, piece()) for place, piece in enumerate(pieces))
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        places = {pool.submit(piece): place for place, piece in enumerate(pieces)}
        for done in as_completed(places):
            yield places[done], done.result()


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
    parser.add_argument("--other", choices=OTHERS, help="the other method to compare with (default: the best)")
    parser.add_argument("--no-compare", dest="compare", action="store_false", help="EFC in the main setting alone")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--json", type=Path, help="write everything to this file, after every piece")
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
    pieces, done = pieces_of(names, plan), dict[int, Result]()
    results: list[Result] = []
    for place, result in run_all(pieces, given.jobs):
        done[place] = result
        results = joined([done[place] for place in sorted(done)], names)
        console.print(f"{len(done)} of {len(pieces)}: {result.name}", style="dim")
        if given.json:
            write(given.json, results, plan, summarise(results, plan, given.other))
    show(console, results, plan, summarise(results, plan, given.other))


if __name__ == "__main__":
    main()
