"""Any data set by name, and what is said of names that are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from efc.data.catalogue import DATASETS, check_name, usual_tasks
from efc.errors import EFCError
from efc.streams import load


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": "minst"}, "did you mean 'mnist'"),
        ({"name": "npz:"}, "unknown value"),
        ({"name": "digits", "encoder": "resnet"}, "did you mean 'resnet18'"),
        ({"name": "digits", "encoder": "resnet18"}, "too small"),
        ({"name": "digits", "encoder_weights": "x.pth"}, "only resnet18 takes"),
    ],
)
def test_mistakes_are_named(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(EFCError, match=says):
        load(**arguments)


def test_features_cannot_be_encoded_again(tmp_path: Path) -> None:
    x, y = np.ones((4, 6)), np.arange(4)
    np.savez(tmp_path / "a.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    with pytest.raises(EFCError, match="needs uint8 images"):
        load(f"npz:{tmp_path / 'a.npz'}", encoder="efficientnet-lite0")


def test_the_usual_tasks_use_up_the_classes() -> None:
    assert {name: usual_tasks(name) for name in DATASETS} == {
        "digits": (5, 2), "mnist": (5, 2), "fashion-mnist": (5, 2), "cifar10": (5, 2), "tiny-imagenet": (10, 20),
    }  # fmt: skip
    assert usual_tasks("npz:mine.npz") == (5, 2)


@pytest.mark.parametrize("name", ["digits", "npz:some.npz", "folder:/a/b"])
def test_names_that_are_known(name: str) -> None:
    assert check_name(name) == name
