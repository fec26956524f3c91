"""A continual learner as the head of one's own frozen backbone: a torch module that is given tasks, not gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from efc.classifiers.growing import Growing
from efc.classifiers.setup import Setup, weights_of
from efc.errors import EFCError
from efc.training.diagnosis import findings, warn
from efc.training.loop import BATCH_SIZE, EPOCHS, HIDDEN


class EFCHead(nn.Module):
    """Classes arrive over time; :meth:`learn_task` learns the next ones without forgetting those before.

    It has no parameters that an optimiser could train: it learns by its method alone.

    Args:
        n_features: The width of the features.
        hidden: The widths of the layers between the features and the outputs.
        method: A name of ``efc.learners.LEARNERS``, or ``module:Class``.
        head: What becomes of the output weights; None: ``input_compensated`` where the method takes it.
        activation: ``relu``, ``smooth_relu``, ``softplus``, ``sigmoid`` or ``tanh``.
        epochs: Passes over a task's data.
        batch_size: Samples per batch.
        seed: Of the initial weights and of the order of batches.
        device: Where it computes.
        standardise: Features may be of any scale: they are standardised by a running mean and deviation.
        class_weight: How much a class's samples count: ``balanced``, or a mapping from labels to weights; None: all the
            same.
        options: Whatever else the method understands, by name.

    Examples:
        >>> features, labels = torch.randn(40, 16), torch.arange(40) % 2
        >>> head = EFCHead(n_features=16, epochs=1).learn_task([(features, labels)])  # any iterable of batches
        >>> head(features).shape  # (batch, classes met so far), columns as in ``head.classes``
        torch.Size([40, 2])
    """

    def __init__(
        self,
        n_features: int,
        hidden: Sequence[int] = HIDDEN,
        method: str = "efc",
        *,
        head: str | None = None,
        activation: str = "relu",
        epochs: int = EPOCHS,
        batch_size: int = BATCH_SIZE,
        seed: int = 0,
        device: torch.device | str = "cpu",
        standardise: bool = True,
        class_weight: str | Mapping[int, float] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__()
        setup = Setup(
            n_features=n_features,
            hidden=tuple(hidden),
            method=method,
            head=head,
            activation=activation,
            epochs=epochs,
            batch_size=batch_size,
            seed=seed,
            device=str(device),
            options={**({} if standardise else {"inputs": "raw"}), **(options or {})},
        )
        self.class_weight = class_weight
        self.growing = Growing(setup)
        self._classes: list[int] = []

    @property
    def classes(self) -> list[int]:
        """The labels met so far, in the order of the logits' columns."""
        return list(self._classes)

    @property
    def tasks(self) -> list[list[int]]:
        """The labels of each task so far."""
        return [[self._classes[k] for k in outputs] for outputs in self.growing.tasks]

    @property
    def device(self) -> torch.device:
        return self.growing.device

    def learn_task(self, data: object) -> Self:
        """Learn the next task.

        ``data`` is a pair (features (N, n_features), integer labels (N,)) of tensors, numpy arrays or lists, or
        batches of such pairs: a ``DataLoader``, a list, any iterable. They are gone through once and held in memory
        while the task is learned: the importances and the head are found from all of them together. If anything fails,
        the head stays as it was.
        """
        batches = [(self._checked(x).detach(), _checked_labels(y)) for x, y in _pairs(data)]
        if sum(len(labels) for _, labels in batches) == 0:
            raise EFCError("learn_task: the loader gave no samples")
        if any(len(features) != len(labels) for features, labels in batches):
            raise EFCError("learn_task: a batch has not as many labels as features")
        x, y = torch.cat([features for features, _ in batches]), torch.cat([labels for _, labels in batches])
        found = torch.unique(y).tolist()
        classes = [*self._classes, *(label for label in found if label not in self._classes)]
        output = {label: k for k, label in enumerate(classes)}
        outputs = torch.tensor([output[label] for label in y.tolist()])
        learned = self.growing.learn(x, outputs, weights_of(self.class_weight, classes))
        self._classes = classes
        warn([*findings(learned, classes, len(self.growing.tasks) - 1), *self.growing.units()])
        return self

    def observe(self, features: object, labels: object) -> Self:
        """Learn from what has just arrived, a batch of any size, down to one sample; no task is meant.

        Labels may be new at any time. What has been given tasks cannot observe, and the other way round.
        """
        if self.class_weight is not None:
            raise EFCError(f"class_weight: in a stream every sample counts the same; got {self.class_weight!r}")
        x, y = self._checked(_tensor("features", features)).detach(), _checked_labels(_tensor("labels", labels))
        if x.dim() != 2 or len(x) != len(y):
            raise EFCError(f"observe: {len(y)} labels do not go with features {tuple(x.shape)}")
        classes = list(dict.fromkeys([*self._classes, *y.tolist()]))
        output = {label: k for k, label in enumerate(classes)}
        self.growing.observe(x, torch.tensor([output[label] for label in y.tolist()], dtype=torch.long))
        self._classes = classes
        warn(self.growing.units(x))
        return self

    def forward(self, features: Tensor | ArrayLike, task: int | None = None) -> Tensor:
        """Logits (..., classes) for features (..., n_features); with ``task``, -inf for classes not of that task."""
        features = self._checked(_tensor("features", features))
        self.growing.settle()
        z = self.growing.logits(features.reshape(-1, features.shape[-1]), task)
        return z.reshape(*features.shape[:-1], z.shape[-1])

    def predict(self, features: Tensor | ArrayLike, task: int | None = None) -> Tensor:
        """The most likely label of each sample."""
        if not self._classes:
            raise EFCError("predict: no task has been learned yet")
        features = self._checked(_tensor("features", features))
        warn(self.growing.far(features.reshape(-1, features.shape[-1])))
        z = self(features, task)
        if not bool((torch.isfinite(z) | ((z == float("-inf")) & (task is not None))).all()):
            raise EFCError("predict: some outputs are not finite; the features are too large for this network")
        best = z.argmax(-1)
        return torch.tensor(self._classes, device=best.device)[best]

    def extra_repr(self) -> str:
        s = self.growing.setup
        return f"{s.n_features}, hidden={s.hidden}, method={s.method!r}, head={s.head!r}, classes={self._classes}"

    def _checked(self, features: Tensor) -> Tensor:
        n = self.growing.setup.n_features
        if features.is_complex():
            raise EFCError(f"features: expected real numbers, got {features.dtype}")
        if features.dim() < 1 or features.shape[-1] != n:
            raise EFCError(f"features: expected (..., {n}), got {tuple(features.shape)}")
        if not bool(torch.isfinite(features).all()):
            raise EFCError("features: some features are not finite; NaN and infinity have no place among them")
        return features

    # -- how torch moves and stores it -------------------------------------------------------------------------------

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """``.to``, ``.cuda``, ``.double`` hand a function down: what it does to a tensor says where to go."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        dtype = self.growing.setup.dtype
        probe = fn(torch.zeros(1, dtype=dtype, device=self.device))
        if (probe.device, probe.dtype) != (self.device, dtype):
            self.growing.to(probe.device, probe.dtype)
        return self

    def _save_to_state_dict(self, destination: dict[str, Tensor], prefix: str, keep_vars: bool) -> None:
        """All plain tensors, so that safetensors takes them as well as torch.save."""
        state = {"classes": torch.tensor(self._classes, dtype=torch.int64)} | self.growing.state_dict()
        destination.update({prefix + key: value for key, value in state.items()})

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Tensor],
        prefix: str,
        local_metadata: Mapping[str, object],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """The number of classes is the state's; everything the constructor was given must be the same."""
        state = {key.removeprefix(prefix): value for key, value in state_dict.items() if key.startswith(prefix)}
        if "classes" not in state:
            missing_keys.append(f"{prefix}classes")
            return
        labels = state.pop("classes")
        classes = labels.tolist()
        try:
            if labels.dim() != 1 or labels.dtype != torch.int64 or len(set(classes)) != len(classes):
                raise EFCError(f"state: classes {labels.dtype} {tuple(labels.shape)} are no labels, each once")
            if len(classes) != state["tasks"].shape[-1]:
                raise EFCError(f"state: {len(classes)} classes, and tasks {tuple(state['tasks'].shape)}")
            self.growing.load_state_dict(state)
        except Exception as problem:  # what torch raises depends on what is wrong with which tensor
            error_msgs.append(f"{prefix or 'EFCHead'}: the state does not fit this head: {problem}")
            return
        self._classes = classes


