"""Avalanche: its benchmarks as our streams, and our learners as its strategy (version 0.6)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from efc.adapters.arrays import Values
from efc.adapters.backbone import Frozen
from efc.adapters.torch_data import BATCH, Batches, pair
from efc.classifiers.torch_head import EFCHead
from efc.errors import EFCError, MissingError
from efc.streams import Part, Stream, Task

try:
    from avalanche.training.templates import SupervisedTemplate
except ImportError:
    raise MissingError("avalanche", "avalanche-lib", "avalanche") from None


class EFCStrategy(SupervisedTemplate):  # type: ignore[misc, unused-ignore]
    """A strategy whose every experience is the head's next task; plugins, loggers and metrics of evaluation work.

    An experience is learned as a whole, from what the plugins have made of its data (``adapted_dataset``), by the
    head's own epochs and batches: there are no iterations that a plugin could hear of.

    Args:
        head: Learns from the network's features; an ``EFCHead`` of any method.
        n_classes: Of the whole benchmark.
        network: Frozen; makes the features. None: the inputs, flattened.
        others: Whatever Avalanche's ``SupervisedTemplate`` takes, such as ``evaluator``, ``plugins``, ``device``.
    """

    def __init__(self, *, head: EFCHead, n_classes: int, network: nn.Module | None = None, **others: Any) -> None:
        others = {"eval_mb_size": BATCH, "train_mb_size": BATCH} | others
        super().__init__(model=Frozen(head, n_classes, network), optimizer=None, **others)

    def check_model_and_optimizer(self, *_: object, **__: object) -> None:
        """There is nothing for an optimiser to do, and the head grows by itself."""
        self.model.to(self.device)

    def _train_exp(self, experience: object, eval_streams: object = None, **_: object) -> None:
        self.model.learn_task((batch[0], batch[1]) for batch in DataLoader(self.adapted_dataset, batch_size=BATCH))


def stream_of(benchmark: Any, network: nn.Module | None = None, scenario: str = "class", name: str = "") -> Stream:
    """A benchmark as a stream: an experience is a task, its test experience of the same number its test part.

    The classes of every experience must be its own. ``network`` makes features, frozen.
    """
    if scenario not in ("class", "task"):
        raise EFCError(f"scenario: expected class or task, got {scenario!r}")
    tasks, at, seen = [], 0, set[int]()
    for k, (train, test) in enumerate(zip(benchmark.train_stream, benchmark.test_stream, strict=True)):
        parts = {"train": _pair(train, network), "test": _pair(test, network)}
        classes = sorted({int(label) for label in parts["train"][1]})
        if again := seen & set(classes):
            raise EFCError(
                f"benchmark: experience {k} brings classes again ({sorted(again)}); give such to EFCStrategy"
            )
        seen |= set(classes)
        place = {label: at + i for i, label in enumerate(classes)}
        made = {part: _part(x, y, place, k) for part, (x, y) in parts.items()}
        made["validation"] = Part(made["train"].x[:0], made["train"].y[:0])
        tasks.append(Task(k, tuple(map(str, classes)), slice(at, at + len(classes)), made))
        at += len(classes)
    return Stream(name or type(benchmark).__name__, scenario, tuple(tasks), tasks[0].parts["train"].x.shape[1], at)


def _pair(experience: Any, network: nn.Module | None) -> tuple[Values, Values]:
    data: Batches = DataLoader(experience.dataset, batch_size=BATCH)
    return pair(data, network)


def _part(x: Values, y: Values, place: dict[int, int], index: int) -> Part:
    if unknown := sorted({int(label) for label in y} - place.keys()):
        raise EFCError(f"benchmark: experience {index} tests classes that it does not teach ({unknown})")
    return Part(torch.as_tensor(x, dtype=torch.float32), torch.tensor([place[int(label)] for label in y]))
