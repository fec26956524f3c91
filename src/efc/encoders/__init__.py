"""Frozen ImageNet encoders: images in, features out, nothing learned."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor, nn

from efc.encoders import efficientnet_lite0, preprocess, resnet18
from efc.encoders.preprocess import prepare
from efc.errors import EFCError, choose

ENCODERS = ("none", "efficientnet-lite0", "resnet18")


@dataclass(frozen=True)
class Encoder:
    """A frozen network; ``weights_hash`` and :data:`preprocess.VERSION` together say what its features depend on."""

    name: str
    dim: int
    weights_hash: str
    device: torch.device
    network: nn.Module = field(repr=False, compare=False)

    def features(self, images: Tensor) -> Tensor:
        """uint8 images (B, H, W, 3) or (B, H, W) from any device to float32 (B, dim) on the encoder's device."""
        with torch.inference_mode():
            features: Tensor = self.network(prepare(images.to(self.device)))
        return features.clone()  # a plain tensor: autograd refuses those made in inference mode


def load_encoder(name: str, weights: Path | None = None, device: torch.device | str = "cpu") -> Encoder:
    """Build an encoder by name; ``weights`` is the checkpoint file of ``resnet18`` and of no other."""
    choose("encoder", name, ENCODERS)
    if name == "none":
        raise EFCError(f"encoder: 'none' has no network to load; choose one of {', '.join(ENCODERS[1:])}")
    # Building draws initial weights, soon overwritten; the caller's random state is not ours to advance.
    with torch.random.fork_rng(devices=[]):
        network, dim = _resnet18(weights) if name == "resnet18" else _efficientnet_lite0(weights)
    network.eval().requires_grad_(False)
    return Encoder(name, dim, _hash(network), torch.device(device), network.to(device))


def _resnet18(weights: Path | None) -> tuple[nn.Module, int]:
    if weights is None:
        raise EFCError(f"weights: None, but encoder 'resnet18' needs its checkpoint; pass the file from {resnet18.URL}")
    network = resnet18.ResNet18()
    network.load_state(weights)
    return network, resnet18.DIM


def _efficientnet_lite0(weights: Path | None) -> tuple[nn.Module, int]:
    if weights is not None:
        raise EFCError(f"weights: {weights}, but encoder 'efficientnet-lite0' brings its own; leave weights out")
    return efficientnet_lite0.EfficientNetLite0(), efficientnet_lite0.DIM


def _hash(network: nn.Module) -> str:
    """sha256 of all parameters and buffers by sorted key, whatever the order in the file they came from."""
    digest = sha256()
    for _, value in sorted(network.state_dict().items()):
        digest.update(value.contiguous().numpy().tobytes())
    return digest.hexdigest()


__all__ = ["ENCODERS", "Encoder", "load_encoder", "prepare", "preprocess"]
