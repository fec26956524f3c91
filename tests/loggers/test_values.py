"""The numbers and settings of a run, as every logger gets them."""

from __future__ import annotations

import math
from dataclasses import replace

from efc.loggers.values import Value, parameters, values_of
from support.logs import by_hand, expected


def test_values_are_the_finite_numbers_of_the_result() -> None:
    run, result = by_hand()
    found = values_of(run.settings.epochs, result)
    assert {(value.name, value.step): value.value for value in found} == expected(result)
    assert len({(value.name, value.step) for value in found}) == len(found)
    assert found[-1] == Value("seconds", 2, 1.5)  # by which a reader knows that a run is whole


def test_effort_counts_epochs_and_the_rest_tasks() -> None:
    run, result = by_hand()
    assert {
        value.name.partition("/")[0] for value in values_of(run.settings.epochs, result) if value.axis == "epoch"
    } == {"effort"}
    last = max(value.step for value in values_of(run.settings.epochs, result) if value.name == "effort/psi_2")
    assert last == 6  # two tasks of three epochs


def test_a_result_without_a_trace_or_with_numbers_that_are_not_finite() -> None:
    run, result = by_hand()
    result = replace(result, trace=None, metrics={"accuracy": math.nan, "forgetting": 25.0}, unsettled=None)
    names = [value.name for value in values_of(run.settings.epochs, result)]
    assert "forgetting" in names
    assert not {"accuracy", "unsettled"} & set(names)
    assert not [name for name in names if name.startswith("effort/")]


def test_settings_are_flat_and_plain() -> None:
    run, _ = by_hand(seed=3)
    found = parameters(run.settings)
    plain = run.settings.to_json()
    assert len(found) == len(plain) - 1 + len(run.settings.options.to_mapping())
    some = {"method": "ewc", "dataset": "npz:my, data.npz", "seed": 3, "hidden": "[4]", "order_seed": "none",
            "options.lr": 0.1, "options.strength": "inf"}  # fmt: skip
    assert {name: found[name] for name in some} == some
