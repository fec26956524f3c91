"""The model for Mammoth, in a stand-in for its base class that follows the documented interface."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"
TASKS = ((0, 1), (2, 3))


class Backbone(nn.Module):
    """As Mammoth's: a classifier on features, either of which ``forward`` gives."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.classifier = nn.Linear(4, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor, returnt: str = "out") -> Tensor:
        features = torch.relu(self.body(x))
        return features if returnt == "features" else self.classifier(features)


class ContinualModel(nn.Module):
    """Mammoth's base class, as far as its documentation describes it: its attributes, and what its loop calls."""

    NAME: str
    COMPATIBILITY: list[str]

    def __init__(self, backbone: nn.Module, loss: Any, args: Any, transform: Any, dataset: Any = None) -> None:
        super().__init__()
        self.net, self.loss, self.args, self.transform = backbone, loss, args, transform
        self.num_classes, self.device = 4, "cpu"
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def begin_task(self, dataset: Any) -> None: ...

    def end_task(self, dataset: Any) -> None: ...

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


def part(classes: tuple[int, ...], n: int, seed: int) -> tuple[Tensor, Tensor]:
    y = torch.tensor(classes).repeat(n)
    return torch.eye(4)[y] + 0.1 * torch.randn(len(y), 4, generator=torch.Generator().manual_seed(seed)), y


def test_the_documents_file_learns_in_mammoths_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("models", "models.utils", "models.utils.continual_model"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys.modules["models.utils.continual_model"], "ContinualModel", ContinualModel, raising=False)
    found = re.search(r"```text\n(# models/efc\.py\n.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert found is not None
    scope: dict[str, Any] = {}
    exec(found[1], scope)
    torch.manual_seed(0)
    backbone = Backbone()
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    model = scope["EFC"](backbone, None, SimpleNamespace(), None, None)
    assert (model.NAME, model.COMPATIBILITY) == ("efc", ["class-il", "task-il"])
    accuracies = []
    for k, classes in enumerate(TASKS):
        x, y = part(classes, 50, k)
        dataset = SimpleNamespace(train_loader=DataLoader(TensorDataset(x, y, x), batch_size=32))
        model.begin_task(dataset)
        model.train()
        for inputs, labels, plain in dataset.train_loader:
            assert model.observe(inputs, labels, plain, epoch=0) == 0.0
        model.end_task(dataset)
        model.eval()
        tests = [part(seen, 20, 7) for seen in TASKS[: k + 1]]
        accuracies += [float((model(x).argmax(1) == y).float().mean()) for x, y in tests]
        assert model(tests[0][0]).shape == (40, 4)
    assert min(accuracies) > 0.9
    assert all((before[key] == value).all() for key, value in backbone.state_dict().items())
