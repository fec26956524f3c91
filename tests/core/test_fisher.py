"""The closed-form Fisher against per-sample gradients by autograd; accumulation over tasks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.func import grad, vmap

from efc.core import Layout, accumulate, activation, diagonal_fisher
from efc.core.network import Parameters
from efc.errors import EFCError


def dense(layout: Layout, theta: Tensor, name: str, x: Tensor, y: Tensor, classes: slice, output: str) -> Tensor:
    """mean_n (dLoss_n/dtheta)^2 of one run by vmap(grad)."""

    def loss(flat: Tensor, x: Tensor, y: Tensor) -> Tensor:
        layers = layout.views(flat.unsqueeze(0))
        r = x
        for i, (W, b) in enumerate(zip(layers.weights, layers.biases, strict=True)):
            r = W[0] @ r + b[0]
            r = activation(name).rate(r) if i < len(layers.weights) - 1 else r
        z = r[classes]
        return ((z - y) ** 2).sum() / 2 if output == "linear" else -(y * torch.log_softmax(z, 0)).sum()

    return vmap(grad(loss), (None, 0, 0))(theta, x, y).square().mean(0)


@settings(max_examples=20, deadline=None)
@given(
    hidden=st.lists(st.integers(1, 6), max_size=3),
    name=st.sampled_from(["relu", "softplus", "tanh", "sigmoid"]),
    output=st.sampled_from(["softmax", "linear"]),
    seed=st.integers(0, 1000),
    chunk=st.integers(1, 9),
)
def test_closed_form_equals_per_sample_gradients(
    hidden: list[int], name: str, output: str, seed: int, chunk: int
) -> None:
    g = torch.Generator().manual_seed(seed)
    layout, classes = Layout((4, *hidden, 5)), slice(1, 4)
    theta = torch.randn(2, layout.n_parameters, generator=g, dtype=torch.float64)
    x = torch.randn(2, 8, 4, generator=g, dtype=torch.float64)
    y = torch.nn.functional.one_hot(torch.randint(3, (2, 8), generator=g), 3).double()
    batches = zip(x.split(chunk, 1), y.split(chunk, 1), strict=True)
    F = diagonal_fisher(layout, theta, activation(name), batches, classes, output)
    for run in range(2):
        expected = dense(layout, theta[run], name, x[run], y[run], classes, output)
        torch.testing.assert_close(F[run], expected, rtol=1e-6, atol=1e-12)


def test_float32_agrees_to_1e_6() -> None:
    g = torch.Generator().manual_seed(0)
    layout = Layout((20, 30, 10))
    theta = 0.3 * torch.randn(1, layout.n_parameters, generator=g)
    x, y = torch.rand(1, 64, 20, generator=g), torch.eye(10)[torch.randint(10, (1, 64), generator=g)]
    F = diagonal_fisher(layout, theta, activation("relu"), [(x, y)], slice(0, 10))
    expected = dense(layout, theta[0], "relu", x[0], y[0], slice(0, 10), "softmax")
    assert float((F[0] - expected).abs().max() / expected.abs().max()) < 1e-6


def test_it_is_not_the_square_of_the_mean_gradient() -> None:
    layout = Layout((2, 2))
    x = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
    y = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    F = layout.views(diagonal_fisher(layout, torch.zeros(1, 6), activation("relu"), [(x, y)], slice(0, 2)))
    assert float(F.weights[0][0, 0, 0]) == pytest.approx(0.25)  # the mean gradient is zero, its square too


def test_inactive_classes_have_no_importance() -> None:
    layout = Layout((3, 4, 6))
    theta = torch.randn(1, layout.n_parameters, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([[[1.0, 0.0]] * 5])
    F: Parameters = layout.views(
        diagonal_fisher(layout, theta, activation("relu"), [(torch.rand(1, 5, 3), y)], slice(2, 4))
    )
    assert (F.weights[-1][:, [0, 1, 4, 5]] == 0).all()
    assert (F.weights[-1][:, 2:4] > 0).any()


def test_accumulation_rescales_to_the_running_norm_per_run() -> None:
    running, new = torch.tensor([[3.0, 4.0], [0.0, 1.0]]), torch.tensor([[0.0, 100.0], [0.5, 0.0]])
    torch.testing.assert_close(accumulate(running, new), torch.tensor([[3.0, 9.0], [1.0, 1.0]]))
    torch.testing.assert_close(accumulate(torch.zeros(1, 2), new[:1]), new[:1])
    torch.testing.assert_close(accumulate(running, torch.zeros(2, 2)), running)


def test_no_samples_is_an_error() -> None:
    with pytest.raises(EFCError, match="no samples"):
        diagonal_fisher(Layout((2, 2)), torch.zeros(1, 6), activation("relu"), [], slice(0, 2))
