"""The control every table needs: features of the first task alone, and a head that goes on learning."""

from __future__ import annotations

from torch import Tensor

from efc.learners.sgd import SGD


class Frozen(SGD):
    """Train the first task as :class:`SGD` does; from then on change nothing but the head.

    Whoever is better than this has learned something after the first task.
    """

    name = "frozen"
    recordable = True
    shipped_head = "least_squares"

    def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        statistics = super().descent(x, y)
        if self.tasks_seen > 0:
            layers = self.layout.views(self.gradient)
            for t in (*layers.weights[:-1], *layers.biases[:-1]):
                t.zero_()
        return statistics
