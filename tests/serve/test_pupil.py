"""One learner of a service: its bits depend on the batches in their order alone."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch

from efc import EFCClassifier
from efc.classifiers.file_format import read
from efc.errors import EFCError
from efc.serve import pupil
from efc.serve.journal import Record
from efc.serve.pupil import EVERY, Pupil, begun, fork
from efc.serve.service import classes_of
from support.model_files import ODD, changed, places, unsigned
from support.mutate import check_sentence
from support.serving import batches


def records(n: int, classes: int = 4) -> list[Record]:
    return [Record(k, np.array(x), y) for k, (x, y) in enumerate(batches(n, 0, classes), 1)]


def bits(one: Pupil) -> object:
    state = one.estimator.model_.state_dict()
    return {key: value.numpy().tobytes() for key, value in state.items()}, one.measures.to_json(), one.sequence


def test_prediction_traffic_snapshots_and_undoing_change_no_bit(tmp_path: Path) -> None:
    """The head is solved for again whenever somebody asks exactly: in a copy, never in the learner itself."""
    for method in ("efc", "sgd"):
        one, two, rng = Pupil(begun(method, (8,), None, 0)), Pupil(begun(method, (8,), None, 0)), random.Random(1)
        for record in records(700):
            one.learn(record)
            two.learn(record)
            if rng.random() < 0.2:
                two.answers().probabilities(record.x)
            if rng.random() < 0.05:
                two.save(tmp_path / "m", "j")
                two, journal = Pupil.load(tmp_path / "m")
                assert journal == "j"
            if rng.random() < 0.05:
                two._undo()
        assert bits(one) == bits(two)
        assert one.measures.failed == 0


def test_a_copy_answers_as_the_classifier_would(tmp_path: Path) -> None:
    pupil, x = Pupil(begun("efc", (8,), None, 0)), np.random.default_rng(0).normal(size=(50, 4))
    told = pupil.answers()
    assert told.labels(told.probabilities(x)) == [None] * 50
    for record in records(333):
        pupil.learn(record)
    told = pupil.answers()
    pupil.save(tmp_path / "m", "j")
    loaded = EFCClassifier.load(tmp_path / "m")
    assert list(told.classes) == loaded.classes_.tolist()
    assert np.array_equal(told.probabilities(x).numpy(), loaded.predict_proba(x))
    assert told.labels(told.probabilities(x)) == loaded.predict(x).tolist()
    assert told.seen == 333


def test_the_copy_stays_as_it_is() -> None:
    pupil, some = Pupil(begun("sgd", (8,), None, 0)), records(400)
    for record in some[:40]:
        pupil.learn(record)
    told = pupil.answers()
    before = told.probabilities(some[0].x)
    for record in some[40:]:
        pupil.learn(record)
    assert torch.equal(told.probabilities(some[0].x), before)
    assert not torch.equal(pupil.answers().probabilities(some[0].x), before)


@pytest.mark.parametrize("at", [1, 7, EVERY, EVERY + 5, 90])
def test_a_batch_that_fails_is_skipped_and_counted(at: int) -> None:
    """Diverging: weights far too large, in the middle of a batch of which half has been learned by then."""
    plain = begun("sgd", (8,), None, 0).set_params(standardise=False, options={"optimiser": "sgd"})
    one, two = Pupil(fork(plain)), Pupil(fork(plain))
    bad = Record(0, np.random.default_rng(0).normal(size=(600, 4)) * 1e15, [0, 1] * 300)
    some = records(600)
    for k, record in enumerate(some, 1):
        one.learn(record)
        if k == at:
            two.learn(bad)
        two.learn(record)
    assert two.measures.failed == 1, two.measures.failure
    assert "no longer finite" in two.measures.failure
    assert bits(one)[0] == bits(two)[0]
    assert one.measures.seen == two.measures.seen


def test_batches_that_fail_one_after_the_other_are_not_paid_for_with_old_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To undo the first, what was learned since the last copy is learned again; for the others there is a new copy."""
    plain = begun("sgd", (8,), None, 0).set_params(standardise=False, options={"optimiser": "sgd"})
    one, bad = Pupil(plain), np.random.default_rng(0).normal(size=(600, 4)) * 1e15
    for record in records(300)[: EVERY - 2]:
        one.learn(record)
    taught: list[int] = []
    teach = pupil.teach
    monkeypatch.setattr(pupil, "teach", lambda *given: (taught.append(given[1].sequence), teach(*given))[1])
    for sequence in (900, 901, 902):
        one.learn(Record(sequence, bad, [0, 1] * 300))
    assert one.measures.failed == 3
    assert taught == [900, *range(1, EVERY - 1), 901, 902]


