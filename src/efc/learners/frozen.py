"""The control every table needs: features of the first task alone, and a head that goes on learning."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from efc.core.axis import PerRun
from efc.learners.options import Options, number
from efc.learners.sgd import SGD


@dataclass(frozen=True)
class FrozenOptions(Options):
    """As every learner's, but the rate may be zero: not even the first task is learned, the features stay random."""

    lr: PerRun = number(
        1e-3,
        inclusive=True,
        search=(1e-6, 1e-2),
        doc="learning rate at the first task's start; 0: nothing is trained",
        changeable=True,
    )


class Frozen(SGD):
    """Train the first task as :class:`SGD` does; from then on change nothing but the head.

    Whoever is better than this has learned something after the first task. With ``lr=0`` nothing is trained at all:
    what the head policy makes of random features.
    """

    name = "frozen"
    recordable = True
    options_type = FrozenOptions

    def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        statistics = super().descent(x, y)
        if self.tasks_seen > 0:
            layers = self.layout.views(self.gradient)
            for t in (*layers.weights[:-1], *layers.biases[:-1]):
                t.zero_()
        return statistics
