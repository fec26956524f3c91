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


def test_how_parameters_are_drawn() -> None:
    """He-normal everywhere and biases up to 1/sqrt(d); or the head by 1/sqrt(d), and no biases."""
    layout, runs = Layout((400, 300, 50)), 4
    drawn = {
        name: layout.views(initialise(layout, [torch.Generator().manual_seed(s) for s in range(runs)], initial=name))
        for name in ("he", "uniform_biases")
    }
    for name, head in (("he", 1.0), ("uniform_biases", 2.0)):
        for W, gain, d in zip(drawn[name].weights, (2.0, head), (400, 300), strict=True):
            assert float(W.std()) == pytest.approx((gain / d) ** 0.5, rel=0.02)
    assert all((b == 0).all() for b in drawn["he"].biases)
    for b, d in zip(drawn["uniform_biases"].biases, (400, 300), strict=True):
        assert float(b.abs().max()) <= d**-0.5
        assert float(b.std()) == pytest.approx((3 * d) ** -0.5, rel=0.1)
        assert not torch.equal(b[0], b[1])
