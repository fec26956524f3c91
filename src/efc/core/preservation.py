"""Preservation: a regulariser's gradient, projected on presynaptic activity, becomes one signal per neuron and sample.

``gamma_i = -beta_i (G_i r_{i-1} + G^b_i)`` with ``G_i = dR/dW_i``, ``G^b_i = dR/db_i``. The sign is minus: plus would
drive the weights away from what is to be preserved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from efc.core.network import Layout, Parameters, affine
from efc.errors import EFCError, choose

NORMALISE = ("relative", "none", "neuron")


class Regulariser(Protocol):
    """Anything with a gradient in parameter space; ``importance`` is None where there is no such thing (plain L2)."""

    def gradient(self, theta: Tensor) -> Tensor:
        """``dR/dtheta`` as a flat (R, P) tensor, for flat (R, P) parameters."""
        ...

    @property
    def importance(self) -> Tensor | None:
        """Diagonal importances (R, P), if the regulariser has them."""
        ...


@dataclass(frozen=True)
class Quadratic:
    """EWC's regulariser ``R = 1/2 sum F (theta - theta*)^2``, hence ``dR/dtheta = F * (theta - theta*)``."""

    F: Tensor
    anchor: Tensor

    def gradient(self, theta: Tensor) -> Tensor:
        return self.F * (theta - self.anchor)

    @property
    def importance(self) -> Tensor | None:
        return self.F


@dataclass(frozen=True)
class Callback:
    """A user's own regulariser: a function from the parameters, layer by layer, to ``dR/dW`` and ``dR/db``."""

    function: Callable[[Parameters], Parameters]
    layout: Layout

    def gradient(self, theta: Tensor) -> Tensor:
        given = self.function(self.layout.views(theta))
        flat = torch.empty_like(theta)
        out = self.layout.views(flat)
        pairs = zip((*out.weights, *out.biases), (*given.weights, *given.biases), strict=True)
        for target, value in pairs:
            if value.shape != target.shape:
                raise EFCError(
                    f"preservation: the callable gave {tuple(value.shape)} where {tuple(target.shape)} is needed"
                )
            target.copy_(value)
        return flat

    @property
    def importance(self) -> Tensor | None:
        return None


def strengths(
    layout: Layout,
    beta: Tensor,
    head_beta: Tensor,
    normalise: str,
    importance: Tensor | None,
    unit: Tensor | None = None,
) -> Tensor:
    """Per-parameter factors (R, P) that turn dR/dtheta into the terms of gamma; constant between consolidations.

    A parameter of a hidden neuron gets ``beta``, of an output neuron ``beta * head_beta``. With ``normalise="neuron"``
    both are divided by the neuron's importance norm ``sqrt(sum_j F_W[kj]^2 + F_b[k]^2 + 1e-8)``. With ``"relative"``
    they are in the units of the learning signal, ``unit`` (R, 1, 1), and importances count in multiples of their mean
    (over those above zero: dead inputs and classes to come have none). Multiplying all importances, or the learning
    signal, by a number then changes nothing.
    """
    choose("normalise", normalise, NORMALISE)
    factor = beta.reshape(-1, 1).repeat(1, layout.n_parameters)
    layers = layout.views(factor)
    for t in (layers.weights[-1], layers.biases[-1]):
        t.mul_(head_beta.reshape(-1, *([1] * (t.dim() - 1))))
    if normalise == "relative":
        if unit is not None:
            factor.mul_(unit.reshape(-1, 1))
        if importance is not None:  # where there are none, all count the same
            met = (importance > 0).sum(1, keepdim=True).clamp_min(1)
            mean = importance.sum(1, keepdim=True) / met
            factor.div_(torch.where(mean > 0, mean, torch.ones_like(mean)))
    if normalise == "neuron":
        if importance is None:
            raise EFCError("normalise: 'neuron' needs importances, which this regulariser does not have; use 'none'")
        F = layout.views(importance)
        for W, b, F_W, F_b in zip(layers.weights, layers.biases, F.weights, F.biases, strict=True):
            norm = (F_W.square().sum(2) + F_b.square() + 1e-8).sqrt()
            W.div_(norm.unsqueeze(2))
            b.div_(norm)
    return factor


def terms(
    layout: Layout, strength: Tensor, gradient: Tensor, classes: slice | None = None, out: Tensor | None = None
) -> Parameters:
    """The terms of gamma, ``G = strength * dR/dtheta`` (R, P), layer by layer; of the active ``classes`` if there are
    any.

    ``strength`` is what :func:`strengths` gives. Of a quadratic R, ``gradient`` may be ``theta - theta*`` and
    ``strength`` have the importances in it. ``out`` (R, P) is where the terms are kept; it may be ``gradient`` itself.
    """
    layers = layout.views(torch.mul(strength, gradient, out=out))
    return layers if classes is None else layers.active(classes)


def gamma(terms: Parameters, layer: int, r: Tensor) -> Tensor:
    """``gamma_i = -(G_i r_{i-1} + G^b_i)`` for terms that already carry their strength; ``layer`` counts from 0."""
    return affine(r, terms.weights[layer], terms.biases[layer]).neg_()
