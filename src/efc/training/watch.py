"""Watches a training from task to task, and says at the end what looks wrong in each of its runs."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from efc.core.task import TaskData
from efc.learners.base import Learner
from efc.metrics import Array
from efc.streams.split import Stream
from efc.training.diagnosis import (
    DIVERGED,
    TAKEN_BACK,
    Answers,
    Finding,
    answers,
    at_chance,
    facts,
    far,
    findings,
    left_out,
    subset,
)

STATE = ("own", "recall", "never", "samples", "lost")


class Watch:
    """What has to be noted when a task ends, because nobody can tell later."""

    def __init__(self, learner: Learner, stream: Stream, part: str) -> None:
        self.learner, self.stream, self.part = learner, stream, part
        R, T, K = learner.runs, len(stream.tasks), stream.n_outputs
        self.own = np.zeros((R, T))
        """Share of right answers to each task's own training samples, among its own outputs."""
        self.recall = np.zeros((R, T))
        """The same, as a mean over these outputs."""
        self.never = np.zeros((R, T, K), bool)
        """Outputs of each task that were not answered to any of these samples."""
        self.samples = np.zeros((T, K), np.int64)
        self.lost = np.zeros((R, T), bool)
        """Tasks after whose last step the weights were not finite; a head policy may have taken them back since."""

    def note(self, index: int) -> None:
        """The last step of a task has been taken; nothing has been made of it yet."""
        self.lost[:, index] = ~torch.isfinite(self.learner.theta).all(1).cpu().numpy()

    def look(self, index: int, task: TaskData) -> None:
        """A task has just been learned."""
        some = subset(len(task.y)).to(task.y.device)
        z = self.learner.logits(task.x[some], task.active)
        for run, found in enumerate(answers(z, task.y[some], task.active.start)):
            self.own[run, index], self.recall[run, index] = found.accuracy, found.recall
            self.never[run, index, : len(found.left_out)] = found.left_out.numpy()
        self.samples[index] = torch.bincount(task.y.cpu(), minlength=self.samples.shape[1]).numpy()

    def findings(self, unsettled: Array | None, confusion: Array, diverged: NDArray[np.bool_]) -> list[list[Finding]]:
        """For each run, from its share of samples without equilibrium in each task (R, T) and its answers at the end
        (R, outputs, outputs)."""
        distant = self._far()
        tasks = self.stream.tasks
        outputs = self.stream.n_outputs if self.stream.scenario != "task" else max(len(t.classes) for t in tasks)
        found = []
        for run, answered in enumerate(confusion.sum(1)):
            own = [one for t in range(len(self.samples)) for one in self._of_task(run, t, unsettled)]
            own += [*left_out(answered.tolist(), self.stream.output_names, self.part), *distant]
            own += at_chance(confusion[run].tolist(), 1 / outputs, self.part)
            found.append([DIVERGED] if diverged[run] else own)
        return found

    def _of_task(self, run: int, t: int, unsettled: Array | None) -> list[Finding]:
        samples = torch.as_tensor(self.samples[t])
        told = Answers(float(self.own[run, t]), float(self.recall[run, t]), torch.as_tensor(self.never[run, t]))
        share = None if unsettled is None else float(unsettled[run, t])
        if self.lost[run, t]:
            return [TAKEN_BACK.of_task(t)]
        return findings(facts(samples, torch.zeros_like(samples), share, told), self.stream.output_names, t)

    def _far(self) -> list[Finding]:
        inputs = self.learner.inputs
        if inputs is None:
            return []
        return far(torch.cat([inputs.far(task.parts[self.part].x) for task in self.stream.tasks]))

    def state_dict(self) -> dict[str, Tensor]:
        return {name: torch.as_tensor(getattr(self, name)) for name in STATE}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for name in STATE:
            setattr(self, name, state[name].cpu().numpy().copy())
