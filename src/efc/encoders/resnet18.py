"""ResNet18 for ImageNet in plain torch, with the keys and shapes of torchvision's checkpoints."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import relu

from efc.errors import EFCError

URL = "https://download.pytorch.org/models/resnet18-f37072fd.pth"
SHA256 = "f37072fd47e89c5e827621c5baffa7500819f7896bbacec160b1a16c560e07ec"
SIZE_IN_BYTES = 46_830_571
DIM = 512


class Block(nn.Module):
    """Two 3 x 3 convolutions around a skip connection, which a 1 x 1 convolution adapts where the shape changes."""

    def __init__(self, d_in: int, d_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(d_in, d_out, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(d_out)
        self.conv2 = nn.Conv2d(d_out, d_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(d_out)
        self.downsample = nn.Sequential()
        if stride != 1 or d_in != d_out:
            self.downsample = nn.Sequential(nn.Conv2d(d_in, d_out, 1, stride, bias=False), nn.BatchNorm2d(d_out))

    def forward(self, x: Tensor) -> Tensor:
        y = relu(self.bn1(self.conv1(x)))
        return relu(self.bn2(self.conv2(y)) + self.downsample(x))


class ResNet18(nn.Module):
    """Normalised images (B, 3, H, W) to the 512 averaged activations below ``fc``, which is there for its keys only."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = nn.Sequential(Block(64, 64, 1), Block(64, 64, 1))
        self.layer2 = nn.Sequential(Block(64, 128, 2), Block(128, 128, 1))
        self.layer3 = nn.Sequential(Block(128, 256, 2), Block(256, 256, 1))
        self.layer4 = nn.Sequential(Block(256, 512, 2), Block(512, 512, 1))
        self.fc = nn.Linear(DIM, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean((2, 3))

    def load_state(self, path: Path) -> None:
        """Take the parameters of a checkpoint, as float32; refuse one that is not a ResNet18's, to the last key."""
        state, own = _read(path), self.state_dict()
        # Batch counts play no part in the features, and old checkpoints have none.
        state = {key: own[key] for key in own if key.endswith("num_batches_tracked")} | state
        difference = _first_difference(own, state)
        if difference:
            raise EFCError(f"weights: {path} is not a ResNet18 checkpoint ({difference}); use the file from {URL}")
        self.load_state_dict(state)


def _read(path: Path) -> dict[str, Tensor]:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise EFCError(f"weights: cannot open {path} ({error.strerror}); use the file from {URL}") from error
    except Exception as error:  # what torch.load raises depends on which bytes it stumbles over
        raise EFCError(f"weights: {path} is not a torch checkpoint; use the file from {URL}") from error
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise EFCError(f"weights: {path} holds no plain state dict; use the file from {URL}")
    return state


def _first_difference(own: dict[str, Tensor], state: dict[str, Tensor]) -> str | None:
    """The first key, in the network's order and then the file's, that is missing, not finite, or unexpected."""
    for key, value in own.items():
        if key not in state:
            return f"key {key!r} is missing"
        if state[key].shape != value.shape:
            return f"key {key!r} has shape {tuple(state[key].shape)} instead of {tuple(value.shape)}"
        if not (state[key].is_floating_point() or key.endswith("num_batches_tracked")):
            return f"key {key!r} holds {state[key].dtype}"
        if not state[key].isfinite().all():
            return f"key {key!r} holds NaN or infinite values"
    unexpected = next((key for key in state if key not in own), None)
    return None if unexpected is None else f"key {unexpected!r} is unexpected"
