"""Saved classifiers from elsewhere: what a file may make happen, and what is said of one that is wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from efc import ContinualClassifier, EFCClassifier
from efc.classifiers.file_format import read, write
from efc.errors import EFCError
from support.model_files import QUICK, changed, samples, unsigned
from support.planted import NAMES, Planted

WANTS = r"m: this file wants to import '.*', which may run any code; if you trust .* load it with trust=True$"


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Planted:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "planted", raising=False)
    return Planted(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    ContinualClassifier("efc", **QUICK).fit(*samples([0, 1, 2])).save(tmp_path / "m")
    return tmp_path / "m"


def rewrite(file: Path, place: tuple[Any, ...], value: Any) -> None:
    state, about = read(file)
    about = changed(about, place, value)
    write(file, state, {key: value for key, value in about.items() if key != "format"})


@pytest.mark.parametrize("name", NAMES)
def test_a_file_imports_nothing(planted: Planted, file: Path, name: str) -> None:
    path, cwd = list(sys.path), file.read_bytes()
    for place, value in [
        (("parameters", "method"), name),
        (("parameters", "options"), {"preservation": name}),
        (("parameters", "options"), {"variant": "paper", "solver_options": {"a": [name]}}),
    ]:
        file.write_bytes(cwd)
        rewrite(file, place, value)
        with pytest.raises(EFCError, match=WANTS):
            ContinualClassifier.load(file)
    EFCClassifier(**QUICK).fit(*samples([0, 1])).save(file)
    rewrite(file, ("parameters", "options"), {"preservation": name})
    with pytest.raises(EFCError, match=WANTS):
        EFCClassifier.load(file)
    rewrite(file, ("estimator",), name)
    with pytest.raises(EFCError, match=r"this is a saved .*, not a EFCClassifier"):
        EFCClassifier.load(file)
    assert not planted.ran
    assert sys.path == path


def test_a_trusted_file_imports_what_it_names(planted: Planted) -> None:
    x, y = samples([0, 1])
    for classifier in (
        ContinualClassifier("planted:Planted", **QUICK),
        ContinualClassifier("planted.py:Planted", **QUICK),
        EFCClassifier(**QUICK, options={"preservation": "planted:function"}),
    ):
        classifier.fit(x, y).save("m")
        del sys.modules["planted"]
        (planted.folder / "it ran").unlink()
        with pytest.raises(EFCError, match=WANTS):
            type(classifier).load("m")
        assert not planted.ran
        loaded = type(classifier).load("m", trust=True)
        assert planted.ran
        assert np.array_equal(loaded.predict_proba(x), classifier.predict_proba(x))


def test_trust_does_not_make_a_method_of_anything(planted: Planted, file: Path) -> None:
    rewrite(file, ("parameters", "method"), "planted:function")
    with pytest.raises(EFCError, match="m: methods: planted:function is not a subclass"):
        ContinualClassifier.load(file, trust=True)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused(file: Path, bad: float) -> None:
    state, about = read(file)
    del about["format"]
    state["learner.theta"][0, 3] = bad
    write(file, state, about)
    with pytest.raises(EFCError, match=r"m: state: learner.theta holds NaN or infinite numbers$"):
        ContinualClassifier.load(file)


def test_outputs_that_are_too_large_are_no_answers(file: Path) -> None:
    state, about = read(file)
    del about["format"]
    write(file, state | {"learner.theta": torch.full_like(state["learner.theta"], 3e38)}, about)
    loaded = ContinualClassifier.load(file)  # large, and finite in float64
    assert np.isfinite(loaded.predict_proba(np.ones((2, 4)))).all()
    raw = ContinualClassifier("sgd", **QUICK, head="random", standardise=False).fit(*samples([0, 1, 2]))
    for answer in (raw.predict, raw.predict_proba, raw.decision_function):
        with pytest.raises(EFCError, match="predict: some outputs are not finite; the features are too large"):
            answer(np.full((2, 4), 1e308))


WRONG: dict[str, tuple[tuple[Any, ...], Any, str]] = {
    "no estimator": (("estimator",), ..., "the description lacks estimator"),
    "no parameters": (("parameters",), ..., "the description lacks parameters"),
    "estimator": (("estimator",), 3, "estimator: expected its name, got 3"),
    "parameters": (("parameters",), [1], "parameters: expected named values"),
    "unknown parameter": (("parameters", "depth"), 3, "parameters: depth is none of ContinualClassifier's"),
    "options": (("parameters", "options"), "a", "parameters: expected named values"),
    "unknown option": (("parameters", "options"), {"a": 1}, "a: no such option"),
    "method": (("parameters", "method"), "nothing", "methods: unknown value 'nothing'"),
    "method of another kind": (("parameters", "method"), 3, "this is no ContinualClassifier that can be restored"),
    "another method": (("parameters", "method"), "der", "state: missing"),
    "terabytes": (("parameters", "hidden_layer_sizes"), [10**12], r"state: a network of the sizes \(4, 1e\+12, 3\)"),
    "many layers": (("parameters", "hidden_layer_sizes"), [10**6] * 50, "state: a network of the sizes"),
    "inputs": (("n_features",), 10**12, "state: a network of the sizes"),
    "other inputs": (("n_features",), 5, "state: .* expected"),
    "negative": (("n_features",), -4, "n_features: expected a whole number from 1 to"),
    "negative width": (("parameters", "hidden_layer_sizes"), [-1], "hidden layer sizes: must be a whole number"),
    "widths": (("parameters", "hidden_layer_sizes"), {"a": 1}, "hidden layer sizes: must be a whole number"),
    "device": (("parameters", "device"), "moon", "device: expected auto, cpu, cuda"),
    "random state": (("parameters", "random_state"), "x", "this is no ContinualClassifier that can be restored"),
    "seed": (("seed",), 2**40, "seed: expected a whole number from 0 to 2147483647, got 1099511627776"),
    "seed that is none": (("seed",), None, "seed: expected a whole number"),
    "names": (("feature_names",), ["a"], "feature_names: there are 1 for 4 features"),
    "names that are none": (("feature_names",), [1, 2, 3, 4], "feature_names: expected texts"),
    "fewer classes": (("classes", "values"), [0, 1], "met: expected some of the classes, each once"),
    "other classes": (("classes", "values"), [5, 6, 7], "met: expected some of the classes, each once"),
    "unsorted": (("classes", "values"), [1, 0, 2], "classes: they are not sorted, each once"),
    "too few outputs": (("met", "values"), [0, 1], "met: there are 2 labels for 3 outputs"),
    "nested": (("classes", "values"), [[0], [1], [2]], "classes: expected a list of numbers or texts"),
    "objects": (("classes", "dtype"), "|V8", "classes: '|V8' is no kind of label"),
    "dates": (("met", "dtype"), "<M8[s]", "met: '<M8\\[s\\]' is no kind of label"),
    "long texts": (("met", "dtype"), "<U999999999", "met: '<U999999999' is too long"),
    "other kind": (("met", "dtype"), "<U5", "met: .* are not of the kind '<U5'"),
    "no such kind": (("met", "dtype"), "<i3", "met: .* are not of the kind '<i3'"),
    "labels": (("met",), 3, "met: expected a list of numbers or texts, got None"),
}  # fmt: skip


@pytest.mark.parametrize(("place", "value", "says"), WRONG.values(), ids=WRONG)
def test_a_description_that_is_wrong(file: Path, place: tuple[Any, ...], value: Any, says: str) -> None:
    rewrite(file, place, value)
    with pytest.raises(EFCError, match=f"m: {says}") as caught:
        ContinualClassifier.load(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nothing", "its description is not JSON"),
        ("[" * 100_000 + "]" * 100_000, "its description is not JSON"),
        ('{"format": ' + "9" * 5000 + "}", "its description is not JSON"),
        ("[]", "does not say in which format"),
        ("{}", "does not say in which format"),
        ('{"format": "1"}', "written in format '1', this version of efc reads 1"),
        ('{"format": ' + "[" * 900 + "]" * 900 + "}", "written in format"),
        ('{"format": 1}', "the description lacks estimator, parameters, n_features, seed, classes, met"),
    ],
)
def test_a_description_that_is_none(file: Path, text: str, says: str) -> None:
    state, _ = read(file)
    unsigned(file, state, text)
    with pytest.raises(EFCError, match=f"m: .*{says}") as caught:
        ContinualClassifier.load(file)
    assert "\n" not in str(caught.value)


def test_files_that_are_none(tmp_path: Path, file: Path) -> None:
    data = file.read_bytes()
    header = json.dumps({"__metadata__": {"efc_estimator": "\udcff"}}, ensure_ascii=False).encode("utf-8", "replace")
    not_utf8 = header.replace(b"?", b"\xff")
    cases = {
        "empty": b"", "short": data[:5], "cut": data[:-1], "long": data + b"\0", "text": b"hello\n",
        "length": b"\xff" * 8 + data[8:], "not UTF-8": len(not_utf8).to_bytes(8, "little") + not_utf8,
    }  # fmt: skip
    for name, content in cases.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(EFCError, match=f"^cannot read [^\n]*{name}: [^\n]+$"):
            ContinualClassifier.load(tmp_path / name)
    with pytest.raises(EFCError, match="it is not a file"):
        ContinualClassifier.load(tmp_path)


def test_a_changed_bit_is_noticed_and_an_open_file_is_not_needed(file: Path) -> None:
    data = bytearray(file.read_bytes())
    loaded = ContinualClassifier.load(file)
    data[-100] ^= 1
    file.write_bytes(data)
    with pytest.raises(EFCError, match="m: the file is damaged, its checksum is another one than when it was saved"):
        ContinualClassifier.load(file)
    file.write_bytes(b"")
    assert np.isfinite(loaded.predict_proba(np.ones((2, 4)))).all()


def test_a_file_without_a_checksum_is_read(file: Path) -> None:
    """As files of early versions are."""
    before = ContinualClassifier.load(file)
    state, about = read(file)
    unsigned(file, state, json.dumps(about))
    x = np.ones((2, 4))
    assert np.array_equal(ContinualClassifier.load(file).predict_proba(x), before.predict_proba(x))


@pytest.mark.parametrize("names", [np.array([0, 1, 2]), np.array(["0", "1", "2"]), np.array([0.0, 1.0, 2.0])])
def test_weights_of_classes_come_back(tmp_path: Path, names: Any) -> None:
    """JSON makes texts of keys: a number that came back as a text would weigh nothing, without a word."""
    (x, y), labels = samples([0, 1]), names.tolist()
    one = ContinualClassifier("sgd", **QUICK, class_weight={labels[0]: 5.0, labels[2]: 2.0}).fit(x, names[y])
    one.partial_fit(*[x[y == 1], names[y[y == 1]]], classes=names)
    one.save(tmp_path / "m")
    assert ContinualClassifier.load(tmp_path / "m").class_weight == one.class_weight
