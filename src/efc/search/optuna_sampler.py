"""The `optuna` sampler: TPE in batches on the run axis, pruning after a quarter of the epochs. Optuna is optional."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from efc.errors import EFCError, MissingError
from efc.search.samplers import Scorer, Tried
from efc.search.space import Axis, Space, bounds, is_choice

if TYPE_CHECKING:
    import optuna

BATCH = 16
"""Trials that are asked for, and trained, together."""


def optuna_search(space: Space, trials: int, epochs: int, score: Scorer, storage: str, name: str) -> Tried:
    """Ask for a batch, train it for a quarter of the epochs, prune, train the rest to the end, tell; until enough."""
    try:
        import optuna
    except ImportError:
        raise MissingError("--sampler", "optuna", "optuna") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        study = optuna.create_study(
            storage=storage,
            study_name=name,
            direction="maximize",
            load_if_exists=True,
            sampler=optuna.samplers.TPESampler(seed=0, constant_liar=True, n_startup_trials=BATCH),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=BATCH // 2, n_min_trials=4),
        )
    except Exception as problem:  # whatever a storage's driver raises
        raise EFCError(f"--storage: cannot open {storage}: {type(problem).__name__}: {problem}") from None
    states = optuna.trial.TrialState
    for left in study.get_trials(states=(states.RUNNING,)):
        study.tell(left.number, state=states.FAIL)  # asked for by a process that is gone
    while (lacking := trials - len(study.get_trials(states=(states.COMPLETE, states.PRUNED)))) > 0:
        _batch(study, space, min(BATCH, lacking), epochs, score)
    ended = study.get_trials(states=(states.COMPLETE, states.PRUNED))
    return [(t.value if t.value is not None else _last(t), dict(t.params)) for t in ended]


def _batch(study: optuna.Study, space: Space, n: int, epochs: int, score: Scorer) -> None:
    from optuna.trial import TrialState

    asked = [study.ask() for _ in range(n)]
    settings = [{axis: _suggest(trial, axis, space[axis]) for axis in space} for trial in asked]
    short = max(1, epochs // 4)
    for trial, value in zip(asked, score(settings, short), strict=True):
        trial.report(value, short)
    kept = [k for k, trial in enumerate(asked) if not trial.should_prune()]
    final = dict(zip(kept, score([settings[k] for k in kept], epochs) if kept else [], strict=True))
    for k, trial in enumerate(asked):
        if k in final and math.isfinite(final[k]):
            study.tell(trial, final[k])
        else:
            study.tell(trial, state=TrialState.PRUNED if k not in final else TrialState.FAIL)


def _suggest(trial: optuna.Trial, name: str, axis: Axis) -> float | str:
    if is_choice(axis):
        return str(trial.suggest_categorical(name, list(axis)))
    return float(trial.suggest_float(name, *bounds(axis), log=True))


def _last(trial: optuna.trial.FrozenTrial) -> float:
    """A pruned trial's score is what it had when it was pruned."""
    values = trial.intermediate_values
    return float(values[max(values)]) if values else float("-inf")
