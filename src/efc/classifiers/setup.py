"""What a learner on arriving classes is made of, and how it is trained; class weights as a user gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, SupportsIndex, TypeAlias

import torch
from numpy.typing import NDArray

from efc.core.activations import ACTIVATIONS
from efc.environment import pick_device
from efc.errors import EFCError, choose
from efc.learners import Learner, Options, find_learner
from efc.learners.options import Values
from efc.training.batches import ClassWeight
from efc.training.loop import BATCH_SIZE, EPOCHS, HIDDEN

ClassWeights: TypeAlias = str | Mapping[Any, float] | None
"""As a user gives them: ``balanced``, or by label; None: every sample counts the same."""


@dataclass(frozen=True)
class Setup:
    """What a learner is made of, and how it is trained; checked when it is made.

    Args:
        n_features: length of an input.
        hidden: widths of the hidden layers.
        method: name of the method, or one's own as ``module:Class``.
        head: name of the head policy; None: the method's usual one.
        activation: name of the hidden units' activation.
        epochs: passes over each task's data.
        batch_size: samples in a step.
        seed: of the initial weights, and of the order of samples.
        device: ``cpu``, ``cuda``, ``cuda:N`` or ``auto``.
        dtype: ``torch.float32`` or ``torch.float64``.
        options: the method's options, those that are not to have their default value.
        stream: whether it learns as data arrive, without tasks; ``epochs`` and ``batch_size`` do not count then.
    """

    n_features: int
    hidden: tuple[int, ...] = HIDDEN
    method: str = "efc"
    head: str | None = None
    activation: str = "relu"
    epochs: int = EPOCHS
    batch_size: int = BATCH_SIZE
    seed: int = 0
    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    options: Values = field(default_factory=dict)
    stream: bool = False

    def __post_init__(self) -> None:
        for width in self.hidden:
            whole("hidden layer sizes", width)
        for name in ("n_features", "epochs", "batch_size"):
            whole(name, getattr(self, name))
        choose("activation", self.activation, ACTIVATIONS)
        if self.head is not None:
            choose("head", self.head, self.learner_type.heads)
        if self.stream:
            self.learner_type.check_streams(self.chosen_head)
        if self.dtype not in (torch.float32, torch.float64):
            raise EFCError(f"dtype: the learner computes in float32 or float64, not {self.dtype}")
        _ = self.checked  # a mistake in the options is told at once

    @property
    def learner_type(self) -> type[Learner]:
        return find_learner(self.method)

    @cached_property
    def checked(self) -> Options:
        """The options, parsed once."""
        return self.learner_type.options_type.from_mapping(self.options)

    @property
    def chosen_head(self) -> str:
        """The head policy that is named, or the method's usual one."""
        usual = self.learner_type.stream_head if self.stream else self.learner_type.shipped_head
        return self.head or usual

    def lasting(self) -> dict[str, object]:
        """What must be the same from task to task."""
        names, checked = ("n_features", "method", "activation", "seed"), self.checked
        options = {key: value for key, value in checked.named(self.options).items() if key not in checked.changeable()}
        options["pull"] = checked.remembers  # with no pull at all, no activity is remembered
        found: dict[str, object] = {
            "hidden layer sizes": self.hidden,
            "head": self.chosen_head,
            "mode": self.stream,
        }
        return found | {name: getattr(self, name) for name in names} | {"options": options}

    @property
    def own_code(self) -> bool:
        """Whether the method is the user's own."""
        return ":" in self.method

    def make(self, n_outputs: int) -> Learner:
        return self.learner_type(
            (self.n_features, *self.hidden, n_outputs),
            [self.seed],
            self.checked,
            head=self.chosen_head,
            activation=self.activation,
            device=pick_device(self.device),
            dtype=self.dtype,
        )


def weights_of(given: ClassWeights, labels: Sequence[object]) -> ClassWeight:
    """``class_weight`` as a user gives it, by outputs; ``labels`` are those of the outputs."""
    if given is None or isinstance(given, str):
        return given
    if not isinstance(given, Mapping):
        raise EFCError(f"class_weight: expected None, 'balanced' or a weight for each class, got {given!r}")
    return {output: given[label] for output, label in enumerate(labels) if label in given}


def whole(name: str, value: object, least: int = 1) -> int:
    """A whole number of at least ``least``; numpy's count too."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or int(value) < least:
        raise EFCError(f"{name}: must be a whole number of at least {least}, got {value!r}")
    return int(value)


def check_kinds(*labels: NDArray[Any]) -> None:
    """Numbers and texts do not go together: numpy would silently turn the numbers into texts."""
    kinds = {part.dtype.kind in "biuf" for part in labels if len(part)}
    if len(kinds) > 1:
        raise ValueError("y: some labels are numbers and some are texts; the classes of a classifier are of one kind")
