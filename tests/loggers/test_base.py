"""Names of runs for people and for files."""

from __future__ import annotations

import re
from dataclasses import replace

from efc.loggers.base import title
from efc.runs.identity import Run
from support.logs import by_hand


def test_a_title_says_what_ran_and_is_a_file_name() -> None:
    assert title(by_hand(seed=7)[0]) == "npz-my-data.npz-class-ewc-random-seed7"


def test_a_class_of_ones_own_goes_by_its_name_and_a_long_title_keeps_its_end() -> None:
    settings = by_hand()[0].settings
    assert "-Mine-" in title(Run.of(replace(settings, method="some.module:Mine")))
    long = title(Run.of(replace(settings, dataset="folder:/" + "a/" * 200)))
    assert len(long) == 120
    assert long.endswith("-class-ewc-random-seed0")
    assert re.fullmatch(r"[\w.@+-]+", long)
