"""A learner whose answers are known."""

from __future__ import annotations

from collections.abc import Callable

import torch

from efc.learners import SGD, Options, TaskData
from efc.streams import Stream
from support.learner_helpers import PLAIN


class Oracle(SGD):
    """Answers by a table: for each sample the output it names, whatever the weights."""

    def __init__(self, stream: Stream, answer: Callable[[int], int], runs: int = 1) -> None:
        super().__init__((stream.n_features, stream.n_outputs), list(range(runs)), Options(**PLAIN), head="random")
        self.answer = answer
        self.known = {
            x.numpy().tobytes(): int(y)
            for task in stream.tasks
            for part in task.parts.values()
            for x, y in zip(part.x, part.y, strict=True)
        }
        self.planned: list[int] = []

    def begin_task(self, task: TaskData) -> None:
        self.planned.append(task.steps)

    def step(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        return {}

    def logits(self, x: torch.Tensor, classes: slice) -> torch.Tensor:
        answers = torch.tensor([self.answer(self.known[row.numpy().tobytes()]) for row in x])
        return torch.nn.functional.one_hot(answers, 10)[None, :, classes].float().expand(self.runs, -1, -1)
