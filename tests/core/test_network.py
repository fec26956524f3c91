"""The network against PyTorch's own layers and automatic differentiation, run by run."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from efc.core.activations import activation
from efc.core.network import Layout, Parameters, backward, flat_bmm, forward, initialise, outer_sums
from efc.errors import EFCError

LAYOUT = Layout((5, 4, 3, 2))


def drawn(runs: int = 2) -> Tensor:
    return torch.randn(runs, LAYOUT.n_parameters, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def as_modules(flat: Tensor, run: int) -> torch.nn.Sequential:
    """The same network in torch's own form, from the flat numbers in their documented order: W, b, layer by layer."""
    values, modules = flat[run].tolist(), []
    for d_in, d_out in ((5, 4), (4, 3), (3, 2)):
        layer = torch.nn.Linear(d_in, d_out, dtype=torch.float64)
        W, values = values[: d_in * d_out], values[d_in * d_out :]
        b, values = values[:d_out], values[d_out:]
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(W, dtype=torch.float64).view(d_out, d_in))
            layer.bias.copy_(torch.tensor(b, dtype=torch.float64))
        modules += [layer, torch.nn.Tanh()]
    assert values == []
    return torch.nn.Sequential(*modules[:-1])


def test_the_number_of_parameters() -> None:
    assert LAYOUT.n_parameters == 5 * 4 + 4 + 4 * 3 + 3 + 3 * 2 + 2


def test_views_share_their_memory_with_the_flat_tensor() -> None:
    flat = drawn()
    layers = LAYOUT.views(flat)
    layers.weights[1].zero_()
    layers.biases[2].fill_(7.0)
    assert (flat[:, 24:36] == 0).all()
    assert (flat[:, -2:] == 7).all()
    assert (flat[:, :24] != 0).all()


@pytest.mark.parametrize("sizes", [(3,), (), (3, 0, 2), (3, 1.5)])
def test_sizes_that_make_no_network(sizes: tuple[int, ...]) -> None:
    with pytest.raises(EFCError, match="sizes: "):
        Layout(sizes)


def test_a_flat_tensor_of_another_length_is_refused() -> None:
    with pytest.raises(EFCError, match="parameters: expected 47 per run"):
        LAYOUT.views(torch.zeros(1, 46))


def test_forward_and_backward_are_torchs_own() -> None:
    flat, x = drawn(), torch.rand(2, 6, 5, dtype=torch.float64)
    layers, sigma = LAYOUT.views(flat), activation("tanh")
    trace = forward(layers, sigma, x)
    weights = torch.randn(2, 6, 2, dtype=torch.float64)
    deltas = backward(layers, sigma, trace, weights)
    found = torch.zeros_like(flat)
    outer_sums(deltas, trace.r, LAYOUT.views(found), 1.0)
    for run in range(2):
        modules = as_modules(flat, run)
        z = modules(x[run])
        torch.testing.assert_close(trace.z[run], z.detach())
        gradients = torch.autograd.grad((weights[run] * z).sum(), list(modules.parameters()))
        torch.testing.assert_close(found[run], torch.cat([g.flatten() for g in gradients]))


def test_outer_sums_are_written_or_added() -> None:
    post, pre = [torch.ones(1, 3, 2)], [torch.arange(3.0).view(1, 3, 1)]
    out = Parameters((torch.full((1, 2, 1), 5.0),), (torch.full((1, 2), 5.0),))
    outer_sums(post, pre, out, 2.0)
    assert out.weights[0].flatten().tolist() == [6.0, 6.0]  # 2 (0 + 1 + 2), what was there is gone
    assert out.biases[0].flatten().tolist() == [6.0, 6.0]
    outer_sums(post, pre, out, 1.0, add=True)
    assert out.weights[0].flatten().tolist() == [9.0, 9.0]
    assert out.biases[0].flatten().tolist() == [9.0, 9.0]


def test_active_is_a_view_of_the_heads_rows() -> None:
    flat = drawn()
    cut = LAYOUT.views(flat).active(slice(1, 2))
    assert [tuple(W.shape) for W in cut.weights] == [(2, 4, 5), (2, 3, 4), (2, 1, 3)]
    cut.biases[-1].fill_(9.0)
    assert (flat[:, -1] == 9).all()
    assert (flat[:, -2] != 9).all()


def test_flat_bmm_is_a_product_over_the_last_axis() -> None:
    t, M = torch.randn(2, 3, 4, 5, dtype=torch.float64), torch.randn(2, 5, 6, dtype=torch.float64)
    torch.testing.assert_close(flat_bmm(t, M), torch.einsum("rabd,rde->rabe", t, M))


def test_each_run_is_drawn_from_its_own_generator_with_the_documented_spread() -> None:
    layout = Layout((400, 300, 200))

    def draw(*seeds: int) -> Tensor:
        return initialise(layout, [torch.Generator().manual_seed(seed) for seed in seeds])

    both = draw(3, 4)
    assert torch.equal(both[1:], draw(4))
    assert not torch.equal(both[0], both[1])
    layers = layout.views(both)
    assert all((b == 0).all() for b in layers.biases)
    for W, expected in zip(layers.weights, (math.sqrt(2 / 400), math.sqrt(1 / 300)), strict=True):
        assert W.std().item() == pytest.approx(expected, rel=0.02)
        assert abs(W.mean().item()) < 0.02 * expected
