"""Frozen ImageNet encoders: images in, features out, nothing learned."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor, nn

from efc.encoders import efficientnet_lite0, own, preprocess, resnet18
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
            features: Tensor = self.network(own.prepared(self.network, images.to(self.device)))
        return features.clone()  # a plain tensor: autograd refuses those made in inference mode


def check_encoder(name: str) -> str:
    """A known encoder, or somebody's own as ``module:function``, which is not imported here."""
    own_one = isinstance(name, str) and ":" in name  # a file of settings may hold anything
    return name if own_one else choose("encoder", name, (*ENCODERS, "module:function"))


def load_encoder(name: str, weights: Path | None = None, device: torch.device | str = "cpu") -> Encoder:
    """Build an encoder by name; ``weights`` is the checkpoint file of ``resnet18`` and of no other."""
    check_encoder(name)
    if name == "none":
        raise EFCError(f"encoder: 'none' has no network to load; choose one of {', '.join(ENCODERS[1:])}")
    # Building draws initial weights, soon overwritten; the caller's random state is not ours to advance.
    with torch.random.fork_rng(devices=[]):
        network, dim, code = _loaded(name, weights)
    network.eval().requires_grad_(False)
    return Encoder(name, dim, _hash(network, code), torch.device(device), network.to(device))


def _loaded(name: str, weights: Path | None) -> tuple[nn.Module, int, str]:
    """The network, the width of its features, and a hash of its code where that is not ours."""
    if ":" in name:
        network = own.own_network(name).eval()
        return network, own.width_of(network, name), own.code_hash(network)
    return (*(_resnet18(weights) if name == "resnet18" else _efficientnet_lite0(weights)), "")


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


def _hash(network: nn.Module, code: str = "") -> str:
    """sha256 of all parameters and buffers by sorted key, whatever the order in the file they came from."""
    digest = sha256(code.encode())
    for _, value in sorted(network.state_dict().items()):
        digest.update(value.contiguous().cpu().reshape(-1).view(torch.uint8).numpy().data)  # numpy has no bfloat16
    return digest.hexdigest()


__all__ = ["ENCODERS", "Encoder", "check_encoder", "load_encoder", "prepare", "preprocess"]
