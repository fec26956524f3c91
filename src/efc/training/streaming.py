"""A stream without boundaries: every sample is answered first and learned then; to be stopped and gone on with."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from efc.errors import EFCError, choose
from efc.files import Json
from efc.learners.base import CHUNK, Learner
from efc.metrics import Array, adaptation_times, prequential_curve
from efc.streams.arrival import Arrival, all_samples
from efc.streams.split import Stream
from efc.training.diagnosis import DIVERGED, Finding, at_chance, left_out
from efc.training.evaluation import EVALUATED
from efc.training.loop import Boundary, Progress, TrainingResult, few_threads

POINTS = 100
"""Points of the curve, and slices of the picture of what came when."""


class StreamTraining:
    """One learner on one stream. ``state_dict`` between two batches holds all that is needed to go on bit for bit.

    There are as many checkpoints as tasks in ``stream``, evenly spread: the accuracy on each group of classes is
    measured there, over all classes seen. The learner is told neither groups nor checkpoints.

    Args:
        learner: a learner of a single run that streams; its seed draws the order.
        stream: the groups of classes, with their data.
        arrival: in which order they come, and how.
        batch_size: samples that arrive together.
        evaluate: the part of the data that is measured on.
    """

    epochs = 1
    epoch = 0

    def __init__(
        self, learner: Learner, stream: Stream, arrival: Arrival, batch_size: int, evaluate: str = "test"
    ) -> None:
        if learner.runs != 1 or stream.scenario != "class":
            raise EFCError("stream: one run at a time, and all classes seen are asked about")
        learner.begin_stream()
        self.learner, self.stream, self.arrival, self.batch_size = learner, stream, arrival, batch_size
        self.part = choose("evaluate", evaluate, EVALUATED)
        self.x, outputs, self.group = all_samples(stream, "train")
        self.seed = learner.seeds[0]
        self.order = torch.as_tensor(arrival.order(self.group, self.seed))
        shown = outputs[self.order.to(outputs.device)].cpu()
        self.named = torch.tensor(list(dict.fromkeys(shown.tolist())))
        """The outputs of ``stream``, as they appear: the learner's k-th is this."""
        number = torch.empty(stream.n_outputs, dtype=torch.long)
        number[self.named] = torch.arange(len(self.named))
        self.number, self.y = number, number[shown]
        T = len(stream.tasks)
        self.hits = torch.zeros(len(self.y), dtype=torch.bool)
        self.A = np.full((1, T, T), np.nan)
        self.by_class = np.full((T, stream.n_outputs), np.nan)
        """(T, K): the accuracy on each class at each checkpoint; NaN until it has been seen."""
        self.at = 0
        self.ends = [round(len(self.y) * (t + 1) / T) for t in range(T)]
        self.seconds = 0.0

    @property
    def finished(self) -> bool:
        return self.at == len(self.y)

    @property
    def task(self) -> int:
        """How many checkpoints lie behind."""
        return sum(self.at >= end for end in self.ends)

    @property
    def batch(self) -> int:
        return self.at

    def describe(self) -> str:
        """For a person: what comes how."""
        how = (
            self.arrival.kind
            if self.arrival.kind in ("random", "single")
            else f"{self.arrival.kind} {self.arrival.amount:g}"
        )
        groups = " | ".join(" ".join(task.classes) for task in self.stream.tasks)
        told = f"{len(self.y)} samples in batches of {self.batch_size}, no tasks told; groups of classes: {groups}"
        return f"{self.stream.dataset}, a stream ({how}): {told}"

    def run(self, progress: Progress | None = None, boundary: Boundary | None = None) -> bool:
        """Go on from where it stands; true at the stream's end, false if it was told to stop."""
        with few_threads(self.learner, self.batch_size):
            for word in self._steps():
                if word == "epoch" and progress is not None:
                    progress(self.task, 1, 1)
                if boundary is not None and boundary(word):
                    return self.finished
        return True

    def _steps(self) -> Iterator[str]:
        while not self.finished:
            end = self.ends[self.task]
            began = time.perf_counter()
            self._next(min(self.at + self.batch_size, end))
            self.seconds += time.perf_counter() - began
            if self.at == end:
                self._measure(self.task - 1)
                yield "epoch"
            yield "batch"

    def _next(self, stop: int) -> None:
        """Answer the next batch, then learn it."""
        some = slice(self.at, stop)
        x, y = self._inputs(self.x[self.order[some].to(self.x.device)]), self.y[some]
        known = self._known()
        if known:
            told = self.learner.logits(x, slice(0, known))[0].argmax(-1).cpu()
            self.hits[some] = told == y
        self.learner.observe(x, y)
        self.at = stop

    def _known(self) -> int:
        assert self.learner.arrivals is not None
        return self.learner.arrivals.top

    def _inputs(self, x: Tensor) -> Tensor:
        return self.arrival.inputs(x, self.at / len(self.y), self.seed)

    def _answers(self, x: Tensor) -> Tensor:
        """(N,): the outputs of ``stream`` that are answered among all seen; -1 where the network is not finite."""
        known = slice(0, self._known())
        found = [self.learner.logits(self._inputs(part), known)[0].cpu() for part in x.split(CHUNK)]
        z = torch.cat(found)
        return torch.where(torch.isfinite(z).all(-1), self.named[z.argmax(-1)], -1)

    def _measure(self, row: int) -> None:
        self.learner.settle()
        seen = self.named[: self._known()]
        for j, task in enumerate(self.stream.tasks):
            data = task.parts[self.part]
            own = torch.isin(data.y.cpu(), seen)
            if bool(own.any()):
                shown = data.y.cpu()[own]
                right = (self._answers(data.x[own.to(data.x.device)]) == shown).double()
                self.A[0, row, j] = 100 * float(right.mean())
                for k in shown.unique().tolist():
                    self.by_class[row, k] = 100 * float(right[shown == k].mean())

    def result(self) -> TrainingResult:
        """What was achieved, once it is finished."""
        x, y, _ = all_samples(self.stream, self.part)
        told, K = self._answers(x), self.stream.n_outputs
        counts = torch.zeros(K, K + 1, dtype=torch.float64)
        counts.index_put_((y.cpu(), told % (K + 1)), torch.ones(len(y), dtype=torch.float64), accumulate=True)
        finite = bool(torch.isfinite(self.learner.theta).all()) and bool((told >= 0).all())
        confusion = counts[None, :, :K].numpy()
        nothing = np.zeros((1, len(self.stream.tasks)))
        return TrainingResult(
            accuracy_matrix=self.A,
            before=nothing,
            untrained=nothing,
            confusion=confusion,
            unsettled=None,
            seconds=self.seconds,
            diverged=[] if finite else [0],
            findings=[self._findings(confusion[0]) if finite else [DIVERGED]],
        )

    def _findings(self, confusion: Array) -> list[Finding]:
        told = left_out(confusion.sum(0).tolist(), self.stream.output_names, self.part)
        return [*told, *at_chance(confusion.tolist(), 1 / self.stream.n_outputs, self.part)]

    def measures(self) -> dict[str, Json]:
        """What only a stream has to report: how it was answered on the way, what came when, and what it cost."""
        hits, classes = self.hits.double().numpy(), self.named[self.y].numpy()
        at, curve = prequential_curve(hits, POINTS)
        times = adaptation_times(hits, classes, self.stream.n_outputs)
        mix = [np.bincount(part, minlength=self.stream.n_outputs) for part in np.split(classes, at[:-1].astype(int))]
        bytes_held = sum(value.numel() * value.element_size() for value in self.learner.state_dict().values())
        adapted = [one for one in times if one is not None]
        return {
            "accuracy": 100 * float(hits.mean()),
            "at": at.tolist(),
            "curve": curve.tolist(),
            "checkpoints": self.ends,
            "seen": np.nanmean(self.A[0], axis=1).tolist(),
            "forgets": [_loss(one) for one in self.by_class.T],
            "adaptation": times,
            "mean_adaptation": float(np.mean(adapted)) if adapted else None,
            "mix": np.stack(mix).tolist(),
            "microseconds": 1e6 * self.seconds / len(self.y),
            "bytes": bytes_held,
            "classes": list(self.stream.output_names),
        }

    def state_dict(self) -> dict[str, Tensor]:
        own = {
            "at": torch.tensor(self.at),
            "hits": self.hits,
            "accuracy_matrix": torch.as_tensor(self.A),
            "by_class": torch.as_tensor(self.by_class),
            "seconds": torch.tensor(self.seconds, dtype=torch.float64),
        }
        return own | {f"learner.{key}": value for key, value in self.learner.state_dict().items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Take over the state of one that was made with the same arguments."""
        prefix = "learner."
        self.learner.load_state_dict({k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)})
        self.at, self.seconds = int(state["at"]), float(state["seconds"])
        self.hits, self.A = state["hits"].cpu().clone(), state["accuracy_matrix"].cpu().numpy().copy()
        self.by_class = state["by_class"].cpu().numpy().copy()


def _loss(accuracies: Array) -> float | None:
    """What a class has lost since its best checkpoint; None if it was not seen at two."""
    seen = accuracies[~np.isnan(accuracies)]
    return float(seen[:-1].max() - seen[-1]) if len(seen) > 1 else None
