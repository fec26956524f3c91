"""Any data set by name, and what is said of names that are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from efc.data.catalogue import DATASETS, check_name, count_classes, usual_classes
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


def test_classes_are_counted_without_loading_the_data(tmp_path: Path) -> None:
    assert {name: (count_classes(name), usual_classes(name)) for name in DATASETS} == {
        "digits": (10, 2), "mnist": (10, 2), "fashion-mnist": (10, 2), "cifar10": (10, 2), "tiny-imagenet": (200, 20),
    }  # fmt: skip
    x = np.ones((6, 2))
    np.savez(tmp_path / "six.npz", x_train=x, y_train=list("abcdef"), x_test=x[:1], y_test=["a"])
    assert count_classes(f"npz:{tmp_path / 'six.npz'}") == 6
    assert usual_classes("npz:mine.npz") == 2
    for name in ("cat", "dog", "owl"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        (tmp_path / "pictures" / name / "1.png").touch()
    assert count_classes(f"folder:{tmp_path / 'pictures'}") == 3
    for gone in ("npz:gone.npz", "folder:gone"):
        with pytest.raises(EFCError, match="is not there"):
            count_classes(gone)


@pytest.mark.parametrize("name", ["digits", "npz:some.npz", "folder:/a/b"])
def test_names_that_are_known(name: str) -> None:
    assert check_name(name) == name
