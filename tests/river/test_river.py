"""EFC among River's estimators: their own checks, and a stream with names for features and labels."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pytest

pytest.importorskip("river")

from river.checks import yield_checks

from efc.errors import EFCError, EFCWarning
from efc.learners.arrivals import WINDOW
from efc.river import EFCClassifier

SMALL = {"hidden": (8,)}
SLOW = ("check_bounded_memory_growth",)


def name_of(check: Any) -> str:
    return str(getattr(check, "__name__", getattr(getattr(check, "func", check), "__name__", check)))


CHECKS = [pytest.param(check, id=f"{name_of(check)}-{k}", marks=[pytest.mark.slow] if name_of(check) in SLOW else [])
          for k, check in enumerate(yield_checks(EFCClassifier(**SMALL)))]  # fmt: skip


@pytest.mark.parametrize("check", CHECKS)
def test_rivers_own_checks(check: Any) -> None:
    random.seed(0)
    check(EFCClassifier(**SMALL))


def sample(rng: random.Random, label: str) -> dict[str, float]:
    centre = {"ash": 0.0, "oak": 3.0, "yew": 6.0}[label]
    return {"height": centre + rng.gauss(0, 0.5), "girth": -centre + rng.gauss(0, 0.5)}


def test_labels_that_come_one_after_the_other_are_all_kept() -> None:
    rng, model = random.Random(0), EFCClassifier(hidden=(20,))
    assert model.predict_one({"height": 1.0}) is None
    assert model.predict_proba_one({"height": 1.0}) == {}
    for label in ("ash", "oak", "yew"):
        for _ in range(60):
            model.learn_one(sample(rng, label), label)
    told = [model.predict_one(sample(rng, label)) == label for label in ("ash", "oak", "yew") for _ in range(20)]
    assert sum(told) >= 57
    assert set(model.predict_proba_one({})) == {"ash", "oak", "yew"}


def test_a_pickle_goes_on_the_same() -> None:
    rng, model = random.Random(1), EFCClassifier(hidden=(8,))
    for n in range(30):
        model.learn_one(sample(rng, ("ash", "oak")[n % 2]), n % 2)
    other = pickle.loads(pickle.dumps(model))
    for n in range(20):
        x = sample(rng, ("ash", "yew")[n % 2])
        assert model.predict_proba_one(x) == other.predict_proba_one(x)
        model.learn_one(x, n % 2 + 1)
        other.learn_one(x, n % 2 + 1)


def test_features_that_come_too_late_are_left_out_and_told() -> None:
    pd = pytest.importorskip("pandas")
    rng, model = random.Random(2), EFCClassifier(hidden=(8,), method="slda")
    rows = [sample(rng, ("ash", "oak")[n % 2]) for n in range(WINDOW)]
    model.learn_many(pd.DataFrame(rows), pd.Series([n % 2 for n in range(WINDOW)]))
    before = model.predict_proba_one(rows[0])
    with pytest.warns(EFCWarning, match="features that appear after 512 samples are left out: colour"):
        model.learn_one(rows[0] | {"colour": 1e6}, 0)
    assert model.predict_proba_one(rows[0]) == pytest.approx(before, abs=0.01)


def test_what_cannot_be_learned_is_refused_in_one_sentence_and_changes_nothing() -> None:
    pd = pytest.importorskip("pandas")
    rng, model = random.Random(3), EFCClassifier(hidden=(8,))
    for n in range(20):
        model.learn_one(sample(rng, ("ash", "oak")[n % 2]), n % 2)
    asked = sample(rng, "ash")
    before = model.predict_proba_one(asked)
    for x, told in [
        ({"height": "tall"}, "feature 'height' must be a finite number, got 'tall'"),
        ({"height": 1.0, "colour": None}, "feature 'colour' must be a finite number, got None"),
        ({"height": float("inf"), "colour": 1.0}, "feature 'height' must be a finite number, got inf"),
        ({"height": 10**400}, "feature 'height' must be a finite number"),
        ([1.0, 2.0], "x: expected a dictionary from features to numbers, got list"),
    ]:
        for ask in (lambda x: model.learn_one(x, 7), model.predict_proba_one):
            if ask == model.predict_proba_one and isinstance(x, dict) and x.get("colour", 0) is None:
                continue  # nobody knows that feature, and nobody looks at it
            with pytest.raises(EFCError, match=told):
                ask(x)
    with pytest.raises(EFCError, match="X: expected a data frame of pandas, got list"):
        model.learn_many([[1.0, 2.0]], [1])
    with pytest.raises(EFCError, match="y: expected a label for each of 2 samples, got 1"):
        model.learn_many(pd.DataFrame([asked, asked]), [1])
    assert model.predict_proba_many(pd.DataFrame([asked])[:0]).shape == (0, 2)
    assert model.predict_proba_one(asked) == before
    model.learn_one(asked | {"colour": 1.0}, 0)
    assert model.predict_one(asked) == 0
