"""`efc.run` from Python: the shipped defaults do what the README says, whatever the solver."""

from __future__ import annotations

import pytest

import efc
from efc.config import make_config
from efc.errors import EFCError
from efc.learners import LEARNERS
from efc.presets import find_preset
from efc.streams import SCENARIOS


def mean(**settings: object) -> float:
    return float(efc.run(**settings)["rows"][0]["accuracy"]["mean"])


def test_shipped_defaults_on_split_digits() -> None:
    """Class-IL, five seeds: EFC with the least-squares head at 55 or more, SGD with the random head near 20."""
    document = efc.run(dataset="digits", methods=["efc", "sgd"], scenario="class", seeds=5)
    by_method = {row["method"]: row for row in document["rows"]}
    assert (by_method["efc"]["head"], by_method["sgd"]["head"]) == ("least_squares", "random")
    assert by_method["efc"]["accuracy"]["mean"] >= 55
    assert by_method["efc"]["unsettled"]["mean"] < 0.01
    assert 17 < by_method["sgd"]["accuracy"]["mean"] < 23


@pytest.mark.parametrize("solver", ["fixed_point", "newton", "relaxation"])
def test_the_solver_does_not_change_the_result(solver: str) -> None:
    quick = {"methods": ["efc"], "seeds": 3, "epochs": 5}
    assert abs(mean(**quick, solver=solver) - mean(**quick, solver="anderson")) <= 0.5


def test_preservation_and_head_policy_both_matter() -> None:
    quick = {"methods": ["efc"], "seeds": 3}
    full = mean(**quick)
    assert mean(**quick, head="random", efc=find_preset("digits", "class", "efc", "least_squares")) < full - 10
    assert mean(**quick, efc={"beta": 0.0}) < full - 5


def test_learned_feedback_reports_its_alignment() -> None:
    row = efc.run(methods="efc", seeds=2, epochs=1, hidden=[30], efc={"feedback": "learned"})["rows"][0]
    assert len(row["feedback_alignment"]) == 2
    assert all(cosine > 0.5 for run in row["feedback_alignment"] for cosine in run)


def test_a_listener_hears_every_epoch() -> None:
    heard: list[tuple[int, int, int]] = []
    efc.run(lambda row, *at: heard.append(at), methods="sgd", seeds=1, epochs=2, hidden=[4])
    assert heard == [(task, epoch, 2) for task in range(1, 6) for epoch in (1, 2)]


def test_every_method_has_a_preset_chosen_with_the_same_budget() -> None:
    from efc.presets import _load

    tried = set()
    for scenario in SCENARIOS:
        for method in LEARNERS:
            for head in set(LEARNERS[method].heads) - {"compensated", "input_compensated"}:
                entry = _load("digits")[scenario][method][head]
                tried.add(entry["settings_tried"])
                make_config({"scenario": scenario, "methods": method, "head": head})
    assert len(tried) == 1


def test_a_head_that_refines_another_takes_what_was_chosen_for_that_one() -> None:
    """Unless it has an entry of its own, as on MNIST."""
    heads = ["input_compensated", "compensated", "analytic"]
    for dataset, same in (("digits", True), ("mnist", False)):
        rows = make_config({"dataset": dataset, "methods": "efc", "head": heads}).rows
        found = [{k: row.options[k] for k in ("lr", "beta")} for row in rows]
        assert (found[0] == found[1] == found[2]) == same
        assert found[1] != {k: getattr(LEARNERS["efc"].options_type(), k) for k in ("lr", "beta")}


def test_a_mistake_in_the_last_row_is_found_before_the_first_is_trained() -> None:
    with pytest.raises(EFCError, match="signed activation"):
        efc.run(
            lambda *at: pytest.fail("training began"),
            methods=["sgd", "efc"],
            activation="tanh",
            efc={"feedback": "jacobian"},
        )
