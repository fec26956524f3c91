"""A frozen network with a head: it learns, nothing of the network moves, outputs stand at their labels."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from efc import EFCHead
from efc.adapters.backbone import UNSEEN, Frozen
from efc.errors import EFCError

GENERATOR = torch.Generator().manual_seed(0)
Y = torch.arange(120) % 4
X = torch.eye(4)[Y] + 0.1 * torch.randn(120, 4, generator=GENERATOR)


def test_outputs_stand_at_their_labels() -> None:
    network = nn.Linear(4, 8)
    weights = network.weight.clone()
    model = Frozen(EFCHead(8, hidden=[16], epochs=5), 6, network)
    assert (model(X) == UNSEEN).all()
    for labels in ((3, 1), (0, 2)):  # not in order
        chosen = (labels[0] == Y) | (labels[1] == Y)
        model.learn_task([(X[chosen], Y[chosen])])
    z = model(X)
    assert z.shape == (120, 6)
    assert (z[:, 4:] == UNSEEN).all()
    assert (z.argmax(1) == Y).float().mean() > 0.9
    assert (network.weight == weights).all()
    with pytest.raises(EFCError, match=r"0\.\.5"):
        model.learn_task([(X[:2], torch.tensor([5, 6]))])
