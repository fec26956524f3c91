"""The torch module: tasks from loaders, logits over the classes met, and torch's own ways to move and store it."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from scipy import sparse
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
    z[:, 0].sum().backward()
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


def test_numbers_that_are_none_get_no_answer() -> None:
    head, x = learned([3, 1]), blobs([1, 3])[0]
    before = head(x)
    for bad in (float("nan"), float("inf"), float("-inf")):
        wrong = x.clone()
        wrong[2, 1] = bad
        for answer in (head, head.predict, lambda given: head.learn_task((given, torch.ones(len(given)).long()))):
            with pytest.raises(EFCError, match=r"^features: some features are not finite; NaN and infinity"):
                answer(wrong)
        state = head.state_dict()
        state["learner.theta"][0, 0] = bad
        with pytest.raises(RuntimeError, match=r"learner\.theta holds NaN or infinite numbers"):
            head.load_state_dict(state)
    raw = EFCHead(n_features=x.shape[1], hidden=(4,), method="sgd", epochs=1, head="random", standardise=False)
    raw.learn_task((x, torch.arange(len(x)) % 2))
    with pytest.raises(EFCError, match="predict: some outputs are not finite"):
        raw.predict(torch.full_like(x, 3e38))
    assert torch.equal(head(x), before)


def test_classes_that_do_not_go_with_the_tasks_are_refused() -> None:
    head = learned([3, 1])
    for classes in (torch.tensor([1]), torch.tensor([1, 1]), torch.tensor([1.0, 3.0]), torch.tensor([[1, 3]])):
        with pytest.raises(RuntimeError, match="does not fit this head"):
            head.load_state_dict(head.state_dict() | {"classes": classes})
    with pytest.raises(RuntimeError, match="does not fit this head"):
        head.load_state_dict({key: value for key, value in head.state_dict().items() if key != "tasks"})
    assert head.classes == [1, 3]


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


def test_what_is_no_array_of_numbers_is_refused_in_one_sentence() -> None:
    x, y = blobs([3, 1])
    for features, labels, match in [
        (sparse.csr_array(x.numpy()), y, r"features: sparse matrices are not taken; call \.toarray\(\)$"),
        (x.to_sparse(), y, r"features: sparse tensors are not taken; call \.to_dense\(\)$"),
        (x, y.numpy().astype(str), "labels: expected numbers, got ndarray of the kind <U"),
        (None, y, "features: expected numbers, got NoneType of the kind object"),
    ]:
        for ask in (lambda a, b: make().observe(a, b), lambda a, b: make().learn_task([(a, b)])):
            with pytest.raises(EFCError, match=match):
                ask(features, labels)
    with pytest.raises(EFCError, match="class_weight: in a stream every sample counts the same; got 'balanced'"):
        make(class_weight="balanced").observe(x, y)


def test_a_head_observes_a_loader_batch_by_batch_and_goes_on_from_its_state() -> None:
    torch.manual_seed(0)
    centres = 3 * torch.eye(6)
    labels = torch.tensor([5, 3]).repeat_interleave(60).tolist() + [9, 1] * 40
    place = {5: 0, 3: 1, 9: 2, 1: 3}
    x = torch.stack([centres[place[label]] for label in labels]) + 0.5 * torch.randn(200, 6)
    loader = DataLoader(TensorDataset(x, torch.tensor(labels)), batch_size=9)
    head, twin = EFCHead(6, hidden=(12,)), EFCHead(6, hidden=(12,))
    for step, (some, told) in enumerate(loader):
        head.observe(some, told)
        if step == 10:
            twin.load_state_dict(head.state_dict())
        elif step > 10:
            twin.observe(some, told)
    assert head.classes == [5, 3, 9, 1]
    assert float((head.predict(x) == torch.tensor(labels)).double().mean()) > 0.9
    assert torch.equal(head(x), twin(x))
    with pytest.raises(EFCError, match="observes a stream"):
        head.learn_task((x, torch.tensor(labels)))
    with pytest.raises(EFCError, match="has been given tasks"):
        EFCHead(6, hidden=(12,), epochs=1).learn_task((x, torch.tensor(labels))).observe(x, labels)
