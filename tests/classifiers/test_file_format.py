"""Files of estimators: what is written comes back, and other versions are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from efc.classifiers import file_format
from efc.classifiers.file_format import describe_labels, plain, read, restore_labels, write
from efc.errors import EFCError


def test_tensors_and_description_come_back(tmp_path: Path) -> None:
    state = {"theta": torch.tensor([[1.5, -0.0]], dtype=torch.float64), "count": torch.tensor(3)}
    write(tmp_path / "a", state, {"parameters": {"lr": np.float32(0.5), "hidden": np.array([4, 5])}})
    found, about = read(tmp_path / "a")
    assert found.keys() == state.keys()
    for key, value in state.items():
        assert torch.equal(found[key], value)
        assert found[key].dtype == value.dtype
    assert about == {"format": 1, "parameters": {"lr": 0.5, "hidden": [4, 5]}}


def test_a_later_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(file_format, "FORMAT", 2)
        write(tmp_path / "a", {"x": torch.zeros(1)}, {})
    with pytest.raises(EFCError, match="written in format 2, this version of efc reads 1"):
        read(tmp_path / "a")


@pytest.mark.parametrize(
    "labels",
    [np.array([3, 1]), np.array([True, False]), np.array([0.5, 2.0], np.float32), np.array(["b", "äh"]),
     np.array(["b", "long"], dtype=object), np.array([7, 8], np.uint8)],
    ids=lambda labels: labels.dtype.str,
)  # fmt: skip
def test_labels_come_back_as_they_were(labels: Any) -> None:
    found = restore_labels(describe_labels(labels))
    assert found.dtype == labels.dtype
    assert found.tolist() == labels.tolist()


def test_labels_and_parameters_that_cannot_be_written() -> None:
    with pytest.raises(EFCError, match="only numbers and texts"):
        describe_labels(np.array([("a",), None], dtype=object))
    with pytest.raises(EFCError, match="of the kind object cannot be written"):
        plain(object())
    assert plain(np.random.RandomState(0)) is None
    assert plain(np.mean).endswith(":mean")
