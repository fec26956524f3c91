"""Avalanche's benchmarks and strategies: the real ones where it is installed, else a stand-in for what it documents."""

from __future__ import annotations

import io
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from efc import EFCHead
from efc.errors import EFCError

REAL = find_spec("avalanche") is not None
ADAPTER = "efc.adapters.avalanche"
METRIC = "Top1_Acc_Stream/eval_phase/test_stream"
TASKS = ([3, 1], [0, 2])


class SupervisedTemplate:
    """The loops of Avalanche's templates, as documented: in their order, what a strategy may override."""

    def __init__(
        self, *, model: nn.Module, optimizer: Any, train_mb_size: int, eval_mb_size: int, device: str = "cpu"
    ) -> None:
        self.model, self.optimizer, self.device = model, optimizer, device
        self.train_mb_size, self.eval_mb_size = train_mb_size, eval_mb_size

    def train(self, experience: Any, eval_streams: Any = None, **others: Any) -> None:
        self.model.train()
        self.model.to(self.device)
        self.adapted_dataset = experience.dataset  # train_dataset_adaptation
        self.check_model_and_optimizer()
        self._train_exp(experience, eval_streams, **others)

    def check_model_and_optimizer(self) -> None:
        raise NotImplementedError("adapts a model to its task, and gives its parameters to the optimiser")

    def _train_exp(self, experience: Any, eval_streams: Any, **others: Any) -> None:
        raise NotImplementedError("epochs of batches, each a step of the optimiser")

    @torch.no_grad()
    def eval(self, stream: list[Any]) -> dict[str, float]:
        self.model.eval()
        batches = [b for e in stream for b in DataLoader(e.dataset, self.eval_mb_size)]
        right = [(self.model(x.to(self.device)).argmax(1).cpu() == y).float() for x, y in batches]
        return {f"{METRIC}/Task000": float(torch.cat(right).mean())}


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The adapter."""
    if REAL:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Avalanche's own imports
            yield import_module(ADAPTER)
        return
    for name in ("avalanche", "avalanche.training", "avalanche.training.templates"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(
        sys.modules["avalanche.training.templates"], "SupervisedTemplate", SupervisedTemplate, raising=False
    )
    yield import_module(ADAPTER)
    del sys.modules[ADAPTER]  # nobody else is to find it


def experience(classes: list[int], n: int, seed: int) -> Any:
    y = torch.tensor(classes).repeat(n)
    x = torch.eye(4)[y] + 0.1 * torch.randn(len(y), 4, generator=torch.Generator().manual_seed(seed))
    data: Any = TensorDataset(x, y)
    data.targets = y
    if REAL:
        from avalanche.benchmarks.utils import as_classification_dataset

        return as_classification_dataset(data)
    return SimpleNamespace(dataset=data)


def benchmark(tasks: tuple[list[int], ...] = TASKS) -> Any:
    parts = {
        "train": [experience(task, 40, k) for k, task in enumerate(tasks)],
        "test": [experience(task, 20, 9 + k) for k, task in enumerate(tasks)],
    }
    if REAL:
        from avalanche.benchmarks import benchmark_from_datasets

        return benchmark_from_datasets(**parts)
    return SimpleNamespace(train_stream=parts["train"], test_stream=parts["test"])


def evaluated() -> dict[str, Any]:
    """What a strategy is given to measure with; the stand-in measures by itself."""
    if not REAL:
        return {}
    from avalanche.evaluation.metrics import accuracy_metrics
    from avalanche.logging import TextLogger
    from avalanche.training.plugins import EvaluationPlugin

    return {"evaluator": EvaluationPlugin(accuracy_metrics(stream=True), loggers=[TextLogger(io.StringIO())])}


def accuracy(found: dict[str, float]) -> float:
    return next(value for key, value in found.items() if key.startswith(METRIC))


def test_the_strategy_learns_a_benchmark_and_its_metrics_see_it(ours: Any) -> None:
    given = benchmark()
    strategy = ours.EFCStrategy(head=EFCHead(4, hidden=[32], epochs=5), n_classes=4, **evaluated())
    found = []
    for task in given.train_stream:
        strategy.train(task, eval_streams=[])
        found.append(accuracy(strategy.eval(given.test_stream)))
    assert found[0] == pytest.approx(0.5, abs=0.05)  # the classes of the second task cannot be known yet
    assert found[1] > 0.9
    assert strategy.model.head.tasks == [[1, 3], [0, 2]]


def test_a_benchmark_is_a_stream(ours: Any) -> None:
    stream = ours.stream_of(benchmark())
    assert [task.classes for task in stream.tasks] == [("1", "3"), ("0", "2")]
    assert [task.outputs for task in stream.tasks] == [slice(0, 2), slice(2, 4)]
    for task, experience_ in zip(stream.tasks, benchmark().test_stream, strict=True):
        x = torch.stack([sample[0] for sample in experience_.dataset])
        assert (task.parts["test"].x == x).all()
        names = torch.tensor([int(name) for t in stream.tasks for name in t.classes])
        assert names[task.parts["test"].y].tolist() == [sample[1] for sample in experience_.dataset]
    with pytest.raises(EFCError, match=r"experience 1 brings classes again \(\[1\]\)"):
        ours.stream_of(benchmark(([3, 1], [1, 2])))