def test_what_looks_wrong_is_noted_and_stops_nothing() -> None:
    """Every warning is an error here; whatever scikit-learn, or we, remark on a batch, it is learned."""
    one, rng = Pupil(begun("efc", (8,), None, 0)), np.random.default_rng(0)
    one.learn(Record(1, np.ones((30, 4)), [0, 1] * 15))
    assert [(f["kind"], f["sequence"]) for f in one.measures.findings] == [("constant", 1)]
    assert "nothing to tell classes apart by" in str(one.measures.findings[0]["text"])
    one.learn(Record(2, rng.normal(size=(1000, 4)), [0, 1] * 500))
    one.learn(Record(3, 1e6 * rng.normal(size=(30, 4)), [0, 1] * 15))
    one.learn(Record(4, 1e6 * rng.normal(size=(30, 4)), [0, 1] * 15))
    kinds = [(f["kind"], f["batches"], f["sequence"], f["seen"]) for f in one.measures.findings]
    assert kinds == [("constant", 1, 1, 30), ("cut", 2, 4, 1090)]
    one.learn(Record(5, rng.normal(size=(60, 4)), list(range(60))))  # which scikit-learn takes for a regression
    assert (one.measures.failed, one.measures.seen) == (0, 1150), one.measures.failure


def test_files_that_are_no_served_model(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(20, 4))
    tasks = EFCClassifier(hidden_layer_sizes=4, epochs=1, random_state=0).fit(x, [0, 1] * 10)
    tasks.save(tmp_path / "tasks")
    with pytest.raises(EFCError, match="learns tasks"):
        Pupil.load(tmp_path / "tasks")
    plain = EFCClassifier(hidden_layer_sizes=4, random_state=0, mode="stream").partial_fit(x, [0, 1] * 10)
    plain.save(tmp_path / "plain")
    pupil, journal = Pupil.load(tmp_path / "plain")
    assert (journal, pupil.sequence, pupil.met) == ("", 0, [0, 1])
    plain.save(tmp_path / "odd", {"journal": "j"})
    with pytest.raises(EFCError, match="noted"):
        Pupil.load(tmp_path / "odd")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(EFCError, match="cannot read"):
        Pupil.load(tmp_path / "text")


def test_mutated_notes(tmp_path: Path) -> None:
    """What a service noted in its model's file, with anything in any place of it: one sentence, or it goes on."""
    rng, n, path = random.Random(19), int(os.environ.get("EFC_FUZZ", "150")), tmp_path / "m"
    pupil, some = Pupil(begun("efc", (8,), None, 0)), records(120)
    for record in some[:-1]:
        pupil.learn(record)
    pupil.save(path, "j")
    state, about = read(path)
    refused = 0
    for _ in range(n):
        document = about
        for _ in range(rng.choice((1, 1, 2))):
            place = rng.choice(places(document["note"]) if isinstance(document.get("note"), dict) else [()])
            document = changed(document, ("note", *place), rng.choice((..., *ODD)))
            if "note" not in document:
                break
        unsigned(path, state, json.dumps(document, default=str))
        try:
            found, journal = Pupil.load(path)
        except EFCError as mistake:
            check_sentence(mistake)
            refused += 1
            continue
        assert isinstance(journal, str)
        json.dumps(found.measures.to_json(), allow_nan=False)
        classes_of(found.measures)
        assert found.measures.right <= found.measures.seen
        before = found.measures.failed
        found.learn(some[-1])
        assert found.measures.failed == before
    assert n / 3 < refused < n
