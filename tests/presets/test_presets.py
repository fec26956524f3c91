"""Shipped options: one entry for every method, chosen with equal budgets; heads that refine another take its entry."""

from __future__ import annotations

from efc.learners import HEADS, LEARNERS
from efc.runs.config import make_config
from efc.streams import SCENARIOS

MEMORY = ("efc", "activity", "activity_ewc")
RIVALS = ("kfac", "ncl", "owm", "gpm", "lwf")
LATER = (*MEMORY, *RIVALS, "slda")
"""Methods that came later, searched with 48 settings and a run-off."""


def test_every_method_has_a_preset_chosen_with_the_same_budget() -> None:
    from efc.presets import _load

    tried = set()
    for scenario in SCENARIOS:
        for method in set(LEARNERS) - set(LATER):
            for head in set(LEARNERS[method].heads) - {"zero", "compensated", "input_compensated", "gaussian"}:
                entry = _load("digits")[scenario][method][head]
                tried.add(entry["settings_tried"])
                make_config({"scenario": scenario, "methods": method, "head": head})
    assert tried == {192}


def test_what_came_with_remembered_activity_has_a_preset_with_a_budget_of_its_own() -> None:
    from efc.presets import _load

    for scenario, heads in (("class", set(HEADS) - {"random", "gaussian"}), ("task", {"zero", "least_squares"})):
        for method in MEMORY:
            for head in heads:
                assert _load("digits")[scenario][method][head]["settings_tried"] == 48


def test_the_rivals_have_presets_for_the_best_of_three_heads() -> None:
    from efc.presets import _load

    for column in ("digits",):
        for method in RIVALS:
            for head in ("zero", "least_squares", "input_compensated"):
                assert _load(column)["class"][method][head]["settings_tried"] == 48
            assert _load(column)["task"][method]["zero"]["settings_tried"] == 48
        for scenario in ("class", "task"):
            assert _load(column)[scenario]["slda"]["analytic"]["settings_tried"] == 48


def test_a_head_that_refines_another_takes_what_was_chosen_for_that_one() -> None:
    """Unless it has an entry of its own, as on MNIST."""
    heads = ["gaussian", "input_compensated", "compensated", "analytic"]
    for dataset, same in (("digits", True), ("mnist", False)):
        rows = make_config({"dataset": dataset, "methods": "ewc", "head": heads}).rows
        found = [{k: getattr(row.options, k) for k in ("lr", "strength")} for row in rows]
        assert found[0] == found[1]
        assert (found[1] == found[2] == found[3]) == same
        assert found[2] != {k: getattr(LEARNERS["ewc"].options_type(), k) for k in ("lr", "strength")}
