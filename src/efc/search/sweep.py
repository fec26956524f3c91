"""A search as one call: settings are tried on validation data, the best again on further seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from efc.errors import EFCError, choose
from efc.learners import find_learner
from efc.runs.config import Row, RunConfig, parse_options
from efc.runs.identity import digest
from efc.runs.session import Session
from efc.search.samplers import SAMPLERS, Scorer, Tried, ranked, run_off, search
from efc.search.space import Setting, Space, space_of

FIRST_SEED = 100
"""Trials use other seeds than results do."""

MOST_TRIALS = 10_000
"""Settings, or seeds of one, that a search may have."""


class UnfinishedError(Exception):
    """A search that was interrupted, or whose trials failed; the session says which."""


@dataclass(frozen=True)
class Budget:
    """How much a search may try.

    Args:
        trials: Settings to try.
        seeds: Seeds per setting.
        finalists: The best so many settings are tried again ...
        final_seeds: ... on so many further seeds, which decide with the first ones.
        sampler: Which settings to try: one of ``SAMPLERS``.
        storage: Where Optuna keeps its study; None: in the store's own file.
    """

    trials: int = 64
    seeds: int = 1
    finalists: int = 0
    final_seeds: int = 5
    sampler: str = "random"
    storage: str | None = None

    def __post_init__(self) -> None:
        choose("--sampler", self.sampler, SAMPLERS)
        named = (("trials", 1), ("seeds", 1), ("final_seeds", 1), ("finalists", 0))
        for name, least in named:
            value = getattr(self, name)
            if not least <= value <= MOST_TRIALS:
                bound = f"at least {least}" if value < least else f"at most {MOST_TRIALS:,}"
                raise EFCError(f"--{name.replace('_', '-')}: must be {bound}, got {value}")

    def describe(self) -> str:
        """For the preset file."""
        told = f"{self.sampler}, {self.seeds} seeds from {FIRST_SEED} on, a quarter of the training data held out"
        again = f"; the best {self.finalists} again on {self.final_seeds} further seeds"
        return told + again if self.finalists else told


def spaces(config: RunConfig, given: Space | None = None) -> list[Space]:
    """What is searched for each row of a configuration: what its method declares, unless something is given."""
    return [space_of(find_learner(row.method), row.head, given) for row in config.rows]


def sweep(session: Session, base: RunConfig, space: Space, budget: Budget) -> Tried:
    """Search a space for the one row of ``base``: all settings tried with their scores, the best first.

    Raises :class:`UnfinishedError` if the session was stopped or a trial failed; what was computed is stored, and the
    same call goes on from there.
    """
    first = range(FIRST_SEED, FIRST_SEED + budget.seeds)

    def score(settings: list[Setting], epochs: int) -> list[float]:
        return scores(session, base, settings, first, epochs)

    if budget.sampler == "optuna":
        tried = _by_optuna(session, base, space, budget, score)
    else:
        tried = search(budget.sampler, space, budget.trials, base.epochs, score)
    if not budget.finalists:
        return ranked(tried)
    further = range(first.stop, first.stop + budget.final_seeds)

    def again(settings: list[Setting]) -> list[float]:
        return scores(session, base, settings, further, base.epochs)

    return run_off(ranked(tried), budget.finalists, again, (budget.seeds, budget.final_seeds))


def scores(
    session: Session, base: RunConfig, settings: Sequence[Setting], seeds: Sequence[int], epochs: int
) -> list[float]:
    """Mean validation accuracy of every setting over the seeds."""
    session.plan([trial_config(base, settings, len(seeds), epochs)], seeds=seeds)
    session.compute()
    if session.stopped or session.failures:
        raise UnfinishedError
    found = [[session.results[run.id].metrics["accuracy"] for run in runs] for runs in session.rows]
    return [sum(values) / len(values) for values in found]


def trial_config(base: RunConfig, settings: Sequence[Setting], seeds: int, epochs: int) -> RunConfig:
    """One row per setting, measured on validation data."""
    row = base.rows[0]
    learner, options = find_learner(row.method), row.options.to_mapping()
    rows = [Row(row.method, row.head, row.scenario, parse_options(learner, options | s)) for s in settings]
    return replace(base, rows=tuple(rows), evaluate="validation", seeds=seeds, epochs=epochs)


def _by_optuna(session: Session, base: RunConfig, space: Space, budget: Budget, score: Scorer) -> Tried:
    from efc.search.optuna_sampler import optuna_search

    row = base.rows[0]
    name = digest([row.method, row.head, row.scenario, base.digest(), budget.seeds])
    folder = Path.cwd() if session.store is None else session.store.folder
    url = budget.storage or f"sqlite:///{(folder / 'efc.sqlite').resolve()}"
    return optuna_search(space, budget.trials, base.epochs, score, url, f"{row.method}-{name}")
