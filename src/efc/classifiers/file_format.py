"""A fitted estimator as one safetensors file: its tensors, and a JSON description among the file's metadata."""

from __future__ import annotations

import json
import numbers
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from efc.errors import EFCError
from efc.files import Json, write_atomically
from efc.plugins import name_of

KEY = "efc_estimator"
FORMAT = 1


def write(path: Path, state: Mapping[str, Tensor], about: Mapping[str, object]) -> None:
    """The file is there whole or, if something goes wrong, as it was before."""
    text = json.dumps({"format": FORMAT, **about}, default=plain)
    write_atomically(path, save(dict(state), metadata={KEY: text}))


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and description."""
    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = file.metadata() or {}
            state = {key: torch.as_tensor(file.get_tensor(key)) for key in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as problem:
        raise EFCError(f"cannot read {path}: {problem}") from None
    if KEY not in metadata:
        raise EFCError(f"{path}: this safetensors file holds no estimator")
    about = json.loads(metadata[KEY])
    if about["format"] != FORMAT:
        raise EFCError(f"{path}: written in format {about['format']}, this version of efc reads {FORMAT}")
    return state, about


def plain(value: object) -> object:
    """What JSON has no word for: numpy's numbers and arrays, functions (by name), a random state (not needed again)."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, np.random.RandomState):
        return None  # the seed drawn from it is stored beside it
    if callable(value):
        return name_of(value)
    raise EFCError(f"save: a parameter of the kind {type(value).__name__} cannot be written to a file: {value!r}")


def describe_labels(labels: NDArray[Any]) -> dict[str, Json]:
    """Labels and their kind, so that they come back as they were."""
    values = labels.tolist()
    if not all(isinstance(value, str | numbers.Real) for value in values):
        raise EFCError(f"save: only numbers and texts can be saved as labels, got {values[:3]!r}")
    return {"dtype": labels.dtype.str if labels.dtype.kind in "biufU" else "O", "values": values}


def restore_labels(about: Mapping[str, Any]) -> NDArray[Any]:
    return np.array(about["values"], dtype=np.dtype(about["dtype"]))
