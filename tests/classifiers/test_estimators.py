"""The scikit-learn estimators: the conventions, classes in any order, no forgetting, and files that go on alike."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from efc import ContinualClassifier, EFCClassifier, EFCError
from efc.classifiers.file_format import read, write
from efc.learners import LEARNERS

pytestmark = pytest.mark.filterwarnings("ignore::efc.errors.EFCWarning")  # what is told is tested by test_diagnosis
QUICK: dict[str, Any] = {"hidden_layer_sizes": (20,), "epochs": 3, "random_state": 0}


@parametrize_with_checks([EFCClassifier(), ContinualClassifier("ewc")])
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    check(estimator)


def blobs(classes: Any, per_class: int = 15, seed: int = 0) -> tuple[Any, Any]:
    """Well separated classes in six dimensions, shuffled; a class lies at the same place whatever is asked for."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((10, 6)) * 3
    y = np.repeat(np.asarray(classes), per_class)
    rng.shuffle(y)
    return centres[y] + 0.3 * rng.standard_normal((len(y), 6)), y


@pytest.fixture(scope="module")
def digits() -> Any:
    x, y = load_digits(return_X_y=True)
    x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.25, random_state=0, stratify=y)
    scaler = StandardScaler().fit(x_train)
    return scaler.transform(x_train), scaler.transform(x_test), y_train, y_test


