"""The torch module: tasks from loaders, logits over the classes met, and torch's own ways to move and store it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from efc import EFCError, EFCHead
from efc.learners import LEARNERS

pytestmark = pytest.mark.filterwarnings("ignore::efc.errors.EFCWarning")  # what is told is tested by test_diagnosis


def blobs(classes: list[int], per_class: int = 15, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Well separated classes in six dimensions, shuffled."""
    generator = torch.Generator().manual_seed(seed)
    centres = 3 * torch.randn(10, 6, generator=torch.Generator().manual_seed(99))
    y = torch.tensor(classes).repeat_interleave(per_class)
    y = y[torch.randperm(len(y), generator=generator)]
    return centres[y] + 0.3 * torch.randn(len(y), 6, generator=generator), y


def loader(classes: list[int]) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*blobs(classes)), batch_size=7)


def make(method: str = "efc", **changes: Any) -> EFCHead:
    return EFCHead(6, method=method, **({"hidden": (20,), "epochs": 3} | changes))


def learned(*tasks: list[int], **changes: Any) -> EFCHead:
    head = make(**changes)
    for classes in tasks:
        head.learn_task(loader(classes))
    return head


@pytest.mark.parametrize("method", LEARNERS)
def test_classes_as_they_come(method: str) -> None:
    options = {"strength": 1e4} if method in ("online_ewc", "si", "mas") else {}
    head = learned([7, 2], [5], [9, 0, 2], method=method, options=options)
    assert head.classes == [2, 7, 5, 0, 9]
    assert head.tasks == [[2, 7], [5], [2, 0, 9]]
    x, y = blobs([0, 2, 5, 7, 9], seed=1)
    z = head(x)
    assert z.shape == (75, 5)
    assert (head.predict(x) == y).double().mean() > 0.9
    assert torch.equal(torch.tensor(head.classes)[z.argmax(1)], head.predict(x))
    assert set(head.predict(x, task=1).tolist()) == {5}
    assert torch.equal(torch.isinf(head(x, task=2)), torch.tensor([False, True, True, False, False]).expand(75, 5))


def test_an_untrained_head_has_no_classes() -> None:
    head = make()
    assert head.classes == head.tasks == []
    assert head(torch.zeros(3, 6)).shape == (3, 0)
    with pytest.raises(EFCError, match="no task has been learned"):
        head.predict(torch.zeros(3, 6))


def test_any_leading_shape_and_gradients_for_the_features_alone() -> None:
    head = learned([0, 1])
    x = blobs([0, 1])[0].requires_grad_()
    z = head(x)
    assert torch.allclose(head(x.reshape(5, 3, 2, 6)).reshape(30, 2), z)
    assert torch.allclose(head(x[0]), z[0], atol=1e-5)
    z.sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0
    assert list(head.parameters()) == []
    again = make().learn_task([(x, blobs([0, 1])[1])])  # features that carry a graph
    assert not again(x.detach()).requires_grad


@pytest.mark.parametrize("method", ["efc", "derpp", "si", "joint"])
def test_a_stored_head_answers_and_learns_on_alike(method: str, tmp_path: Path) -> None:
    head = learned([3, 1], [4], method=method)
    save_file(nn.Sequential(nn.Identity(), head).state_dict(), tmp_path / "model.safetensors")
    model = nn.Sequential(nn.Identity(), make(method))
    model.load_state_dict(load_file(tmp_path / "model.safetensors"))
    other = model[1]
    x, _ = blobs([1, 3, 4, 8], seed=1)
    assert isinstance(other, EFCHead)
    assert other.classes == [1, 3, 4]
    assert torch.equal(other(x), head(x))
    assert torch.equal(copy.deepcopy(head)(x), head(x))
    for one in (head, other):
        one.learn_task(loader([8, 1]))
    assert torch.equal(other(x), head(x))
    assert torch.equal(other(x, task=2), head(x, task=2))


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    head = learned([3, 1])
    before = head(blobs([1])[0])
    for other in (learned([0, 1], hidden=(30,)), learned([0, 1], method="derpp")):
        with pytest.raises(RuntimeError, match="does not fit this head"):
            head.load_state_dict(other.state_dict())
    with pytest.raises(RuntimeError, match="Missing key"):
        head.load_state_dict({})
    assert head.classes == [1, 3]
    assert torch.equal(head(blobs([1])[0]), before)


def test_it_moves_as_modules_do() -> None:
    head, x = learned([3, 1]), blobs([1, 3])[0]
    single = head(x)
    model = nn.Sequential(nn.Identity(), head).double()
    double = model(x.double())
    assert double.dtype == torch.float64
    assert torch.allclose(double.float(), single, atol=1e-4)
    head.learn_task(loader([5]))
    assert (head(x.double()).dtype, head.classes) == (torch.float64, [1, 3, 5])
    assert head.to("cpu", torch.float32)(x).dtype == torch.float32
    with pytest.raises(EFCError, match="float32 or float64"):
        head.half()


def test_mistakes_are_told_and_change_nothing() -> None:
    head, (x, y) = learned([3, 1]), blobs([3, 1])
    before = head(x)
    holes = x.clone()
    holes[2, 3] = float("nan")
    for batches, match in [
        ([], "gave no samples"),
        ([(x, y.double())], "expected integers"),
        ([(x, y[:, None])], "expected integers"),
        ([(x, y[1:])], "not as many labels as features"),
        ([(x[:, :4], y)], r"features: expected \(\.\.\., 6\), got \(30, 4\)"),
        ([(holes, y)], "not finite"),
    ]:
        with pytest.raises(EFCError, match=match):
            head.learn_task(batches)
    with pytest.raises(EFCError, match=r"expected \(\.\.\., 6\)"):
        head(x[:, :4])
    with pytest.raises(EFCError, match="task: 1 is not among the 1"):
        head(x, task=1)
    with pytest.raises(EFCError, match="did you mean 'kappa'"):
        make(options={"kapa": 1})
    assert torch.equal(head(x), before)
    assert "method='efc'" in repr(head)
