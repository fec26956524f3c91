"""Mammoth: a model that wraps our learners. It is mixed into Mammoth's own base class, in a file of its ``models``."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from efc.adapters.backbone import Frozen
from efc.classifiers.torch_head import EFCHead


class EFCModel(nn.Module):
    """Class-IL and Task-IL on the features of Mammoth's backbone (``returnt="features"``), which stays frozen.

    Every task is learned as a whole at its end, so that ``--n_epochs 1`` is enough; the head has its own epochs.
    """

    NAME: ClassVar[str] = "efc"
    COMPATIBILITY: ClassVar[list[str]] = ["class-il", "task-il"]
    net: nn.Module
    num_classes: int
    device: torch.device | str
    head_options: ClassVar[dict[str, Any]] = {}
    """What ``EFCHead`` is made with: ``hidden``, ``method``, ``head``, ``epochs``, ``options``, ..."""

    def begin_task(self, dataset: object) -> None:
        """Nothing: there is one head for all tasks."""

    def observe(self, inputs: Tensor, labels: Tensor, not_aug_inputs: Tensor, epoch: int | None = None) -> float:
        """Nothing is learned batch by batch; there is no loss to show."""
        return 0.0

    def end_task(self, dataset: Any) -> None:
        """Learn the task from its training loader, which gives (inputs, labels, inputs without augmentation)."""
        ready: list[tuple[Tensor, Tensor]] = [(batch[0], batch[1]) for batch in dataset.train_loader]
        self._grown(ready[0][0]).learn_task(ready)

    def forward(self, x: Tensor) -> Tensor:
        """(B, N_CLASSES)."""
        return self._grown(x)(x)  # type: ignore[no-any-return]

    def _grown(self, x: Tensor) -> Frozen:
        """The head, made when the width of the features is known."""
        found = self._modules.get("frozen")  # a default in the class would hide the module
        if not isinstance(found, Frozen):
            network = _Features(self.net)
            with torch.no_grad():
                width = network(x[:1].to(self.device)).flatten(1).shape[1]
            head = EFCHead(width, device=str(self.device), **self.head_options)
            self.frozen = found = Frozen(head, self.num_classes, network)
        return found


class _Features(nn.Module):
    """Mammoth's backbone below its classifier."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x, returnt="features")  # type: ignore[no-any-return]
