"""How long packs will take: timed once for each kind, and a dear choice among the options is a kind of its own."""

from __future__ import annotations

from efc.runs.config import make_config
from efc.runs.plan import Pack, expand, place_of
from efc.runs.timing import estimates


def test_a_kind_of_pack_is_timed_once_and_learned_feedback_is_another_kind() -> None:
    packs = []
    for feedback in ("jacobian", "learned"):
        config = make_config({"methods": "efc", "scenario": "class,task", "seeds": 2, "device": "cpu", "hidden": [20],
                              "efc": {"feedback": feedback, "normalise": "none"}})  # fmt: skip
        packs += [Pack(tuple(runs), place_of(config)) for runs in expand(config, "data")]
    plain, same, learned, also = estimates(packs)
    assert plain == same > 0
    assert learned == also
    assert learned != plain  # timed for itself
