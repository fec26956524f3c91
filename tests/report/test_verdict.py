"""The sentence about results: the best, ties, margins, against differences worked out by hand."""

from __future__ import annotations

import copy
from typing import Any

from efc.report.verdict import level, ranked, verdict
from support.records import typed

Document = dict[str, Any]


def rows(small: Document, *wanted: tuple[str, list[float]]) -> Any:
    """Rows of these methods and accuracies by seed."""
    made = []
    for method, values in wanted:
        row = copy.deepcopy(small["rows"][0])
        row |= {"method": method, "head": "least_squares", "diverged": []}
        mean = sum(values) / 3
        std = (sum((value - mean) ** 2 for value in values) / 2) ** 0.5
        row["accuracy"] = {"mean": mean, "std": std, "per_seed": values}
        made.append(row)
    return typed(small | {"rows": made}).rows


def test_ties_are_told_from_leads(small: Document) -> None:
    # Standard errors of 1 / sqrt(3): two means are level up to 2 sqrt(2 / 3) = 1.63 apart.
    low, near, best = [89.0, 90.0, 91.0], [90.6, 91.6, 92.6], [91.0, 92.0, 93.0]
    found = rows(small, ("sgd", low), ("ewc", near), ("efc", best), ("frozen", [91.0, 91.5, 92.0]), ("analytic", low))
    assert [row.method for row in ranked(found)] == ["efc", "ewc", "frozen", "sgd", "analytic"]
    assert level(found[1], found[2])
    assert not level(found[0], found[2])
    (told,) = verdict(found)
    assert told == (
        "digits, class-IL: efc with the head least_squares has the highest accuracy, 92.0 ± 1.0 %; "
        "level with it, within noise: ewc with the head least_squares (91.6), "
        "frozen with the head least_squares (91.5); "
        "+0.5 points against the control that learns features from the first task alone, within noise; "
        "+2.0 points against ridge regression."
    )


def test_one_seed_says_nothing_about_noise_and_one_row_nothing_at_all(small: Document) -> None:
    found = rows(small, ("efc", [92.0, 92.0, 92.0]), ("frozen", [93.0, 93.0, 93.0]))
    for row in found:
        row.seeds[1:] = []
    (told,) = verdict(found)
    assert "frozen with the head least_squares has the highest accuracy, 93.0 %" in told
    assert "it is itself the control" in told
    assert told.endswith("one seed alone: how much of this is noise is not known.")
    assert verdict(found[:1]) == []


def test_what_diverged_does_not_win(small: Document) -> None:
    found = rows(small, ("efc", [99.0, 99.0, 99.0]), ("sgd", [50.0, 51.0, 52.0]), ("ewc", [60.0, 61.0, 62.0]))
    found[0].diverged.extend(found[0].seeds)
    assert [row.method for row in ranked(found)] == ["ewc", "sgd", "efc"]
    assert "efc" not in verdict(found)[0]
