"""Back-propagation with remembered activity: the fair rivals of EFC with the same memory."""

from __future__ import annotations

from dataclasses import dataclass

from efc.core.axis import PerRun
from efc.learners.ewc import EWC, EWCOptions
from efc.learners.options import Options, learning_rate, number
from efc.learners.sgd import SGD


def pull_option() -> float:
    """The option ``pull``, the same for every method that has it."""
    doc = "weight p of the penalty p R of remembered activity"
    return number(0.3, inclusive=True, high=1e6, search=(1e-3, 1e1), doc=doc, changeable=True)


def head_pull_option() -> float:
    """The option ``head_pull``, likewise."""
    return number(1.0, inclusive=True, high=1e6, doc="further factor of the head's pull")


@dataclass(frozen=True)
class ActivityOptions(Options):
    """``pull`` is the weight p of the penalty ``p R``, ``R = 1/2 sum tr(dW A dW^T)``."""

    lr: PerRun = learning_rate(3e-3)
    pull: PerRun = pull_option()
    head_pull: PerRun = head_pull_option()


class Activity(SGD):
    """Back-propagation plus ``p/2 sum_i tr(dW_i A_i dW_i^T)``: pre-activations on old activity stay as they were."""

    name = "activity"
    recordable = True
    streams = True
    options_type = ActivityOptions


@dataclass(frozen=True)
class ActivityEWCOptions(EWCOptions):
    """``pull`` as in :class:`ActivityOptions`, ``strength`` and ``head_strength`` as in EWC."""

    lr: PerRun = learning_rate(3e-3)
    pull: PerRun = pull_option()
    head_pull: PerRun = head_pull_option()


class ActivityEWC(EWC):
    """Back-propagation plus both penalties: remembered activity and the diagonal Fisher."""

    name = "activity_ewc"
    recordable = True
    options_type = ActivityEWCOptions
