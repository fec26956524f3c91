"""Any file at all: one sentence, or a classifier with finite answers. More of them: `fuzz(folder, 5000)`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from efc.classifiers.file_format import read
from support.model_files import changed, fuzz, genuine, outcome, places, unsigned
from support.mutate import mutations
from support.planted import NAMES, Planted

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_subnormal=False)
    | st.text(max_size=5)
    | st.sampled_from(NAMES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def test_the_genuine_files_load(tmp_path: Path) -> None:
    assert {outcome(*each) for each in genuine(tmp_path)} == {"loaded"}


def test_damaged_files_are_refused_or_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    planted, path = Planted(tmp_path), list(sys.path)
    counts = fuzz(tmp_path, 144)
    assert counts.total() == 144
    assert counts["bytes: refused"] >= 34  # a checksum: what loads has been changed where nothing is kept
    assert counts["bytes without a checksum: loaded"] > 0
    assert not planted.ran
    assert sys.path == path


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> tuple[type, Path, dict[str, Any], dict[str, Any]]:
    cls, file = genuine(tmp_path_factory.mktemp("files"))[2]
    return cls, file, *read(file)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.integers(0), value=PLAIN)
def test_any_value_anywhere_in_the_description(some: Any, where: int, value: Any) -> None:
    cls, file, state, about = some
    every = places(about)
    unsigned(file, state, json.dumps(changed(about, every[where % len(every)], value)))
    outcome(cls, file)


def test_mutations_are_many_and_the_same_again() -> None:
    data = bytes(range(256)) * 4
    found = list(mutations(data, Random(1), 200))
    assert found == list(mutations(data, Random(1), 200))
    assert len({*found}) > 190
    assert sum(each == data for each in found) < 10
    assert list(mutations(b"", Random(1), 20))
