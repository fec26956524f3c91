"""Per-sample derivatives as rows over all P parameters, for one run: (n, P), or (n, C, P) for Jacobians.

A layer's gradient is ``delta_i r_{i-1}^T``. Rows are made for a few hundred samples at a time and used through their
inner products: nothing here is P x P.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.func import jacrev, vmap

from efc.core.activations import Activation
from efc.core.network import Layout, Parameters, affine, backward, forward, mean_loss_gradient
from efc.core.outputs import loss_gradient, softmax_jacobian_product
from efc.core.preservation import terms

CHUNK = 25
"""Samples whose Jacobians are made at a time: bounds the memory of automatic differentiation."""


def outer_rows(layout: Layout, post: Sequence[Tensor], pre: Sequence[Tensor], classes: slice) -> Tensor:
    """(n, P): ``post_i pre_{i-1}^T`` and ``post_i`` per sample, in the layout's order; inactive head rows are zero."""
    n = post[0].shape[0]
    rows = post[0].new_zeros(n, layout.n_parameters)
    layers = layout.views(rows).active(classes)
    for delta, r, W, b in zip(post, pre, layers.weights, layers.biases, strict=True):
        W.copy_(delta.unsqueeze(2) * r.unsqueeze(1))
        b.copy_(delta)
    return rows


def layers_of(layout: Layout, theta: Tensor, classes: slice) -> Parameters:
    """The layers of one run's flat parameters (P,), with a run axis of one."""
    return layout.views(theta.unsqueeze(0)).active(classes)


def output_rows(layout: Layout, theta: Tensor, sigma: Activation, x: Tensor, delta: Tensor, classes: slice) -> Tensor:
    """(n, P): ``sum_c delta_c dz_c/dtheta`` per sample, for ``delta`` (n, C) at the logits."""
    layers = layers_of(layout, theta, classes)
    trace = forward(layers, sigma, x.unsqueeze(0))
    deltas = backward(layers, sigma, trace, delta.unsqueeze(0))
    return outer_rows(layout, [d[0] for d in deltas], [r[0] for r in trace.r], classes)


def logits(layout: Layout, theta: Tensor, sigma: Activation, x: Tensor, classes: slice) -> Tensor:
    """(n, C) of one run."""
    return forward(layers_of(layout, theta, classes), sigma, x.unsqueeze(0)).z[0]


def gradient_rows(layout: Layout, theta: Tensor, sigma: Activation, x: Tensor, y: Tensor, classes: slice) -> Tensor:
    """(n, P): ``dLoss_n/dtheta`` of the cross-entropy over ``classes``; ``y`` one-hot (n, C)."""
    p = torch.softmax(logits(layout, theta, sigma, x, classes), -1)
    return output_rows(layout, theta, sigma, x, p - y, classes)


def jacobian_rows(layout: Layout, theta: Tensor, sigma: Activation, x: Tensor, classes: slice) -> Tensor:
    """(n, C, P): ``J = dp/dtheta``, the Jacobian of the output rates ``p = softmax(z)``."""
    n, C = x.shape[0], classes.stop - classes.start
    p = torch.softmax(logits(layout, theta, sigma, x, classes), -1)
    S = softmax_jacobian_product(p.unsqueeze(1), torch.eye(C, dtype=p.dtype, device=p.device).expand(n, C, C))
    rows = output_rows(layout, theta, sigma, x.repeat_interleave(C, 0), S.reshape(n * C, C), classes)
    return rows.view(n, C, -1)


def effective_preservation(
    layout: Layout, theta: Tensor, sigma: Activation, x: Tensor, F: Tensor, anchor: Tensor, classes: slice
) -> Tensor:
    """``gamma_eff = S (gamma_L + sum_{i<L} Z_i (f_i * gamma_i))`` (C,) of one sample x (d_0,), at beta = 1.

    ``gamma_i = -(F_i * (W_i - W_i*)) r_{i-1} - F_bi * (b_i - b_i*)``, read off the free rates.
    """
    layers = layers_of(layout, theta, classes)
    pulls = terms(layout, F.unsqueeze(0), (theta - anchor).unsqueeze(0), classes)
    trace = forward(layers, sigma, x[None, None])
    p = torch.softmax(trace.z[0, 0], -1)
    da = torch.zeros_like(x[:1])
    for i, r in enumerate(trace.r):
        gamma = -(pulls.weights[i][0] @ r[0, 0] + pulls.biases[i][0])
        if i + 1 < len(trace.r):
            f = trace.r[i + 1][0, 0]
            dr = f * gamma + sigma.slope(trace.a[i][0, 0], f) * da
            da = layers.weights[i + 1][0] @ dr
    return softmax_jacobian_product(p, gamma + da)


def preservation_rows(
    layout: Layout, theta: Tensor, sigma: Activation, x: Tensor, F: Tensor, anchor: Tensor, classes: slice
) -> Tensor:
    """(n, C, P): ``G = -(1/beta) d gamma_eff / d theta`` per sample, by automatic differentiation at ``theta``."""

    def effect(parameters: Tensor, sample: Tensor) -> Tensor:
        return effective_preservation(layout, parameters, sigma, sample, F, anchor, classes)

    per_sample = vmap(jacrev(effect), in_dims=(None, 0))
    return torch.cat([-per_sample(theta, chunk) for chunk in x.split(CHUNK)])


def model_fisher_along(layout: Layout, theta: Tensor, sigma: Activation, x: Tensor, v: Tensor, classes: slice) -> float:
    """``v^T F v`` with labels drawn from the model: ``mean_n (J_z v)^T S (J_z v)``, J_z the Jacobian of the logits.

    The empirical Fisher, with true labels, is another matrix: the better the network, the smaller it is against this.
    """
    layers, moved = layers_of(layout, theta, classes), layers_of(layout, v, classes)
    trace = forward(layers, sigma, x.unsqueeze(0))
    dr = torch.zeros_like(trace.r[0])
    for i, r in enumerate(trace.r):
        da = dr @ layers.weights[i].transpose(1, 2) + affine(r, moved.weights[i], moved.biases[i])
        if i + 1 < len(trace.r):
            dr = sigma.slope(trace.a[i], trace.r[i + 1]) * da
    return float((da * softmax_jacobian_product(torch.softmax(trace.z, -1), da)).sum(-1).mean())


def mean_gradient(
    layout: Layout, theta: Tensor, sigma: Activation, x: Tensor, y: Tensor, classes: slice
) -> tuple[Tensor, Tensor]:
    """The mean cross-entropy (R,) over ``classes`` and its gradient (R, P), for all runs at ``theta`` (R, P)."""
    R = len(theta)
    layers = layout.views(theta).active(classes)
    trace = forward(layers, sigma, x.expand(R, -1, -1))
    targets = y.expand(R, -1, -1)
    gradient = torch.zeros_like(theta)
    delta_L = loss_gradient("softmax", trace.z, targets)
    mean_loss_gradient(layers, sigma, trace, delta_L, layout.views(gradient).active(classes))
    loss = -(torch.log_softmax(trace.z, -1) * targets).sum(-1).mean(1)
    return loss, gradient
