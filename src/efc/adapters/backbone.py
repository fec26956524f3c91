"""A frozen network with an :class:`EFCHead`; its outputs stand where other libraries look for them: at their label."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import torch
from torch import Tensor, nn

from efc.adapters.torch_data import features
from efc.classifiers.torch_head import EFCHead
from efc.errors import EFCError

UNSEEN = -1e9
"""The output of a class that has not been learned: finite, so that losses and softmax stay numbers."""


class Frozen(nn.Module):
    """Logits (B, n_classes) with a column per label 0..n_classes-1.

    Args:
        head: Learns from the features; its ``n_features`` are the network's.
        n_classes: How many labels there are going to be.
        network: Makes the features, and is never trained; None: the inputs, flattened.
    """

    def __init__(self, head: EFCHead, n_classes: int, network: nn.Module | None = None) -> None:
        super().__init__()
        self.head, self.n_classes, self.network = head, n_classes, network
        if network is not None:
            network.requires_grad_(False)

    def learn_task(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Self:
        """The next task, from batches of (inputs, labels)."""
        ready = [(features(x, self.network), y) for x, y in batches]
        if any(bool((y >= self.n_classes).any() | (y < 0).any()) for _, y in ready):
            raise EFCError(f"labels: must lie in 0..{self.n_classes - 1}; n_classes is {self.n_classes}")
        self.head.learn_task(ready)
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Outputs, at their labels' places."""
        found = features(x, self.network)
        logits = found.new_full((len(found), self.n_classes), UNSEEN)
        if self.head.classes:
            logits[:, torch.tensor(self.head.classes, device=logits.device)] = self.head(found).to(logits)
        return logits
