"""What the classifiers for scikit-learn share: tasks or a stream in, answers out, one file to keep it all."""

from __future__ import annotations

import json
import sys
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
from torch import Tensor

from efc.classifiers.file_format import Description, as_it_began, describe_labels, read, shorten, write
from efc.classifiers.growing import LARGEST, Growing, Heard, nobody
from efc.classifiers.setup import ClassWeights, Setup, check_kinds, weights_of
from efc.errors import EFCError
from efc.files import Json
from efc.plugins import named_code, untrusted
from efc.training.diagnosis import Finding, TaskFacts, findings, warn

Array = NDArray[Any]


class Classifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What the classifiers share; they differ in their constructors alone.

    Fitted attributes: ``classes_`` (sorted, met or announced), ``tasks_`` (the classes of each task so far),
    ``report_`` (what is known of each task learned since it was made or loaded, with the warnings there were),
    ``n_features_in_`` and ``model_``.
    """

    hidden_layer_sizes: int | Sequence[int]
    activation: str
    head: str | None
    learning_rate: float | None
    epochs: int
    batch_size: int
    random_state: int | np.random.RandomState | None
    device: str
    standardise: bool
    class_weight: ClassWeights
    verbose: bool
    options: Mapping[str, object] | None
    mode: str
    named: ClassVar[Mapping[str, str]] = {"learning_rate": "lr"}
    """Arguments that are options of the learner, and what they are called there."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn one task, or a stretch of a stream, and forget all before; one that fails changes nothing."""
        before = dict(self.__dict__)
        try:
            found = self._learned_afresh(X, y)
        except BaseException:
            self.__dict__ = before
            raise
        warn(found)
        return self

    def _learned_afresh(self, X: ArrayLike, y: ArrayLike) -> list[Finding]:
        X, y = self._checked(X, y, reset=True)  # notes how many features there are
        found = np.unique(y)
        model = self._begun(X.shape[1])
        if self._streams():
            return self._observe(model, X, y, known=y[:0], met=y[:0], announced=found)
        outputs, weights = torch.from_numpy(np.searchsorted(found, y)), weights_of(self.class_weight, found.tolist())
        learned = model.learn(torch.tensor(X), outputs, weights, self._heard(0))
        self.model_, self.classes_, self._met = model, found, found
        self.report_: list[dict[str, object]] = []
        return self._noted(learned)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn the next task, or with ``mode="stream"`` what has just arrived: a batch of any size, down to one
        sample. Its classes may be new or not, in any order.

        ``classes`` may announce classes that are still to come: they are in ``classes_`` from then on, with probability
        zero until they are met. Nothing else depends on it. A task that fails, or is interrupted, changes nothing.
        """
        warn(self.learned(X, y, classes))
        return self

    def learned(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> list[Finding]:
        """As :meth:`partial_fit`; what looks wrong comes back instead of being warned of."""
        first = not hasattr(self, "model_")
        X, y = self._checked(X, y, reset=first)
        found = np.unique(y)
        announced = found if classes is None else np.unique(column_or_1d(classes))
        known, met = (found[:0], found[:0]) if first else (self.classes_, self._met)
        check_kinds(found, announced, known)
        if len(strange := np.setdiff1d(found, announced)):
            raise ValueError(f"y has labels that are not in classes: {strange.tolist()}")
        model = self._begun(X.shape[1]) if first else self.model_
        if not first:
            model.adopt(self._setup(X.shape[1], model.setup.seed))
        if self._streams():
            return self._observe(model, X, y, known, met, announced)
        met = np.concatenate([met, np.setdiff1d(found, met)])
        place = np.argsort(met)
        outputs = torch.from_numpy(place[np.searchsorted(met[place], y)])
        learned = model.learn(
            torch.tensor(X), outputs, weights_of(self.class_weight, met.tolist()), self._heard(len(model.tasks))
        )
        self.model_, self.classes_, self._met = model, np.union1d(known, announced), met
        if first:
            self.report_ = []
        return self._noted(learned)

    def _heard(self, tasks: int) -> Heard:
        """Who is told of the epochs of the next task, after ``tasks`` others."""

        def tell(epoch: int) -> None:
            print(f"task {tasks + 1}: epoch {epoch} of {self.epochs}", file=sys.stderr)

        return tell if self.verbose else nobody

    def _streams(self) -> bool:
        if self.mode not in ("tasks", "stream"):
            raise ValueError(f"mode: must be 'tasks' or 'stream', got {self.mode!r}")
        if self.mode == "stream" and self.class_weight is not None:
            raise ValueError(f"class_weight: in a stream every sample counts the same; got {self.class_weight!r}")
        return self.mode == "stream"

    def _observe(self, model: Growing, X: Array, y: Array, known: Array, met: Array, announced: Array) -> list[Finding]:
        """Take in what has arrived; new classes take the next outputs in the order in which they appear."""
        _, at = np.unique(y, return_index=True)
        appeared = y[np.sort(at)]
        met = np.concatenate([met, appeared[~np.isin(appeared, met)]])
        place = np.argsort(met)
        x = torch.tensor(X)
        model.observe(x, torch.from_numpy(place[np.searchsorted(met[place], y)]))
        self.model_, self.classes_, self._met, self.report_ = model, np.union1d(known, announced), met, []
        return model.units(x)

    def _noted(self, learned: TaskFacts) -> list[Finding]:
        """What looks wrong after the last task; it is noted with what is known of that."""
        names = self._met.tolist()
        found = [*findings(learned, names, len(self.model_.tasks) - 1), *self.model_.units()]
        entry: dict[str, object] = {
            "samples": {names[k]: n for k, n in learned.samples.items()},
            "training_accuracy": learned.accuracy,
            "unsettled": learned.unsettled,
            "warnings": [one.text for one in found],
        }
        self.report_ = [*self.report_, entry]
        return found

    def predict(self, X: ArrayLike, task: int | None = None) -> Array:
        """The most likely class; with ``task`` (counted from 0) among the classes of that task alone."""
        scores = self._scores(X, task)
        return np.asarray(self.classes_[scores.argmax(1)])

    def predict_proba(self, X: ArrayLike, task: int | None = None) -> Array:
        """(samples, classes): the softmax of the network's outputs, in the order of ``classes_``.

        With the heads that keep moments they are divided by a temperature first, which was fitted to all tasks'
        samples as if the head had not seen them. Nothing is more certain than the N samples learned from allow: a share
        of ``1 / (N + 2)`` goes to all classes alike (Laplace's rule), to those that were not met, or are not of the
        ``task``, none.
        """
        scores = torch.from_numpy(self._scores(X, task))
        return self.model_.probabilities(scores).numpy()

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

    def save(self, path: str | Path, note: Mapping[str, Json] | None = None) -> None:
        """Write everything to one safetensors file: ``load`` gives a classifier that predicts and learns on alike.

        A ``note`` is kept in the file's description, for whoever wrote it.
        """
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
        if note is not None:
            about["note"] = note
        write(Path(path), self.model_.state_dict(), about)

    @classmethod
    def load(cls, path: str | Path, device: str | None = None, trust: bool = False) -> Self:
        """What ``save`` wrote; ``device`` if it is to compute elsewhere than it did.

        A file may name code of someone's own, a method or a regulariser. To import it is to run it: it is refused
        unless ``trust`` says that whoever made the file may run code here.
        """
        state, about = read(Path(path))
        try:
            return cls._restored(state, Description.of(about), device, trust)
        except EFCError as mistake:  # which may quote the file
            raise EFCError(f"{path}: {shorten(str(mistake), 600)}") from None
        except Exception as problem:  # a description may be wrong in more ways than can be listed
            told = shorten(f"{type(problem).__name__}: {problem}", 300)
            raise EFCError(f"{path}: this is no {cls.__name__} that can be restored ({told})") from problem

    @classmethod
    def _restored(cls, state: Mapping[str, Tensor], about: Description, device: str | None, trust: bool) -> Self:
        if about.estimator != cls.__name__:
            raise EFCError(f"this is a saved {about.estimator}, not a {cls.__name__}")
        parameters = dict(about.parameters)
        if unknown := sorted(parameters.keys() - set(cls._get_param_names())):
            raise EFCError(f"parameters: {', '.join(unknown)} is none of {cls.__name__}'s")
        for name in named_code([parameters.get("method"), parameters.get("options")]):
            if not trust:
                raise untrusted("this file", name, "if you trust whoever made it, load it with trust=True")
        found = cls(**as_it_began(parameters, state) | ({} if device is None else {"device": device}))
        if isinstance(found.hidden_layer_sizes, list):  # JSON knows no tuples
            found.hidden_layer_sizes = tuple(found.hidden_layer_sizes)
        if isinstance(found.class_weight, dict):  # nor keys that are numbers
            names = {label if isinstance(label, str) else json.dumps(label): label for label in about.classes.tolist()}
            found.class_weight = {names.get(key, key): weight for key, weight in found.class_weight.items()}
        check_random_state(found.random_state)
        found.n_features_in_ = about.n_features
        found.model_ = Growing.restored(found._setup(about.n_features, about.seed), state)
        if len(about.met) != found.model_.n_outputs or not len(about.met):
            raise EFCError(f"met: there are {len(about.met)} labels for {found.model_.n_outputs} outputs")
        found.classes_, found._met, found.report_ = about.classes, about.met, []
        if about.feature_names:
            found.feature_names_in_ = np.array(about.feature_names, dtype=object)
        found.model_.check_answers()
        return found

    def _method(self) -> str:
        raise NotImplementedError

    def _setup(self, n_features: int, seed: int) -> Setup:
        sizes = self.hidden_layer_sizes
        options: dict[str, object] = {} if self.standardise else {"inputs": "raw"}
        options |= self.options or {}
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
            stream=self._streams(),
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
        self.model_.settle()
        warn(self.model_.far(torch.tensor(features)), stacklevel=4)
        z = self.model_.exact_logits(torch.tensor(features), task).numpy()
        if not (np.abs(z if task is None else z[:, self.model_.tasks[task]]) < LARGEST).all():
            raise EFCError("predict: some outputs are not finite; the features are too large for this network")
        scores = np.full((len(features), len(self.classes_)), -np.inf)
        scores[:, np.searchsorted(self.classes_, self._met)] = z
        return scores
