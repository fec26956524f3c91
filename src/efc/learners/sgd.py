"""Sequential training by back-propagation: the lower bound."""

from __future__ import annotations

from torch import Tensor

from efc.core.network import forward, mean_loss_gradient
from efc.core.outputs import loss_gradient
from efc.learners.gradient import GradientLearner


class SGD(GradientLearner):
    """Descend the mean cross-entropy of each batch over the active classes; remember nothing."""

    name = "sgd"
    recordable = True
    streams = True

    def descent(self, x: Tensor, y: Tensor) -> dict[str, Tensor]:
        theta = self.layers.active(self.active)
        trace = forward(theta, self.sigma, x)
        out = self.layout.views(self.gradient).active(self.active)
        mean_loss_gradient(theta, self.sigma, trace, self.output_error(trace.z, y), out)
        return {}

    def output_error(self, z: Tensor, y: Tensor) -> Tensor:
        """``dLoss/dz`` of every sample, for outputs z and one-hot y over the active classes, (R, B, C) each."""
        return loss_gradient(self.output, z, y)
