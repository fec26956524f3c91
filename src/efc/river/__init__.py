"""EFC as a classifier of River: one sample at a time, features by name, labels of any kind. Needs ``river``."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from efc.classifiers.growing import Growing
from efc.classifiers.setup import Setup
from efc.errors import EFCError, EFCWarning, shown
from efc.learners.arrivals import WINDOW
from efc.training.diagnosis import warn
from efc.training.loop import HIDDEN

if TYPE_CHECKING:
    import pandas as pd

try:
    from river.base import MiniBatchClassifier
except ImportError:
    raise EFCError(
        "efc.river: river is missing; install it with: pip install 'equilibrium-fisher-control[river]'"
    ) from None

Sample = Mapping[Hashable, float]


class EFCClassifier(MiniBatchClassifier):
    """Equilibrium Fisher Control on a stream: classes may appear at any time, and old ones are not forgotten.

    A feature that a sample does not have is zero. New features are taken in during the first 512 samples; those that
    appear later are left out, and a warning says so.

    Parameters
    ----------
    hidden
        The widths of the hidden layers.
    method
        A method of ``efc`` that learns without tasks.
    head
        What becomes of the output weights; None: the method's usual one.
    seed
        Of the initial weights.
    options
        Whatever else the method understands, by name.
    """

    def __init__(
        self,
        hidden: Sequence[int] = HIDDEN,
        method: str = "efc",
        head: str | None = None,
        seed: int = 0,
        options: Mapping[str, object] | None = None,
    ) -> None:
        self.hidden = hidden
        self.method = method
        self.head = head
        self.seed = seed
        self.options = options
        self._features: list[Hashable] = []
        self._labels: list[Hashable] = []
        self._growing: Growing | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Arrays, not tensors: of the same state, a pickle has the same bytes."""
        growing = self._growing
        state = None if growing is None else {key: value.numpy() for key, value in growing.state_dict().items()}
        return self.__dict__ | {"_growing": None if growing is None else (growing.setup, state)}

    def __setstate__(self, given: dict[str, Any]) -> None:
        kept = given["_growing"]
        self.__dict__.update(given)
        if kept is not None:
            setup, state = kept
            self._growing = Growing.restored(setup, {key: torch.from_numpy(value) for key, value in state.items()})

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"hidden": (8,)}

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Sample, y: Hashable) -> None:
        """Learn a single sample."""
        self._learn([x], [y])

    def learn_many(self, X: pd.DataFrame, y: pd.Series) -> None:
        """Learn the rows of a data frame, in their order."""
        self._learn(_rows(X), list(y))

    def predict_proba_one(self, x: Sample, **kwargs: Any) -> dict[Any, float]:
        """The probabilities of all labels met so far."""
        return dict(zip(self._labels, self._probabilities([x])[0].tolist(), strict=True)) if self._labels else {}

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """The same for the rows of a data frame, a column for every label."""
        import pandas as pd

        rows = _rows(X)
        found = self._probabilities(rows).numpy() if rows and self._labels else None
        return pd.DataFrame(found, index=X.index, columns=list(self._labels))

    def _learn(self, samples: Sequence[Sample], labels: Sequence[Hashable]) -> None:
        if len(samples) != len(labels):
            raise EFCError(f"y: expected a label for each of {len(samples)} samples, got {len(labels)}")
        if not samples:
            return
        names = dict.fromkeys(name for x in samples for name in _checked(x))
        features, growing = self._with(names)
        known = list(dict.fromkeys([*self._labels, *labels]))
        output = {label: k for k, label in enumerate(known)}
        x = _matrix(samples, features)
        growing.observe(x, torch.tensor([output[label] for label in labels]))
        self._growing, self._labels, self._features = growing, known, features
        warn(growing.units(x), stacklevel=4)

    def _with(self, names: Mapping[Hashable, None]) -> tuple[list[Hashable], Growing]:
        """Names of features, those of these names among them, and the learner with room for them."""
        new = sorted((name for name in names if name not in self._features), key=repr)
        if self._growing is None:
            return new, self._made(new)
        if not new:
            return self._features, self._growing
        learner = self._growing.learner
        assert learner is not None
        assert learner.arrivals is not None
        if learner.arrivals.seen >= WINDOW:
            told = f"features that appear after {WINDOW} samples are left out: {', '.join(map(str, new[:5]))}"
            warnings.warn(told, EFCWarning, stacklevel=4)
            return self._features, self._growing
        # All there was is still there: it is learned again, with what was missing as zero.
        x, y = learner.arrivals.x[:, : len(self._features)], learner.arrivals.y
        features = [*self._features, *new]
        wider = self._made(features)
        wider.observe(torch.cat([x, x.new_zeros(len(x), len(features) - x.shape[1])], 1), y)
        return features, wider

    def _made(self, features: Sequence[Hashable]) -> Growing:
        return Growing(
            Setup(
                n_features=max(1, len(features)),
                hidden=tuple(self.hidden),
                method=self.method,
                head=self.head,
                seed=self.seed,
                options=dict(self.options or {}),
                stream=True,
            )
        )

    def _probabilities(self, samples: Sequence[Sample]) -> Tensor:
        assert self._growing is not None
        self._growing.settle()
        x = _matrix([_checked(one) for one in samples], self._features)
        return torch.softmax(self._growing.exact_logits(x), 1)


def _rows(X: pd.DataFrame) -> list[Sample]:
    if not hasattr(X, "to_dict"):
        raise EFCError(f"X: expected a data frame of pandas, got {type(X).__name__}")
    rows: list[Sample] = X.to_dict("records")
    return rows


def _checked(x: Sample) -> Sample:
    if not isinstance(x, Mapping):
        raise EFCError(f"x: expected a dictionary from features to numbers, got {type(x).__name__}")
    return x


def _matrix(samples: Sequence[Sample], features: Sequence[Hashable]) -> Tensor:
    """(samples, features): zero for what a sample lacks, or has as NaN, a data frame's word for what is not there."""
    rows = [[_number(name, x.get(name, 0.0)) for name in features] or [0.0] for x in samples]
    return torch.tensor(rows, dtype=torch.float64)


def _number(name: Hashable, value: object) -> float:
    try:
        found = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        found = math.inf
    if math.isinf(found):
        raise EFCError(f"x: feature {name!r} must be a finite number, got {shown(value)}")
    return 0.0 if math.isnan(found) else found
