"""A learner whose head has more outputs, and what the smaller one knew: for classes that arrive over time."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from efc.core.network import Layout
from efc.learners.base import Learner

PASSING = "optimiser."
"""State that a task begins without: it need be neither kept nor carried over between two tasks."""


def lasting_state(learner: Learner) -> dict[str, Tensor]:
    """What of a learner's state matters between two tasks; all of it where there are none."""
    if learner.arrivals is not None:
        return learner.state_dict()
    return {key: value for key, value in learner.state_dict().items() if not key.startswith(PASSING)}


def take_over(learner: Learner, state: Mapping[str, Tensor], n_outputs: int) -> None:
    """Give a fresh learner the lasting state of one with ``n_outputs``, at most as many as it has itself.

    Its further outputs stay as drawn, and count in what is remembered as outputs that were never trained. Which tensors
    have an output axis, and which are parameters, is seen by comparing their sizes with the fresh learner's own.
    """
    if any(key.startswith("arrivals.") for key in state):
        learner.begin_stream()
    fresh = learner.state_dict()
    after = learner.layout
    before = Layout((*after.sizes[:-1], n_outputs))
    carried = {key: carry(value, fresh[key], before, after) if key in fresh else value for key, value in state.items()}
    learner.load_state_dict({key: value for key, value in fresh.items() if key.startswith(PASSING)} | carried)


def carry(value: Tensor, fresh: Tensor, before: Layout, after: Layout) -> Tensor:
    """One tensor of the state, with room for the new outputs."""
    n, m = before.sizes[-1], after.sizes[-1]
    if n == m or value.dim() != fresh.dim():
        return value
    if value.dim() == 2 and (value.shape[1], fresh.shape[1]) == (before.n_parameters, after.n_parameters):
        grown = fresh.clone()
        old, new = before.views(value), after.views(grown)
        for a, b in zip((*old.weights, *old.biases), (*new.weights, *new.biases), strict=True):
            b[:, : a.shape[1]] = a
        return grown
    sizes = tuple(m if (a, b) == (n, m) else a for a, b in zip(value.shape, fresh.shape, strict=True))
    if sizes == tuple(value.shape):
        return value
    grown = fresh.clone() if tuple(fresh.shape) == sizes else value.new_zeros(sizes)
    grown[tuple(slice(length) for length in value.shape)] = value.to(grown)
    return grown
