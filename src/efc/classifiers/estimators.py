"""Continual learners as scikit-learn estimators: ``partial_fit`` is the next task, and brings any classes it likes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from efc.classifiers.diagnosis import TaskFacts, findings, warn, warn_far
from efc.classifiers.file_format import describe_labels, read, restore_labels, write
from efc.classifiers.growing import Growing, Setup, usual_options
from efc.errors import EFCError

Array = NDArray[Any]


class _Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What the classifiers share; they differ in their constructors alone.

    Fitted attributes: ``classes_`` (sorted, met or announced), ``tasks_`` (the classes of each task so far),
    ``report_`` (what is known of each task learned since it was made or loaded, with the warnings there were),
    ``n_features_in_`` and ``model_``.
    """

    hidden_layer_sizes: int | Sequence[int]
    activation: str
    head: str
    learning_rate: float | None
    epochs: int
    batch_size: int
    random_state: int | np.random.RandomState | None
    device: str
    standardise: bool
    options: Mapping[str, object] | None
    named: ClassVar[Mapping[str, str]] = {"learning_rate": "lr"}
    """Arguments that are options of the learner, and what they are called there."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn one task, and forget all that was learned before."""
        X, y = self._checked(X, y, reset=True)
        found = np.unique(y)
        model = self._begun(X.shape[1])
        learned = model.learn(torch.tensor(X), torch.from_numpy(np.searchsorted(found, y)))
        self.model_, self.classes_, self._met = model, found, found
        self.report_: list[dict[str, object]] = []
        self._tell(learned)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn the next task. Its classes may be new or not, in any order.

        ``classes`` may announce classes that are still to come: they are in ``classes_`` from then on, with probability
        zero until they are met. Nothing else depends on it. A task that fails, or is interrupted, changes nothing.
        """
        first = not hasattr(self, "model_")
        X, y = self._checked(X, y, reset=first)
        found = np.unique(y)
        announced = found if classes is None else np.unique(column_or_1d(classes))
        known, met = (found[:0], found[:0]) if first else (self.classes_, self._met)
        _check_kinds(found, announced, known)
        if len(strange := np.setdiff1d(found, announced)):
            raise ValueError(f"y has labels that are not in classes: {strange.tolist()}")
        met = np.concatenate([met, np.setdiff1d(found, met)])
        model = self._begun(X.shape[1]) if first else self.model_
        if not first:
            model.adopt(self._setup(X.shape[1], model.setup.seed))
        place = np.argsort(met)
        learned = model.learn(torch.tensor(X), torch.from_numpy(place[np.searchsorted(met[place], y)]))
        self.model_, self.classes_, self._met = model, np.union1d(known, announced), met
        if first:
            self.report_ = []
        self._tell(learned)
        return self

    def _tell(self, learned: TaskFacts) -> None:
        """Note what is known of the last task, and warn of what looks wrong."""
        names = self._met.tolist()
        sentences = findings(learned, names)
        entry: dict[str, object] = {
            "samples": {names[k]: n for k, n in learned.samples.items()},
            "training_accuracy": learned.accuracy,
            "unsettled": learned.unsettled,
            "warnings": sentences,
        }
        self.report_ = [*self.report_, entry]
        warn(sentences, len(self.model_.tasks) - 1)

    def predict(self, X: ArrayLike, task: int | None = None) -> Array:
        """The most likely class; with ``task`` (counted from 0) among the classes of that task alone."""
        scores = self._scores(X, task)
        return np.asarray(self.classes_[scores.argmax(1)])

    def predict_proba(self, X: ArrayLike, task: int | None = None) -> Array:
        """(samples, classes): the softmax of the network's outputs, in the order of ``classes_``.

        With the heads that keep moments the outputs are regressions on zero and one. They are divided by a temperature
        first, which was fitted to each task's samples as if the head had not seen them.
        """
        scores = torch.from_numpy(self._scores(X, task))
        return np.asarray(torch.softmax(scores / self.model_.temperature, 1).numpy())

    def decision_function(self, X: ArrayLike, task: int | None = None) -> Array:
        """The network's outputs, in the order of ``classes_``; -inf for classes not met yet, or not of the ``task``.

        With two classes it is, as everywhere in scikit-learn, one number per sample: by how much the second leads.
        """
        scores = self._scores(X, task)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    @property
    def tasks_(self) -> list[Array]:
        """The classes of each task learned so far."""
        check_is_fitted(self, "model_")
        return [np.sort(self._met[outputs]) for outputs in self.model_.tasks]

    def save(self, path: str | Path) -> None:
        """Write everything to one safetensors file: ``load`` gives a classifier that predicts and learns on alike."""
        check_is_fitted(self, "model_")
        about = {
            "estimator": type(self).__name__,
            "parameters": self.get_params(deep=False),
            "n_features": self.n_features_in_,
            "seed": self.model_.setup.seed,
            "classes": describe_labels(self.classes_),
            "met": describe_labels(self._met),
            "feature_names": [str(name) for name in getattr(self, "feature_names_in_", ())],
        }
        write(Path(path), self.model_.state_dict(), about)

    @classmethod
    def load(cls, path: str | Path, device: str | None = None) -> Self:
        """What ``save`` wrote; ``device`` if it is to compute elsewhere than it did."""
        state, about = read(Path(path))
        if about["estimator"] != cls.__name__:
            raise EFCError(f"{path}: this is a saved {about['estimator']}, not a {cls.__name__}")
        parameters = dict(about["parameters"])
        if "standardise" not in parameters:  # a file of version 0.1: it goes on as it began
            before = {"drift": "trusted", "skip": "off", "ridge": 1e-4}
            parameters |= {"standardise": False, "options": before | dict(parameters["options"] or {})}
        found = cls(**parameters | ({} if device is None else {"device": device}))
        if isinstance(found.hidden_layer_sizes, list):  # JSON knows no tuples
            found.hidden_layer_sizes = tuple(found.hidden_layer_sizes)
        found.n_features_in_ = about["n_features"]
        found.model_ = Growing(found._setup(about["n_features"], about["seed"]))
        found.model_.load_state_dict(state)
        found.classes_, found._met = restore_labels(about["classes"]), restore_labels(about["met"])
        found.report_ = []
        if about["feature_names"]:
            found.feature_names_in_ = np.array(about["feature_names"], dtype=object)
        return found

    def _method(self) -> str:
        raise NotImplementedError

    def _setup(self, n_features: int, seed: int) -> Setup:
        sizes = self.hidden_layer_sizes
        options: dict[str, object] = usual_options(self.standardise) | dict(self.options or {})
        for argument, name in self.named.items():
            if name in options:
                raise EFCError(f"options: {name} is given as the argument {argument}")
            if getattr(self, argument) is not None:
                options[name] = getattr(self, argument)
        return Setup(
            n_features=n_features,
            hidden=tuple(sizes) if np.iterable(sizes) else (sizes,),
            method=self._method(),
            head=self.head,
            activation=self.activation,
            epochs=self.epochs,
            batch_size=self.batch_size,
            seed=seed,
            device=self.device,
            options=options,
        )

    def _begun(self, n_features: int) -> Growing:
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        return Growing(self._setup(n_features, seed))

    def _checked(self, X: ArrayLike, y: ArrayLike, reset: bool) -> tuple[Array, Array]:
        features, labels = validate_data(self, X, y, reset=reset, dtype=[np.float64, np.float32], order="C")
        check_classification_targets(labels)
        return features, labels

    def _scores(self, X: ArrayLike, task: int | None) -> Array:
        """(samples, classes) in the order of ``classes_``."""
        check_is_fitted(self, "model_")
        features = validate_data(self, X, reset=False, dtype=[np.float64, np.float32], order="C")
        learner = self.model_.learner
        if learner is not None and learner.inputs is not None:
            warn_far(learner.inputs.far(torch.tensor(features).to(learner.theta.device)).cpu())
        z = self.model_.exact_logits(torch.tensor(features), task).numpy()
        scores = np.full((len(features), len(self.classes_)), -np.inf)
        scores[:, np.searchsorted(self.classes_, self._met)] = z
        return scores


def _check_kinds(*labels: Array) -> None:
    """Numbers and texts do not go together: numpy would silently turn the numbers into texts."""
    kinds = {part.dtype.kind in "biuf" for part in labels if len(part)}
    if len(kinds) > 1:
        raise ValueError("y: some labels are numbers and some are texts; the classes of a classifier are of one kind")


class ContinualClassifier(_Classifier):
    """One of the library's methods on tasks that follow one another.

    Args:
        method: A name of ``efc.learners.LEARNERS``, or ``module:Class``.
        hidden_layer_sizes: The hidden layers' widths.
        activation: ``relu``, ``softplus``, ``sigmoid`` or ``tanh``.
        head: What becomes of the output weights when a task begins: ``analytic`` (moments of all tasks' features are
            kept), ``least_squares`` (of the new task's alone), ``random`` or any other of ``efc.learners.HEADS``.
        learning_rate: At a task's start; falls to zero within it. None: the method's own.
        epochs: Passes over a task's data.
        batch_size: Samples per batch.
        random_state: An integer makes results repeatable.
        device: ``cpu``, ``cuda``, ``cuda:N`` or ``auto``.
        standardise: Inputs may be of any scale: they are standardised by a running mean and deviation.
        options: Whatever else the method understands, by name.
    """

    def __init__(
        self,
        method: str = "ewc",
        hidden_layer_sizes: int | Sequence[int] = (500,),
        *,
        activation: str = "relu",
        head: str = "analytic",
        learning_rate: float | None = None,
        epochs: int = 20,
        batch_size: int = 32,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",
        standardise: bool = True,
        options: Mapping[str, object] | None = None,
    ) -> None:
        self.method = method
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.head = head
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.random_state = random_state
        self.device = device
        self.standardise = standardise
        self.options = options

    def _method(self) -> str:
        return self.method


class EFCClassifier(_Classifier):
    """Equilibrium Fisher Control on tasks that follow one another, without keeping their samples.

    None stands for the method's own value.

    Args:
        hidden_layer_sizes: The hidden layers' widths.
        activation: ``relu``, ``softplus``, ``sigmoid`` or ``tanh``.
        head: What becomes of the output weights: ``input_compensated``, ``compensated`` and ``analytic`` keep moments
            of all tasks' features, ``least_squares`` fits new classes to the new task alone, ``zero`` and ``random``
            leave them to training.
        pull: The weight of remembered activity.
        beta: The strength of the preservation signal.
        learning_rate: At a task's start; falls to zero within it. None: the method's own.
        epochs: Passes over a task's data.
        batch_size: Samples per batch.
        random_state: An integer makes results repeatable.
        device: ``cpu``, ``cuda``, ``cuda:N`` or ``auto``.
        standardise: Inputs may be of any scale: they are standardised by a running mean and deviation.
        options: Any other of :class:`~efc.learners.EFCOptions`, by name.
    """

    named: ClassVar[Mapping[str, str]] = {"learning_rate": "lr", "beta": "beta", "pull": "pull"}

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] = (500,),
        *,
        activation: str = "relu",
        head: str = "input_compensated",
        pull: float | None = None,
        beta: float | None = None,
        learning_rate: float | None = None,
        epochs: int = 20,
        batch_size: int = 32,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",
        standardise: bool = True,
        options: Mapping[str, object] | None = None,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.head = head
        self.pull = pull
        self.beta = beta
        self.learning_rate = learning_rate
        self.epochs = epochs
        self.batch_size = batch_size
        self.random_state = random_state
        self.device = device
        self.standardise = standardise
        self.options = options

    def _method(self) -> str:
        return "efc"
