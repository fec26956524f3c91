"""How long packs will take: dear kinds are timed, once each; the others follow from what they have to do."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from efc.data import load
from efc.runs.config import make_config
from efc.runs.plan import Pack, expand, place_of
from efc.runs.timing import Kind, _reckoned, _time, _work, estimates


def packs(**settings: object) -> list[Pack]:
    """One for each row."""
    common = {"head": "zero", "scenario": "class", "seeds": 2, "device": "cpu", "hidden": [20], "validation": 0.1}
    config = make_config(common | settings)
    return [Pack(tuple(runs), place_of(config)) for runs in expand(config, "data")]


def test_a_kind_of_pack_is_timed_once_and_learned_feedback_is_another_kind() -> None:
    several = [
        pack
        for feedback in ("jacobian", "learned")
        for pack in packs(methods="efc", scenario="class,task", efc={"feedback": feedback, "normalise": "none"})
    ]
    plain, same, learned, also = estimates(several, budget=math.inf)
    assert plain == same > 0
    assert learned == also
    assert learned != plain  # timed for itself


def test_twice_the_epochs_or_the_runs_take_twice_as_long() -> None:
    (short,), (long,), (more,) = packs(epochs=3, methods="sgd"), packs(epochs=6, methods="sgd"), packs(
        epochs=3, methods="sgd", seeds=4
    )  # fmt: skip
    found = estimates([short, long, more])
    assert found[0] > 0
    assert found[1:] == pytest.approx([2 * found[0]] * 2)


def test_work_is_steps_and_weights() -> None:
    data = load("digits")
    sgd, joint, analytic = packs(methods="sgd,joint,analytic", head="random,analytic", epochs=4, batch_size=32)[::2][:3]
    assert (sgd.settings.method, joint.settings.method, analytic.settings.method) == ("sgd", "joint", "analytic")
    steps = 4 * len(data.y_train) * 0.9 / 32
    weights = 2 * (64 * 20 + 20 * 10)
    assert _work(sgd, data) == pytest.approx((steps, weights))
    assert _work(joint, data) == pytest.approx((3 * steps, weights))  # five tasks: one, two, ... five of them at a time
    assert _work(analytic, data).steps == pytest.approx(steps / 4)  # takes no steps


def test_when_the_time_is_up_one_kind_has_been_timed_and_all_are_estimated() -> None:
    several = packs(methods="sgd,ewc,efc,derpp")
    data = load("digits")
    rates: dict[Kind, float] = {}
    _time(several, {pack.id: _work(pack, data) for pack in several}, rates, until=-math.inf)
    assert len(rates) == 1
    assert all(seconds > 0 for seconds in estimates(several, budget=0))


def test_what_was_not_timed_is_reckoned_from_its_parts() -> None:
    methods, places = {"efc": 3.0, "sgd": 1.0, "derpp": 2.0}, {"mnist": 1e-9, "tiny": 4e-10, "digits": 2e-8}
    every: Mapping[Kind, float] = {(m, p): a * b for m, a in methods.items() for p, b in places.items()}
    away = {("efc", "tiny"), ("derpp", "digits")}
    timed = {kind: rate for kind, rate in every.items() if kind not in away}
    found = _reckoned(timed, away)
    assert found.keys() == away
    for kind, rate in found.items():
        assert rate == pytest.approx(every[kind], rel=0.15)
    assert _reckoned({("bad", "mnist"): 0.0}, away) == dict.fromkeys(away, 0.0)  # the only one that was timed failed