def _pairs(data: object) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of (features, labels); what is one pair is one batch."""
    if isinstance(data, tuple | list) and len(data) == 2 and _is_labels(data[1]):
        yield _tensor("features", data[0]), _tensor("labels", data[1])
        return
    if not isinstance(data, Iterable):
        raise EFCError(f"learn_task: expected (features, labels) or batches of them, got {type(data).__name__}")
    for batch in data:
        if not isinstance(batch, tuple | list) or len(batch) != 2:
            raise EFCError(f"learn_task: expected batches of (features, labels), got a {type(batch).__name__}")
        yield _tensor("features", batch[0]), _tensor("labels", batch[1])


def _is_labels(value: object) -> bool:
    """Whether this is one label per sample, not a batch."""
    if isinstance(value, Tensor):
        return value.dim() == 1
    try:
        return np.ndim(value) == 1  # type: ignore[arg-type]
    except ValueError:  # a batch: its two parts are of different shapes
        return False


def _tensor(name: str, value: object) -> Tensor:
    if isinstance(value, Tensor):
        if value.layout is not torch.strided:
            raise EFCError(f"{name}: sparse tensors are not taken; call .to_dense()")
        return value
    if hasattr(value, "toarray"):
        raise EFCError(f"{name}: sparse matrices are not taken; call .toarray()")
    try:
        found = np.asarray(value)
    except (TypeError, ValueError) as problem:
        raise EFCError(f"{name}: expected numbers, got {type(value).__name__}: {problem}") from None
    if found.dtype.kind not in "biufc":  # texts, dates, objects
        raise EFCError(f"{name}: expected numbers, got {type(value).__name__} of the kind {found.dtype}")
    if found.dtype == np.longdouble:  # torch has no such numbers
        found = found.astype(np.float64)
    return torch.as_tensor(found.astype(found.dtype.newbyteorder("=")))


def _checked_labels(labels: Tensor) -> Tensor:
    if labels.dim() != 1 or labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise EFCError(f"labels: expected integers (B,), got {labels.dtype} {tuple(labels.shape)}")
    return labels.long().cpu()
