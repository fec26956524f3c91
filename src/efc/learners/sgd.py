"""Sequential training by back-propagation: the lower bound."""

from __future__ import annotations

from torch import Tensor

from efc.core.network import backward, forward, outer_sums
from efc.core.outputs import loss_gradient
from efc.learners.base import Learner


class SGD(Learner):
    """Descend the mean cross-entropy of each batch over the active classes; remember nothing."""

    name = "sgd"
    recordable = True
    shipped_head = "random"

    def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        theta = self.layers.active(self.active)
        trace = forward(theta, self.sigma, x)
        deltas = backward(theta, self.sigma, trace, loss_gradient(self.output, trace.z, y))
        outer_sums(deltas, trace.r, self.layout.views(self.gradient).active(self.active), scale=1.0 / x.shape[1])
        return {}
