"""Running a configuration: every row of it trained on its stream, the results as one plain document."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from efc import metrics
from efc.config import Row, RunConfig, make_config
from efc.environment import describe_environment, pick_device
from efc.learners import Learner, find_learner
from efc.metrics import Array
from efc.streams import Stream, load, split
from efc.streams.load import Progress
from efc.training import TrainingResult, train

Listener = Callable[[Row, int, int, int], None]
"""Called after every epoch with the row and (task, epoch, epochs), counted from 1."""


def run(listener: Listener | None = None, **settings: Any) -> dict[str, Any]:
    """Train and compare methods; the keywords are the flags of `efc run`, with a mapping per method for its options.

    >>> document = run(dataset="digits", methods=["efc", "sgd"], seeds=2, efc={"beta": 0.1})
    >>> document["rows"][0]["accuracy"]["mean"]
    """
    return execute(make_config(settings), listener=listener)


def execute(
    config: RunConfig,
    command: str = "",
    listener: Listener | None = None,
    data_progress: Progress | None = None,
    announce: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """The results document: ``rows``, ``environment``, ``command``."""
    device = pick_device(config.device)
    # Everything is built before anything is trained: a mistake in the last row must not cost the first one's hours.
    streams = make_streams(config, device, data_progress)
    for row in config.rows:
        make_learner(config, row, streams[row.scenario])
    if announce is not None:
        for stream in streams.values():
            announce(stream.describe())
    rows = []
    for row in config.rows:
        learner = make_learner(config, row, streams[row.scenario])
        result = train(
            learner,
            streams[row.scenario],
            config.epochs,
            config.batch_size,
            config.evaluate,
            None if listener is None else lambda *at, row=row: listener(row, *at),
        )
        rows.append(_document_row(config, row, result, learner, streams[row.scenario]))
    return {"rows": rows, "environment": describe_environment(device), "command": command}


def make_streams(config: RunConfig, device: torch.device, progress: Progress | None = None) -> dict[str, Stream]:
    """The tasks a configuration asks for, by scenario, on the training device; data are fetched and encoded first."""
    dataset = load(
        config.dataset,
        config.encoder,
        config.encoder_weights,
        config.data_dir,
        config.image_size,
        device,
        progress,
    )
    sizes = (config.tasks, config.classes_per_task, config.order_seed)
    scenarios = dict.fromkeys(row.scenario for row in config.rows)
    return {name: split(dataset, *sizes, name, config.validation).to(device) for name in scenarios}


def make_learner(config: RunConfig, row: Row, stream: Stream) -> Learner:
    """The learner a row asks for, one run per seed, on the stream's device."""
    cls = find_learner(row.method)
    return cls(
        (stream.n_features, *config.hidden, stream.n_outputs),
        range(config.seeds),
        cls.options_type.from_mapping(row.options),
        head=row.head,
        activation=config.activation,
        device=stream.tasks[0].parts["train"].x.device,
    )


def _document_row(
    config: RunConfig, row: Row, result: TrainingResult, learner: Learner, stream: Stream
) -> dict[str, Any]:
    A = result.accuracy_matrix
    common = {key: value for key, value in asdict(config).items() if key != "rows"}
    document = {
        "method": learner.name,
        "variant": row.options.get("preset", "none"),
        "head": row.head,
        "dataset": config.dataset,
        "encoder": config.encoder,
        "scenario": row.scenario,
        "seeds": learner.seeds,
        "evaluated_on": config.evaluate,
        "tasks": [list(task.classes) for task in stream.tasks],
        "accuracy": summary(metrics.final_accuracy(A)),
        "accuracy_matrix": [[[None if np.isnan(a) else a for a in line] for line in run] for run in A.tolist()],
        "average_incremental": summary(metrics.average_incremental_accuracy(A)),
        "forgetting": summary(metrics.forgetting(A)),
        "bwt": summary(metrics.backward_transfer(A)),
        "fwt": summary(metrics.forward_transfer(result.before, result.untrained)),
        "confusion": result.confusion.astype(int).tolist(),
        "prediction_share": _prediction_share(result, stream),
        "unsettled": None if result.unsettled is None else summary(result.unsettled),
        "diverged": [learner.seeds[run] for run in result.diverged],
        "seconds": result.seconds,
        "config": common | {"method": row.method, "options": row.options},
    }
    alignment = _alignment(learner, stream)
    return document if alignment is None else document | {"feedback_alignment": alignment}


def _prediction_share(result: TrainingResult, stream: Stream) -> list[list[float]] | None:
    """Per seed, the share of answers on each task's outputs; None where all tasks share theirs."""
    if stream.scenario == "domain":
        return None
    return list(metrics.prediction_share(result.confusion, [task.outputs for task in stream.tasks]).tolist())


def _alignment(learner: Learner, stream: Stream) -> list[list[float]] | None:
    """Learned feedback reports how well it points along J^T: one cosine per seed and hidden layer."""
    measure = getattr(learner, "feedback_alignment", None)
    if measure is None or getattr(learner, "feedback", None) is None:
        return None
    return list(measure(stream.tasks[-1].parts["train"].x[:256]).tolist())


def summary(values: Array) -> Mapping[str, Any]:
    """Mean and standard deviation over seeds (n - 1 in the denominator), and the values themselves."""
    std = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return {"mean": float(values.mean()), "std": std, "per_seed": values.tolist()}
