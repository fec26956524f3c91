"""Strengths, normalisation and regularisers behind the preservation signal."""

from __future__ import annotations

import pytest
import torch

from efc.core import Callback, Layout, Parameters, Quadratic, strengths
from efc.core.preservation import gamma, terms
from efc.errors import EFCError

LAYOUT = Layout((3, 4, 2))
G = torch.Generator().manual_seed(0)
THETA = torch.randn(2, LAYOUT.n_parameters, generator=G, dtype=torch.float64)
ANCHOR = torch.randn(2, LAYOUT.n_parameters, generator=G, dtype=torch.float64)
F = torch.rand(2, LAYOUT.n_parameters, generator=G, dtype=torch.float64)


@pytest.mark.parametrize("normalise", ["none", "neuron"])
def test_gamma_is_the_projected_ewc_gradient(normalise: str) -> None:
    """gamma_k = -beta_k sum_j r_j F_kj (W_kj - W*_kj), bias included, over the neuron's Fisher norm if asked for."""
    beta, head_beta = torch.tensor([0.5, 2.0]).double(), torch.tensor([3.0, 10.0]).double()
    factor = strengths(LAYOUT, beta, head_beta, normalise, F)
    found_terms = terms(LAYOUT, factor, Quadratic(F, ANCHOR).gradient(THETA))
    W, A, imp = LAYOUT.views(THETA), LAYOUT.views(ANCHOR), LAYOUT.views(F)
    for layer, d_in in enumerate((3, 4)):
        r = torch.rand(2, 5, d_in, generator=G, dtype=torch.float64)
        found = gamma(found_terms, layer, r)
        for run in range(2):
            for k in range(W.weights[layer].shape[1]):
                strength = float(beta[run] * (head_beta[run] if layer == 1 else 1))
                if normalise == "neuron":
                    F_k, Fb_k = imp.weights[layer][run, k], imp.biases[layer][run, k]
                    strength /= float((F_k.square().sum() + Fb_k.square() + 1e-8).sqrt())
                gradient = imp.weights[layer][run, k] * (W.weights[layer][run, k] - A.weights[layer][run, k])
                bias = imp.biases[layer][run, k] * (W.biases[layer][run, k] - A.biases[layer][run, k])
                torch.testing.assert_close(found[run, :, k], -strength * (r[run] @ gradient + bias))


def test_terms_are_of_the_active_classes_and_stay_where_they_are_put() -> None:
    """In place, as a training step has them, and with the importances in the strength."""
    strength = strengths(LAYOUT, torch.tensor([0.5, 2.0]).double(), torch.ones(2).double(), "none", None)
    plain = terms(LAYOUT, strength, Quadratic(F, ANCHOR).gradient(THETA))
    kept = torch.empty_like(THETA)
    some = terms(LAYOUT, strength * F, torch.sub(THETA, ANCHOR, out=kept), slice(1, 2), out=kept)
    torch.testing.assert_close(some.weights[0], plain.weights[0])
    torch.testing.assert_close(some.weights[1], plain.weights[1][:, 1:])
    torch.testing.assert_close(some.biases[1], plain.biases[1][:, 1:])
    assert some.weights[0].data_ptr() == kept.data_ptr()
    torch.testing.assert_close(plain.weights[0][1], 2.0 * LAYOUT.views(F * (THETA - ANCHOR)).weights[0][1])


def test_a_callable_is_a_regulariser() -> None:
    def l2(theta: Parameters) -> Parameters:
        return Parameters(tuple(2 * W for W in theta.weights), tuple(torch.zeros_like(b) for b in theta.biases))

    gradient = LAYOUT.views(Callback(l2, LAYOUT).gradient(THETA))
    torch.testing.assert_close(gradient.weights[1], 2 * LAYOUT.views(THETA).weights[1])
    assert (gradient.biases[0] == 0).all()


def test_a_callable_of_the_wrong_shape_is_refused() -> None:
    def wrong(theta: Parameters) -> Parameters:
        return Parameters(tuple(W[:, :1] for W in theta.weights), theta.biases)

    with pytest.raises(EFCError, match=r"\(2, 1, 3\) where \(2, 4, 3\)"):
        Callback(wrong, LAYOUT).gradient(THETA)


def test_neuron_normalisation_needs_importances() -> None:
    with pytest.raises(EFCError, match="importances"):
        strengths(LAYOUT, torch.ones(2), torch.ones(2), "neuron", None)
