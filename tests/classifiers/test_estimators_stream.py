"""``mode="stream"``: what arrives in batches of any size, with labels of any kind in any order."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from efc import ContinualClassifier, EFCClassifier
from efc.errors import EFCError, EFCWarning

FOUND = load_digits()
ORDER = np.argsort(FOUND.target[:600] // 2, kind="stable")
X, Y = FOUND.data[:600][ORDER], np.array([f"digit {k}" for k in FOUND.target])[:600][ORDER]
TEST = FOUND.data[600:1000], np.array([f"digit {k}" for k in FOUND.target])[600:1000]


def stream(**given: object) -> EFCClassifier:
    return EFCClassifier(hidden_layer_sizes=40, random_state=0, mode="stream", **given)  # type: ignore[arg-type]


def fed(model: EFCClassifier, size: int, first: int = 0, last: int = 600) -> EFCClassifier:
    for at in range(first, last, size):
        model.partial_fit(X[at : min(at + size, last)], Y[at : min(at + size, last)])
    return model


def test_texts_in_any_order_and_single_samples() -> None:
    model = fed(stream(), 30)
    assert model.score(*TEST) > 0.85
    assert model.classes_.tolist() == sorted(set(Y.tolist()))
    one = fed(stream(), 1, last=40)
    assert set(one.classes_) == set(Y[:40])
    np.testing.assert_allclose(one.predict_proba(X[:40]), fed(stream(), 40, last=40).predict_proba(X[:40]), atol=1e-4)
    assert np.isfinite(one.decision_function(X[:5])).all()


def test_fit_is_a_stretch_of_a_stream_from_its_beginning() -> None:
    model = stream().fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(TEST[0]), fed(stream(), 60).predict_proba(TEST[0]), atol=1e-6)
    model.partial_fit(X[:3], Y[:3])
    assert model.fit(X[:50], Y[:50]).classes_.tolist() == sorted(set(Y[:50].tolist()))


def test_saved_in_the_middle_it_goes_on_the_same(tmp_path: Path) -> None:
    model = fed(stream(), 7, last=301)
    model.save(tmp_path / "m.safetensors")
    other = EFCClassifier.load(tmp_path / "m.safetensors")
    for one in (model, other):
        fed(one, 7, first=301)
    assert np.array_equal(model.predict_proba(TEST[0]), other.predict_proba(TEST[0]))


def test_announced_classes_wait_with_probability_zero() -> None:
    model = stream().partial_fit(X[:20], Y[:20], classes=sorted(set(Y.tolist())))
    told = model.predict_proba(X[:3])
    assert told.shape == (3, 10)
    assert (told[:, ~np.isin(model.classes_, Y[:20])] == 0).all()


def test_other_methods_stream_or_say_why_not() -> None:
    told = ContinualClassifier("slda", mode="stream").partial_fit(X[:64], Y[:64]).predict(X[:64])
    assert (told == Y[:64]).mean() > 0.9
    with pytest.raises(EFCError, match="ewc: it needs tasks"):
        ContinualClassifier("ewc", mode="stream").partial_fit(X, Y)
    with pytest.raises(ValueError, match="mode: must be 'tasks' or 'stream', got 'online'"):
        EFCClassifier(mode="online").partial_fit(X, Y)
    with pytest.raises(ValueError, match="class_weight"):
        stream(class_weight="balanced").partial_fit(X, Y)
    with pytest.raises(EFCError, match="mode"):
        stream().partial_fit(X[:50], Y[:50]).set_params(mode="tasks").partial_fit(X, Y)


def test_tasks_in_small_pieces_are_told_of_this_mode() -> None:
    model = EFCClassifier(hidden_layer_sizes=8, epochs=1, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EFCWarning)
        model.partial_fit(X[:100], Y[:100])
    with pytest.warns(EFCWarning, match="mode='stream'"):
        model.partial_fit(X[:10], Y[:10])
