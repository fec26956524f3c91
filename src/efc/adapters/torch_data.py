"""Torch datasets and loaders, with the features that a frozen network makes of them, as a data set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from efc.adapters.arrays import from_arrays
from efc.data.dataset import Dataset
from efc.errors import EFCError, shown

Batches = TorchDataset[tuple[Tensor, Tensor]] | Iterable[tuple[Tensor, Tensor]]
BATCH = 256


def from_torch(
    train: Batches,
    test: Batches | None = None,
    encoder: nn.Module | None = None,
    classes: Sequence[str] | None = None,
    name: str = "torch",
) -> Dataset:
    """Datasets of (x, label), or loaders of batches of them; ``encoder`` makes the features, frozen, where it lives.

    What a loader shuffles or augments is taken as it comes, once. Without ``test`` a fifth of each class is set aside.
    """
    parts = [pair(part, encoder) for part in (train, test) if part is not None]
    return from_arrays(name, parts[0], parts[1] if len(parts) > 1 else None, classes)


def pair(data: Batches, encoder: nn.Module | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Features (N, d) and labels (N,) of everything in a dataset or loader."""
    found = [(features(x, encoder).cpu().numpy(), np.asarray(y)) for x, y in _batches(data)]
    if not found:
        raise EFCError("data: the dataset or loader gave no samples")
    return np.concatenate([x for x, _ in found]), np.concatenate([y for _, y in found])


def features(x: Tensor, encoder: nn.Module | None) -> Tensor:
    """(B, d): what a frozen network makes of a batch, or the batch itself; the network is left in its mode."""
    if encoder is None:
        return x.flatten(1)
    place = next((p for p in encoder.parameters()), x)
    training = encoder.training
    encoder.eval()
    with torch.inference_mode():
        made = encoder(x.to(place.device))
    encoder.train(training)
    found = cast(Tensor, made).flatten(1).clone()  # a plain tensor, not one of inference mode
    return found.float() if found.dtype == torch.bfloat16 else found  # which numpy does not know


def _batches(data: Batches) -> Iterable[tuple[Tensor, Tensor]]:
    if isinstance(data, TorchDataset) and not isinstance(data, DataLoader):
        data = DataLoader(data, batch_size=BATCH)
    for batch in data:
        if not isinstance(batch, tuple | list) or len(batch) < 2 or not isinstance(batch[0], Tensor):
            raise EFCError(f"data: expected batches of (x, labels, ...), got a {type(batch).__name__}")
        try:
            labels = torch.as_tensor(batch[1])
        except (TypeError, ValueError, RuntimeError):
            raise EFCError(f"data: expected labels that are whole numbers, got {shown(batch[1])}") from None
        yield batch[0], labels
