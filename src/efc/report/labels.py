"""Words about rows of results that table, page and figures share: what a row is called, and what to warn of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from efc.files import Json
from efc.runs.results import ResultRow, Results

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
        if row.diverged:
            found.append(f"Warning: {name}: seeds {row.diverged} diverged; all their answers count as wrong")
        if row.unsettled is not None and row.unsettled.mean > 0.05:
            share = f"{100 * row.unsettled.mean:.0f} %"
            found.append(
                f"Warning: {name}: {share} of the samples found no equilibrium; try a smaller efc.kappa or newton"
            )
    if len({row.head for row in results.rows}) > 1 and not _crossed(results):
        found.append(
            "Note: the methods differ in their head policy; compare them on equal terms with --head least_squares"
        )
    return found


def _crossed(results: Results) -> bool:
    """Whether every method is there with every head policy."""
    pairs = {(row.method, row.head) for row in results.rows}
    return len(pairs) == len({m for m, _ in pairs}) * len({h for _, h in pairs})
