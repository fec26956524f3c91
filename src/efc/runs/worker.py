"""Training a pack: from its last checkpoint if there is one, with checkpoints on the way, results per run."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from efc import metrics
from efc.data import Dataset, load
from efc.data.catalogue import Progress as DataProgress
from efc.environment import describe_environment, pick_device
from efc.files import Json, finite
from efc.learners import find_learner
from efc.runs.checkpoint import Checkpoints, Tell
from efc.runs.plan import Pack, Place
from efc.runs.results import Epoch, RunResult
from efc.streams import Arrival, Stream, split
from efc.training.loop import Effort, Progress, Training, TrainingResult
from efc.training.streaming import StreamTraining

OVERHEAD = {"epoch": 0.05, "task": 0.25}
"""What share of the time checkpoints at the end of an epoch or a task may take."""


class Keeper:
    """Decides, between two batches, whether to checkpoint and whether to stop."""

    def __init__(
        self,
        training: Training | StreamTraining,
        pack: Pack,
        checkpoints: Checkpoints,
        stop: Callable[[], bool],
        every: float,
    ):
        self.training, self.pack, self.checkpoints, self.stop, self.every = training, pack, checkpoints, stop, every
        self.last, self.cost = time.monotonic(), 0.0

    def __call__(self, word: str) -> bool:
        """An epoch's or task's end is kept if that is cheap, any batch after ``every`` seconds."""
        stop = self.stop()
        since = time.monotonic() - self.last
        due = since > self.every or since * OVERHEAD.get(word, 0.0) > self.cost
        if (stop or due) and not self.training.finished:
            self.keep()
        return stop

    def keep(self) -> None:
        began = time.monotonic()
        t, s = self.training, self.pack.settings
        runs = [run.id for run in self.pack.runs]
        place = {"task": t.task, "epoch": t.epoch, "batch": t.batch}
        about: dict[str, Json] = {"runs": runs, "method": s.method, "code": s.code, **place}
        self.checkpoints.save(t.state_dict(), about)
        self.last = time.monotonic()
        self.cost = self.last - began


def train_pack(
    pack: Pack,
    checkpoints: Path | None = None,
    stop: Callable[[], bool] = lambda: False,
    progress: Progress | None = None,
    tell: Tell | None = None,
    every: float = 300.0,
) -> list[RunResult] | None:
    """Results of every run, in order; None if it was stopped (a checkpoint then says where)."""
    training = prepare(pack)
    keeper = None
    if checkpoints is not None:
        kept = Checkpoints(checkpoints / pack.id, tell)
        found = kept.load()
        if found is not None:
            training.load_state_dict(found[0])
        keeper = Keeper(training, pack, kept, stop, every)
    if not training.run(progress, keeper or (lambda word: stop())):
        return None
    return results(pack, training)


def prepare(pack: Pack) -> Training | StreamTraining:
    """A pack's training, at its beginning."""
    s = pack.settings
    stream = _stream(
        pack.place, s.dataset, s.encoder, s.tasks, s.classes_per_task, s.order_seed, s.scenario, s.validation
    )
    learner = find_learner(s.method)(
        (stream.n_features, *s.hidden, stream.n_outputs),
        [run.seed for run in pack.runs],
        pack.options(),
        head=s.head,
        activation=s.activation,
        device=stream.tasks[0].parts["train"].x.device,
    )
    if s.stream != "none":
        return StreamTraining(learner, stream, Arrival.parse(s.stream), s.batch_size, s.evaluate)
    return Training(learner, stream, s.epochs, s.batch_size, s.evaluate, s.class_weight, s.diagnose)


_LOADED: dict[tuple[Place, str, str], Dataset] = {}
KEPT = 2
"""Data sets that a process holds at a time."""


def dataset_of(place: Place, dataset: str, encoder: str, progress: DataProgress | None = None) -> Dataset:
    """The data, read (and if need be fetched and encoded) once per process."""
    key = (place, dataset, encoder)
    if key not in _LOADED:
        while len(_LOADED) >= KEPT:
            del _LOADED[next(iter(_LOADED))]
        device = pick_device(place.device)
        _LOADED[key] = load(dataset, encoder, place.encoder_weights, place.data_dir, place.image_size, device, progress)
    return _LOADED[key]


@lru_cache(maxsize=4)
def _stream(
    place: Place,
    dataset: str,
    encoder: str,
    tasks: int,
    classes_per_task: int,
    order_seed: int | None,
    scenario: str,
    validation: float,
) -> Stream:
    data = dataset_of(place, dataset, encoder)
    return split(data, tasks, classes_per_task, order_seed, scenario, validation).to(pick_device(place.device))


def results(pack: Pack, training: Training | StreamTraining) -> list[RunResult]:
    """What came of every run."""
    outcome, learner, stream = training.result(), training.learner, training.stream
    further = learner.measures(stream.tasks[-1].parts["train"].x[:256])
    share = _prediction_share(outcome, stream)
    environment = describe_environment(learner.theta.device)
    measures = _metrics(outcome, sum(len(task.parts[training.part].y) for task in stream.tasks))
    streamed: dict[str, Json] = {"stream": training.measures()} if isinstance(training, StreamTraining) else {}
    matrices = outcome.accuracy_matrix.tolist()
    return [
        RunResult(
            metrics={name: float(values[k]) for name, values in measures.items()},
            accuracy_matrix=[[None if np.isnan(a) else a for a in line] for line in matrices[k]],
            confusion=outcome.confusion[k].astype(int).tolist(),
            prediction_share=None if share is None else share[k].tolist(),
            unsettled=None if outcome.unsettled is None else _known(outcome.unsettled[k]),
            trace=None if outcome.effort is None else _trace(outcome.effort, k),
            diverged=k in outcome.diverged,
            seconds=outcome.seconds / len(pack.runs),
            tasks=[list(task.classes) for task in stream.tasks],
            environment=environment,
            warnings=outcome.findings[k],
            method=learner.name,
            further={name: finite(values[k].tolist()) for name, values in further.items()} | streamed,
            diagnosis=None if outcome.diagnoses is None else outcome.diagnoses[k],
        )
        for k in range(len(pack.runs))
    ]


def _trace(effort: Effort, k: int) -> list[Epoch]:
    """One entry per epoch of run ``k``, norms by layer; None where no sample was finite."""
    columns = zip(effort.task, effort.epoch, effort.psi[k], effort.gamma[k], effort.unsettled[k], strict=True)
    return [
        Epoch(int(task), int(epoch), [_brief(v) for v in psi], [_brief(v) for v in gamma], _brief(unsettled))
        for task, epoch, psi, gamma, unsettled in columns
    ]


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _brief(value: float) -> float | None:
    """Five significant digits."""
    return float(f"{value:.5g}") if np.isfinite(value) else None


def _metrics(outcome: TrainingResult, samples: int) -> dict[str, metrics.Array]:
    A = outcome.accuracy_matrix
    return {
        "accuracy": metrics.final_accuracy(A),
        "sample_accuracy": metrics.sample_accuracy(outcome.confusion, samples),
        "average_incremental": metrics.average_incremental_accuracy(A),
        "forgetting": metrics.forgetting(A),
        "bwt": metrics.backward_transfer(A),
        "fwt": metrics.forward_transfer(outcome.before, outcome.untrained),
    }


def _prediction_share(outcome: TrainingResult, stream: Stream) -> metrics.Array | None:
    """(R, T): the share of answers on each task's outputs; None where all tasks share theirs."""
    if stream.scenario == "domain":
        return None
    return metrics.prediction_share(outcome.confusion, [task.outputs for task in stream.tasks])
