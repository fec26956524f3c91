"""The network once more, for one sample, written out."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor

from efc.theory.situation import Situation


def net(s: Situation, theta: Tensor, x: Tensor, classes: slice) -> Tensor:
    """Logits of one sample."""
    at, h = 0, x
    sizes = s.layout.sizes
    for i, (d_in, d_out) in enumerate(pairwise(sizes)):
        W = theta[at : at + d_in * d_out].view(d_out, d_in)
        b = theta[at + d_in * d_out : at + (d_in + 1) * d_out]
        at += (d_in + 1) * d_out
        h = W @ h + b
        if i < len(sizes) - 2:
            h = h.clamp_min(0)
    return h[classes]
