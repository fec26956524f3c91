"""How badly each temperature fits what was learned: of heads that are solved for."""

from __future__ import annotations

import torch
from torch import Tensor

from efc.learners import GradientLearner, Learner, TaskData
from efc.learners.head_policies import AnalyticHead
from efc.learners.readout import TRIED
from efc.training.batches import ClassWeight, class_weights
from efc.training.diagnosis import subset


def solved_for(learner: Learner | None) -> AnalyticHead | None:
    """The head policy, if it solves for the head."""
    policy = learner.head_policy if isinstance(learner, GradientLearner) else None
    return policy if isinstance(policy, AnalyticHead) else None


def misfit_of(learner: Learner, x: Tensor, y: Tensor, class_weight: ClassWeight) -> tuple[Tensor, Tensor]:
    """What a task adds to ``Growing.misfit``, and the unit of its temperatures; nothing where the head is not solved
    for."""
    policy = solved_for(learner)
    if policy is None:
        return torch.zeros(TRIED, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    some = subset(len(y)).to(y.device)
    every = slice(0, int(learner.layout.sizes[-1]))
    task = TaskData(x, y, every, slice(0, 0), steps=0, weights=class_weights(y, class_weight)).part(some)
    found, unit = policy.misfit(task)
    return len(y) / len(some) * found[0].cpu(), unit.cpu()
