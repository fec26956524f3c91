"""What is said beside the table."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from efc.errors import EFCError
from efc.learners import LEARNERS, find_learner
from efc.report.labels import ONE_HEAD, warnings
from support.records import typed


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([("efc", "analytic"), ("sgd", "least_squares")], True),
        ([("efc", "analytic"), ("efc", "least_squares"), ("sgd", "analytic")], True),
        ([(method, head) for method in ("efc", "sgd") for head in ("analytic", "least_squares")], False),
        ([("efc", "least_squares"), ("sgd", "least_squares")], False),
    ],
)
@pytest.mark.parametrize("ridge", [None, *ONE_HEAD])
def test_heads_that_differ_are_told_but_not_of_what_has_only_one(
    rows: list[tuple[str, str]], told: bool, ridge: str | None, small: dict[str, Any]
) -> None:
    """Some methods have the head `analytic` and no other: beside a whole grid they are no oversight."""
    made = []
    for method, head in [*rows, *([(ridge, "analytic")] if ridge else [])]:
        made.append(copy.deepcopy(small["rows"][0]) | {"method": method, "head": head})
    assert any("differ in their head policy" in text for text in warnings(typed(small | {"rows": made}))) == told


def test_those_of_one_head_are_those_that_have_one() -> None:
    assert set(ONE_HEAD) == {name for name, cls in LEARNERS.items() if len(cls.heads) == 1}


def test_the_head_that_is_named_is_one_that_can_be_had(small: dict[str, Any]) -> None:
    """`least_squares` needs tasks: of a stream without boundaries it would be refused."""
    rows = [copy.deepcopy(small["rows"][0]) | {"method": name, "head": "zero"} for name in ("efc", "sgd")]
    rows[0]["head"] = "input_compensated"
    assert any(text.endswith("--head least_squares") for text in warnings(typed(small | {"rows": rows})))
    streamed: dict[str, Any] = {"at": [8.0], "classes": ["0"], "curve": [50.0], "mix": [[8.0]], "accuracy": 50.0}
    streamed |= {"mean_adaptation": None, "microseconds": 1.0, "bytes": 8.0}
    for row in rows:
        row["stream"] = [streamed] * len(row["seeds"])
    assert any(text.endswith("--head input_compensated") for text in warnings(typed(small | {"rows": rows})))
    find_learner("sgd").check_streams("input_compensated")
    with pytest.raises(EFCError, match="least_squares"):
        find_learner("sgd").check_streams("least_squares")