def by_pairs(classifier: Any, x: Any, y: Any) -> Any:
    for k in range(5):
        classifier.partial_fit(x[y // 2 == k], y[y // 2 == k])
    return classifier


def test_digits_two_by_two_are_kept_by_efc_and_lost_by_plain_training(digits: Any) -> None:
    x, x_test, y, y_test = digits
    kept = by_pairs(EFCClassifier(head="analytic", random_state=0), x, y)
    lost = by_pairs(ContinualClassifier("sgd", head="random", random_state=0), x, y)
    assert kept.score(x_test, y_test) > 0.85
    assert lost.score(x_test, y_test) < 0.4
    assert lost.score(x_test[y_test > 7], y_test[y_test > 7]) > 0.85  # it did learn: the newest classes it knows
    for classifier in (kept, lost):
        told = np.concatenate([classifier.predict(x_test[y_test // 2 == k], task=k) for k in range(5)])
        truth = np.concatenate([y_test[y_test // 2 == k] for k in range(5)])
        assert (told == truth).mean() >= classifier.score(x_test, y_test)
        assert (told // 2 == truth // 2).all()


@pytest.mark.parametrize("method", LEARNERS)
def test_every_method_learns_classes_as_they_come(method: str) -> None:
    options = {"strength": 1e4} if method in ("online_ewc", "si", "mas") else {}
    classifier = ContinualClassifier(method, **QUICK, options=options)
    for classes in ([7, 2], [5], [9, 0, 2]):
        classifier.partial_fit(*blobs(classes))
    x, y = blobs([0, 2, 5, 7, 9], seed=1)
    assert classifier.classes_.tolist() == [0, 2, 5, 7, 9]
    assert [task.tolist() for task in classifier.tasks_] == [[2, 7], [5], [0, 2, 9]]
    assert classifier.score(x, y) > 0.9
    again = pickle.loads(pickle.dumps(classifier))
    assert np.array_equal(again.decision_function(x), classifier.decision_function(x))


def test_columns_are_sorted_whatever_the_order_of_arrival() -> None:
    classifier = EFCClassifier(**QUICK)
    for classes in ([8, 3], [1, 8], [5]):
        classifier.partial_fit(*blobs(classes))
    x, y = blobs([1, 3, 5, 8], seed=1)
    scores, chances = classifier.decision_function(x), classifier.predict_proba(x)
    assert scores.shape == chances.shape == (60, 4)
    assert np.array_equal(np.array([1, 3, 5, 8])[scores.argmax(1)], y)
    assert np.array_equal(classifier.predict(x), y)
    np.testing.assert_allclose(chances.sum(1), 1)
    assert classifier.model_.n_outputs == 4  # a class seen again takes no output of its own
    among = classifier.predict_proba(x, task=1)
    assert np.all(among[:, [1, 2]] == 0)
    assert np.all(among[:, [0, 3]] > 0)


def test_announced_classes_have_columns_and_change_nothing_else() -> None:
    x, y = blobs([1, 2])
    x_test, _ = blobs([1, 2, 4], seed=1)
    told = EFCClassifier(**QUICK).partial_fit(x, y, classes=[4, 2, 1])
    plain = EFCClassifier(**QUICK).partial_fit(x, y)
    assert told.classes_.tolist() == [1, 2, 4]
    assert np.all(told.predict_proba(x_test)[:, 2] == 0)
    assert np.all(told.decision_function(x_test)[:, 2] == -np.inf)
    lead = told.decision_function(x_test)
    assert np.array_equal(lead[:, 1] - lead[:, 0], plain.decision_function(x_test))
    for classifier in (told, plain):
        classifier.partial_fit(*blobs([4, 6]))  # one announced, one not
    assert told.classes_.tolist() == plain.classes_.tolist() == [1, 2, 4, 6]
    assert np.array_equal(told.decision_function(x_test), plain.decision_function(x_test))


def test_fit_forgets_and_partial_fit_after_fit_goes_on() -> None:
    classifier = EFCClassifier(**QUICK).fit(*blobs([0, 1]))
    classifier.partial_fit(*blobs([2]))
    assert classifier.classes_.tolist() == [0, 1, 2]
    assert classifier.score(*blobs([0, 1, 2], seed=1)) > 0.9
    classifier.fit(*blobs([4, 5]))
    assert classifier.classes_.tolist() == [4, 5]
    assert [task.tolist() for task in classifier.tasks_] == [[4, 5]]
    fresh = EFCClassifier(**QUICK).fit(*blobs([4, 5]))
    x, _ = blobs([4, 5], seed=1)
    assert np.array_equal(classifier.decision_function(x), fresh.decision_function(x))


def test_texts_as_labels_and_no_mixing_with_numbers() -> None:
    names = np.array(["ant", "bee", "caterpillar"])
    classifier = EFCClassifier(**QUICK)
    for classes in ([1, 0], [2]):
        x, y = blobs(classes)
        classifier.partial_fit(x, names[y])
    x, y = blobs([0, 1, 2], seed=1)
    assert np.array_equal(classifier.predict(x), names[y])
    with pytest.raises(ValueError, match="some labels are numbers and some are texts"):
        classifier.partial_fit(x, y)
    assert classifier.classes_.tolist() == names.tolist()


def test_one_sample_and_one_class_at_a_time() -> None:
    classifier = EFCClassifier(**QUICK)
    x, y = blobs(range(5), per_class=1)
    for k in range(5):
        classifier.partial_fit(x[k : k + 1], y[k : k + 1])
    assert np.array_equal(classifier.predict(x), y)
    alone = EFCClassifier(**QUICK).partial_fit(x[:1], y[:1])
    assert np.array_equal(alone.predict(x), np.repeat(y[:1], 5))
    assert alone.decision_function(x).shape == alone.predict_proba(x).shape == (5, 1)


def test_mistakes_are_told_and_change_nothing() -> None:
    x, y = blobs([0, 1, 2])
    classifier = EFCClassifier(**QUICK)
    with pytest.raises(NotFittedError):
        classifier.predict(x)
    classifier.partial_fit(x, y)
    before = classifier.decision_function(x)
    holes = x.copy()
    holes[3, 2] = np.nan
    for call, match in [
        (lambda: classifier.partial_fit(x[:, :4], y), "X has 4 features, but EFCClassifier is expecting 6"),
        (lambda: classifier.predict(x[:, :4]), "X has 4 features, but EFCClassifier is expecting 6"),
        (lambda: classifier.partial_fit(holes, y), "Input X contains NaN"),
        (lambda: classifier.predict(holes), "Input X contains NaN"),
        (lambda: classifier.partial_fit(x, y + 0.5), "Unknown label type"),
        (lambda: classifier.partial_fit(x, y, classes=[0, 1]), r"labels that are not in classes: \[2\]"),
        (lambda: classifier.predict(x, task=1), "task: 1 is not among the 1 learned so far"),
        (lambda: classifier.predict(x, task=-1), "task: must be a whole number of at least 0"),
        (lambda: clone(classifier).set_params(learning_rate=1e39).fit(x, y), "diverged"),
        (lambda: clone(classifier).set_params(epochs=0).fit(x, y), "epochs: must be a whole number"),
        (lambda: clone(classifier).set_params(hidden_layer_sizes=(0,)).fit(x, y), "hidden layer sizes: must be"),
        (lambda: clone(classifier).set_params(head="analitic").fit(x, y), "did you mean 'analytic'"),
        (lambda: clone(classifier).set_params(options={"kapa": 1}).fit(x, y), "did you mean 'kappa'"),
        (lambda: clone(classifier).set_params(options={"beta": 1}).fit(x, y), "given as the argument beta"),
        (lambda: ContinualClassifier("ewk").fit(x, y), "did you mean 'ewc'"),
    ]:
        with pytest.raises(ValueError, match=match):
            call()
    assert np.array_equal(classifier.decision_function(x), before)
    assert len(classifier.tasks_) == 1


def test_a_fit_that_fails_leaves_what_was_learned() -> None:
    """The failing data have another number of features: what was learned still answers for its own."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 5)), np.arange(40) % 2
    classifier = ContinualClassifier("sgd", hidden_layer_sizes=4, epochs=1, random_state=0).fit(x, y)
    before = classifier.predict_proba(x)
    classifier.set_params(class_weight={0: float("nan")})
    with pytest.raises(EFCError, match="class_weight: a weight must be a number above 0"):
        classifier.fit(x[:, :3], y)
    assert classifier.n_features_in_ == 5
    np.testing.assert_array_equal(classifier.predict_proba(x), before)


def test_training_can_be_changed_between_tasks_but_not_the_network() -> None:
    classifier = EFCClassifier(**QUICK, options={"drift": "trusted"}).partial_fit(*blobs([0, 1]))
    same = copy.deepcopy(classifier).partial_fit(*blobs([2, 3]))
    other = copy.deepcopy(classifier).set_params(learning_rate=1e-2, epochs=9).partial_fit(*blobs([2, 3]))
    x, _ = blobs([0, 1, 2, 3], seed=1)
    assert not np.allclose(same.decision_function(x), other.decision_function(x))
    with pytest.raises(EFCError, match="hidden layer sizes: cannot be changed between two tasks"):
        classifier.set_params(hidden_layer_sizes=(30,)).partial_fit(*blobs([2, 3]))


def test_the_same_random_state_gives_the_same_numbers() -> None:
    x, _ = blobs([0, 1, 2], seed=1)

    def scores(random_state: Any) -> Any:
        classifier = clone(EFCClassifier(**QUICK | {"random_state": random_state}))
        return classifier.partial_fit(*blobs([0, 2])).partial_fit(*blobs([1])).decision_function(x)

    assert np.array_equal(scores(3), scores(3))
    assert not np.array_equal(scores(3), scores(4))
    assert np.array_equal(scores(np.random.RandomState(3)), scores(3))


@pytest.mark.parametrize("classifier", [
    EFCClassifier(**QUICK, beta=np.float64(3.0), options={"preservation": "si"}),
    ContinualClassifier("derpp", **QUICK, head="random", options={"buffer": 20}),
    ContinualClassifier("ewc", **QUICK, options={"strength": float("inf")}),
    ContinualClassifier("joint", **QUICK),
    ContinualClassifier("full_fisher", **QUICK | {"random_state": np.random.RandomState(1)}),
], ids=lambda c: getattr(c, "method", "efc"))  # fmt: skip
def test_a_saved_classifier_predicts_and_learns_on_alike(classifier: Any, tmp_path: Path) -> None:
    names = np.array(list("abcdefghij"), dtype=object)
    classifier = clone(classifier)
    for classes in ([4, 1], [3]):
        x, y = blobs(classes)
        classifier.partial_fit(x, names[y], classes=names)
    file = tmp_path / "classifier.safetensors"
    classifier.save(file)
    loaded = type(classifier).load(str(file))
    x_test, _ = blobs([1, 3, 4, 6], seed=1)
    assert loaded.classes_.tolist() == names.tolist()
    assert loaded.hidden_layer_sizes == (20,)
    assert np.array_equal(loaded.decision_function(x_test), classifier.decision_function(x_test))
    assert np.array_equal(loaded.predict(x_test, task=0), classifier.predict(x_test, task=0))
    for one in (classifier, loaded):
        x, y = blobs([6, 1])
        one.partial_fit(x, names[y])
    assert np.array_equal(loaded.decision_function(x_test), classifier.decision_function(x_test))
    with pytest.raises(ValueError, match="X has 2 features"):
        loaded.predict(x_test[:, :2])


def test_a_method_of_ones_own(tmp_path: Path) -> None:
    """Its parts grow with the head, as those of the library's methods do."""
    file = tmp_path / "tethered.py"
    file.write_text("""
from efc.learners import SGD, Stored


class Before(Stored):
    stored = ("theta",)

class Tethered(SGD):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.before = Before()
        self.before.theta = self.theta.clone()

    def consolidate(self, task):
        self.before.theta = self.theta.clone()

    def descent(self, x, y):
        statistics = super().descent(x, y)
        self.gradient += 1e3 * (self.theta - self.before.theta)
        return statistics

    def parts(self):
        return super().parts() | {"before": self.before}
""")
    classifier = ContinualClassifier(f"{file}:Tethered", **QUICK)
    for classes in ([0, 1], [2, 3, 4]):
        classifier.partial_fit(*blobs(classes))
    learner = classifier.model_.learner
    assert learner.before.theta.shape == learner.theta.shape
    assert classifier.score(*blobs(range(5), seed=1)) > 0.9


def test_a_file_describes_itself_and_others_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.safetensors"
    with pytest.raises(NotFittedError):
        EFCClassifier().save(file)
    EFCClassifier(**QUICK).fit(*blobs([0, 3])).save(file)
    with safe_open(str(file), framework="pt") as opened:
        about = json.loads(opened.metadata()["efc_estimator"])
    assert about["estimator"] == "EFCClassifier"
    assert about["parameters"]["epochs"] == 3
    assert about["classes"]["values"] == [0, 3]
    with pytest.raises(EFCError, match="a saved EFCClassifier, not a ContinualClassifier"):
        ContinualClassifier.load(file)
    with pytest.raises(EFCError, match="cannot read"):
        EFCClassifier.load(tmp_path / "absent.safetensors")
    with pytest.raises(EFCError, match="cannot write"):
        EFCClassifier(**QUICK).fit(*blobs([0, 3])).save(tmp_path / "absent" / "c.safetensors")
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(EFCError, match="cannot read"):
        EFCClassifier.load(file)
    save_file({"a": torch.zeros(2)}, file)
    with pytest.raises(EFCError, match="holds no estimator"):
        EFCClassifier.load(file)


def test_pipeline_grid_search_and_pickle() -> None:
    x, y = blobs([0, 1, 2])
    x = 1000 + 100 * x  # of no use unless the pipeline standardises it
    model = make_pipeline(StandardScaler(), EFCClassifier(**QUICK))
    grid = {"efcclassifier__learning_rate": [1e-3, 1e39], "efcclassifier__head": ["analytic"]}
    search = GridSearchCV(model, grid, cv=2, error_score=0.0)
    with pytest.warns(match="fits failed"):
        search.fit(x, y)
    assert search.best_params_["efcclassifier__learning_rate"] == 1e-3
    assert search.best_score_ > 0.9
    again = pickle.loads(pickle.dumps(search))
    assert np.array_equal(again.predict_proba(x), search.predict_proba(x))
    assert again.score(x, y) > 0.9


def test_importing_efc_does_not_import_scikit_learn() -> None:
    code = "import sys, efc; assert 'sklearn' not in sys.modules; efc.EFCClassifier; assert 'sklearn' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_file_of_version_0_1_goes_on_as_it_began(tmp_path: Path) -> None:
    """Its description knows nothing of standardised inputs: it has none, nor what came with them."""
    before = {"drift": "trusted", "skip": "off", "ridge": 1e-4}
    classifier = EFCClassifier(**QUICK, standardise=False, options=before).partial_fit(*blobs([0, 1]))
    classifier.save(tmp_path / "new.safetensors")
    state, about = read(tmp_path / "new.safetensors")
    about["parameters"] |= {"options": None}
    del about["parameters"]["standardise"], about["format"]
    write(tmp_path / "old.safetensors", state, about)
    loaded = EFCClassifier.load(tmp_path / "old.safetensors")
    for one in (loaded, classifier):
        one.partial_fit(*blobs([2, 3]))
    x, _ = blobs([0, 1, 2, 3], seed=1)
    assert np.array_equal(loaded.decision_function(x), classifier.decision_function(x))


def test_verbose_tells_of_every_epoch_and_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    x, y = np.repeat(np.eye(4), 10, 0), np.repeat(np.arange(4), 10)
    told, silent = (EFCClassifier(8, epochs=2, random_state=0, verbose=verbose) for verbose in (True, False))
    for classifier in (silent, told):
        for task in (y < 2, y >= 2):
            classifier.partial_fit(x[task], y[task])
    said = capsys.readouterr().err.splitlines()
    assert said == [f"task {task}: epoch {epoch} of 2" for task in (1, 2) for epoch in (1, 2)]
    assert (told.decision_function(x) == silent.decision_function(x)).all()
