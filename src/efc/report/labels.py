"""Words about rows of results that table, page and figures share: what a row is called, and what to warn of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from efc.files import Json
from efc.report.streamed import streamed
from efc.runs.results import ResultRow, Results

ONE_HEAD = ("analytic", "slda")
"""Methods that are their head, and have no other."""
SHOWN = 3
"""Differing settings named beside a method; the page has all of them further down."""


@dataclass(frozen=True)
class LabelledRow(ResultRow):
    """A row, and what tells it from others of its method, head, data set and scenario."""

    differs: str = ""


def labelled(rows: Sequence[ResultRow]) -> list[LabelledRow]:
    return [LabelledRow(**vars(row), differs=text) for row, text in zip(rows, differences(rows), strict=True)]


def method_label(row: ResultRow) -> str:
    """The method, and which variant of it."""
    return str(row.method) if row.variant == "none" else f"{row.method}@{row.variant}"


def differences(rows: Sequence[ResultRow]) -> list[str]:
    """What tells rows of one method, head, data set and scenario apart: the settings in which a row is unlike most."""
    settings = [flat(row.config) for row in rows]
    names = ("method", "variant", "head", "dataset", "encoder", "scenario", "evaluated_on")
    alike: dict[tuple[str, ...], list[int]] = {}
    for k, row in enumerate(rows):
        alike.setdefault(tuple(str(getattr(row, name)) for name in names), []).append(k)
    told = [""] * len(rows)
    for members in alike.values():
        keys = dict.fromkeys(key for k in members for key in settings[k])
        usual = {key: Counter(settings[k].get(key) for k in members).most_common(1)[0][0] for key in keys}
        for k in members:
            own = [key for key in keys if settings[k].get(key) != usual[key]]
            parts = [f"{key.removeprefix('options.')} {settings[k].get(key, 'unset')}" for key in own[:SHOWN]]
            told[k] = ", ".join(parts) + (", …" if len(own) > SHOWN else "")
    return told


def flat(settings: Mapping[str, Json], before: str = "") -> dict[str, str]:
    """Nested settings as ``options.lr: text``."""
    found: dict[str, str] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{before}{key}.")
        else:
            found[f"{before}{key}"] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return found


def warnings(results: Results) -> list[str]:
    """What a reader of the table has to know to read it rightly."""
    found = []
    for row in results.rows:
        name = f"{method_label(row)} ({row.head}, {row.scenario})"
        found += [f"Warning: {name}: {text}" for text in row.warnings]
        if row.environments:
            found.append(f"Note: {name}: its seeds come from different environments: {_places(row)}")
    found += [
        f"Failed: {one.method} ({one.head}, {one.scenario}), seed {one.seed}: {one.message}" for one in results.failed
    ]
    if not _crossed([row for row in results.rows if row.method not in ONE_HEAD]):
        head = "input_compensated" if all(map(streamed, results.rows)) else "least_squares"
        found.append(f"Note: the methods differ in their head policy; compare them on equal terms with --head {head}")
    return found


def status(row: ResultRow) -> str:
    """How the runs of a row ended; empty where all went well."""
    all_of_them = len(row.diverged) == len(row.seeds)
    diverged = ("diverged" if all_of_them else f"{len(row.diverged)} diverged") if row.diverged else ""
    failed = f"{len(row.failed)} failed" if row.failed else ""
    return ", ".join(filter(None, (diverged, failed)))


def _places(row: ResultRow) -> str:
    """Which seeds were computed with what."""
    told = []
    for place in row.environments:
        seeds = place["seeds"]
        own = ", ".join(map(str, seeds)) if isinstance(seeds, Sequence) else str(seeds)
        told.append(f"torch {place['torch']} on {place['device']}, Python {place['python']} (seeds {own})")
    return "; ".join(told)


def _crossed(rows: Sequence[ResultRow]) -> bool:
    """Whether every method is there with every head policy."""
    pairs = {(row.method, row.head) for row in rows}
    return len(pairs) == len({m for m, _ in pairs}) * len({h for _, h in pairs})
