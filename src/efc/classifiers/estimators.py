"""Continual learners as scikit-learn estimators: ``partial_fit`` is the next task, and brings any classes it likes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from efc.classifiers.base import Classifier
from efc.classifiers.setup import ClassWeights
from efc.training.loop import BATCH_SIZE, EPOCHS, HIDDEN


class ContinualClassifier(Classifier):
    """One of the library's methods on tasks that follow one another.

    Args:
        method: A name of ``efc.learners.LEARNERS``, or ``module:Class``.
        hidden_layer_sizes: The hidden layers' widths.
        activation: ``relu``, ``smooth_relu``, ``softplus``, ``sigmoid`` or ``tanh``.
        head: What becomes of the output weights: ``input_compensated``, ``compensated`` and ``analytic`` keep moments
            of all tasks' features, ``least_squares`` fits new classes to the new task alone, ``zero`` and ``random``
            leave them to training. None: ``input_compensated`` where the method takes it.
        learning_rate: At a task's start; falls to zero within it. None: the method's own.
        epochs: Passes over a task's data.
        batch_size: Samples per batch.
        random_state: An integer makes results repeatable.
        device: ``cpu``, ``cuda``, ``cuda:N`` or ``auto``.
        standardise: Inputs may be of any scale: they are standardised by a running mean and deviation.
        class_weight: How much a class's samples count: ``balanced`` (all classes the same, however many samples they
            have), or a mapping from labels to weights, 1 for those it leaves out. None: every sample counts the same.
        verbose: A line on stderr after every epoch.
        options: Whatever else the method understands, by name.
        mode: ``tasks``: every ``partial_fit`` is a task; ``stream``: what has just arrived, in batches of any size.
    """

    def __init__(
        self,
        method: str = "ewc",
        hidden_layer_sizes: int | Sequence[int] = HIDDEN,
        *,
        activation: str = "relu",
        head: str | None = None,
        learning_rate: float | None = None,
        epochs: int = EPOCHS,
        batch_size: int = BATCH_SIZE,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",
        standardise: bool = True,
        class_weight: ClassWeights = None,
        verbose: bool = False,
        options: Mapping[str, object] | None = None,
        mode: str = "tasks",
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
        self.class_weight = class_weight
        self.verbose = verbose
        self.options = options
        self.mode = mode

    def _method(self) -> str:
        return self.method


class EFCClassifier(Classifier):
    """Equilibrium Fisher Control on tasks that follow one another, without keeping their samples.

    None stands for the method's own value.

    Args:
        hidden_layer_sizes: The hidden layers' widths.
        activation: ``relu``, ``smooth_relu``, ``softplus``, ``sigmoid`` or ``tanh``.
        head: What becomes of the output weights: ``input_compensated`` (None), ``compensated`` and ``analytic`` keep
            moments of all tasks' features, ``least_squares`` fits new classes to the new task alone, ``zero`` and
            ``random`` leave them to training.
        pull: The weight of remembered activity.
        beta: The strength of the preservation signal.
        learning_rate: At a task's start; falls to zero within it. None: the method's own.
        epochs: Passes over a task's data.
        batch_size: Samples per batch.
        random_state: An integer makes results repeatable.
        device: ``cpu``, ``cuda``, ``cuda:N`` or ``auto``.
        standardise: Inputs may be of any scale: they are standardised by a running mean and deviation.
        class_weight: How much a class's samples count: ``balanced`` (all classes the same, however many samples they
            have), or a mapping from labels to weights, 1 for those it leaves out. None: every sample counts the same.
        verbose: A line on stderr after every epoch.
        options: Any other of :class:`~efc.learners.EFCOptions`, by name.
        mode: ``tasks``: every ``partial_fit`` is a task; ``stream``: what has just arrived, in batches of any size.
    """

    named: ClassVar[Mapping[str, str]] = {"learning_rate": "lr", "beta": "beta", "pull": "pull"}

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] = HIDDEN,
        *,
        activation: str = "relu",
        head: str | None = None,
        pull: float | None = None,
        beta: float | None = None,
        learning_rate: float | None = None,
        epochs: int = EPOCHS,
        batch_size: int = BATCH_SIZE,
        random_state: int | np.random.RandomState | None = None,
        device: str = "cpu",
        standardise: bool = True,
        class_weight: ClassWeights = None,
        verbose: bool = False,
        options: Mapping[str, object] | None = None,
        mode: str = "tasks",
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
        self.class_weight = class_weight
        self.verbose = verbose
        self.options = options
        self.mode = mode

    def _method(self) -> str:
        return "efc"
