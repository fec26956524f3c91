"""Fashion-MNIST is declared as it was published."""

from __future__ import annotations

from pathlib import Path

import pytest

from efc.data import mnist
from efc.data.fashion_mnist import SPEC
from support.images import idx, pixels


def test_the_published_classes_in_the_published_order() -> None:
    assert SPEC.class_names[0] == "t-shirt"
    assert SPEC.class_names[9] == "boot"
    assert (SPEC.train, SPEC.test, SPEC.shape) == (60000, 10000, (28, 28))


@pytest.mark.parametrize(("spec", "folder"), [(SPEC, "FashionMNIST"), (mnist.SPEC, "MNIST")], ids=["fashion", "mnist"])
def test_each_looks_in_its_own_folder_of_torchvision(spec: object, folder: str, tmp_path: Path) -> None:
    """The two have files of the same names, told apart by the folder alone where only the unzipped ones are kept."""
    other = {"MNIST": "FashionMNIST", "FashionMNIST": "MNIST"}[folder]
    for name in (folder, other):
        (tmp_path / name / "raw").mkdir(parents=True)
    for stem in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (tmp_path / other / "raw" / f"{stem}-ubyte").write_bytes(idx(pixels(2)))
    look = spec.present  # type: ignore[attr-defined]
    assert look(tmp_path) is None
    (tmp_path / folder / "raw").rmdir()
    (tmp_path / other).rename(tmp_path / folder)
    assert look(tmp_path).label == f"files in {tmp_path / folder / 'raw'}"
