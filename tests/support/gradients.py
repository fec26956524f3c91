"""Gradients of single samples, by automatic differentiation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from efc.core.network import Layout
from efc.learners import TaskData


def logits(layout: Layout, theta: Tensor, x: Tensor) -> Tensor:
    """The network once more, for one run and one sample, from the flat parameters (P,)."""
    layers = layout.views(theta.unsqueeze(0))
    for i, (W, b) in enumerate(zip(layers.weights, layers.biases, strict=True)):
        x = W[0] @ x + b[0]
        x = torch.relu(x) if i < len(layers.weights) - 1 else x
    return x


def sample_gradients(learner: Any, run: int, task: TaskData, kind: str) -> Tensor:
    """(N, P): the gradient of each sample's cross-entropy, or of the squared norm of its output, by autograd."""
    found = []
    for x, y in zip(task.x, task.y, strict=True):
        theta = learner.theta[run].clone().requires_grad_()
        z = logits(learner.layout, theta, x)[task.active]
        label = int(y) - task.active.start
        loss = -torch.log_softmax(z, 0)[label] if kind == "loss" else z.square().sum()
        found.append(torch.autograd.grad(loss, theta)[0])
    return torch.stack(found)
