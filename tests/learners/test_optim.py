"""The flat optimisers against torch's own, one learning rate per run."""

from __future__ import annotations

import pytest
import torch

from efc.learners.optim import make_optimiser


@pytest.mark.parametrize(("name", "momentum"), [("adam", 0.9), ("sgd", 0.9), ("sgd", 0.0), ("sgd", 0.5)])
def test_equals_torch_optim(name: str, momentum: float) -> None:
    g = torch.Generator().manual_seed(0)
    start = torch.randn(2, 5, generator=g, dtype=torch.float64)
    rates = torch.tensor([[1e-2], [3e-1]], dtype=torch.float64)
    ours = start.clone()
    optimiser = make_optimiser(name, ours, momentum)
    theirs = [start[r].clone().requires_grad_() for r in range(2)]
    make = torch.optim.Adam if name == "adam" else (lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=momentum))
    references = [make([theirs[r]], lr=float(rates[r])) for r in range(2)]
    for _ in range(20):
        gradient = torch.randn(2, 5, generator=g, dtype=torch.float64)
        ours.sub_(optimiser.step(gradient, rates))
        for r in range(2):
            theirs[r].grad = gradient[r].clone()
            references[r].step()
    for r in range(2):
        torch.testing.assert_close(ours[r], theirs[r].detach())
