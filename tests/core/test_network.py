"""The mean loss gradient against automatic differentiation."""

from __future__ import annotations

import pytest
import torch

from efc.core import Layout, activation, forward, initialise, mean_loss_gradient
from efc.core.outputs import loss_gradient


@pytest.mark.parametrize("output", ["softmax", "linear"])
@pytest.mark.parametrize("sizes", [(5, 4), (5, 6, 3, 4)])
def test_the_mean_loss_gradient_is_that_of_autograd(output: str, sizes: tuple[int, ...]) -> None:
    """Over the active classes alone; the head's other rows are not touched."""
    layout, sigma, g = Layout(sizes), activation("softplus"), torch.Generator().manual_seed(0)
    flat = initialise(layout, [torch.Generator().manual_seed(s) for s in (1, 2)], torch.float64).requires_grad_()
    x = torch.rand(2, 7, 5, generator=g, dtype=torch.float64)
    classes = slice(1, 4)
    y = torch.nn.functional.one_hot(torch.randint(3, (2, 7), generator=g), 3).double()
    z = forward(layout.views(flat).active(classes), sigma, x).z
    each = -(torch.log_softmax(z, -1) * y).sum(-1) if output == "softmax" else 0.5 * (z - y).square().sum(-1)
    (expected,) = torch.autograd.grad(each.mean(1).sum(), flat)
    with torch.no_grad():
        layers = layout.views(flat).active(classes)
        trace = forward(layers, sigma, x)
        found = torch.full_like(flat, 9.0)
        out = layout.views(found)
        mean_loss_gradient(layers, sigma, trace, loss_gradient(output, trace.z, y), out.active(classes))
    wanted = layout.views(expected)
    for mine, theirs in zip(
        (*out.weights[:-1], *out.biases[:-1]), (*wanted.weights[:-1], *wanted.biases[:-1]), strict=True
    ):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(out.weights[-1][:, classes], wanted.weights[-1][:, classes])
    torch.testing.assert_close(out.biases[-1][:, classes], wanted.biases[-1][:, classes])
    assert (out.weights[-1][:, :1] == 9).all()
