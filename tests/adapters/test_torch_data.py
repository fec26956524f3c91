"""Torch's datasets and loaders, with a network before them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from efc.adapters.torch_data import from_torch
from efc.errors import EFCError

X, Y = torch.randn(60, 2, 3, generator=torch.Generator().manual_seed(0)), torch.arange(60) % 3


def test_a_dataset_and_a_loader_give_the_same() -> None:
    data = TensorDataset(X, Y)
    one, other = from_torch(data, data), from_torch(DataLoader(data, batch_size=7), data, classes=["a", "b", "c"])
    assert (one.x_train == X.flatten(1).numpy()).all()
    assert (one.x_train == other.x_train).all()
    assert other.class_names == ("a", "b", "c")
    assert one.y_test.tolist() == Y.tolist()


def test_the_network_makes_the_features_as_in_use_and_is_left_as_it_was() -> None:
    network = nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)).train()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    found = from_torch(TensorDataset(X, Y), TensorDataset(X, Y), encoder=network)
    assert network.training
    assert all((before[key] == value).all() for key, value in network.state_dict().items())
    with torch.no_grad():
        expected = network.eval()(X).numpy()
    torch.testing.assert_close(torch.from_numpy(found.x_test), torch.from_numpy(expected))


def test_what_gives_no_batches_of_pairs_is_refused() -> None:
    with pytest.raises(EFCError, match="gave no samples"):
        from_torch([])
    with pytest.raises(EFCError, match="expected batches"):
        from_torch([X])
    with pytest.raises(EFCError, match=r"labels that are whole numbers, got .'a'"):
        from_torch([(X[:2], ("a", "b"))])  # type: ignore[list-item]


def test_features_in_half_precision_of_the_other_kind_are_taken() -> None:
    network = nn.Flatten().to(torch.bfloat16)
    found = from_torch(TensorDataset(X.bfloat16(), Y), TensorDataset(X.bfloat16(), Y), encoder=network)
    assert (found.x_train == X.bfloat16().float().flatten(1).numpy()).all()
