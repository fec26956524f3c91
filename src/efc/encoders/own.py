"""Somebody's own frozen network as an encoder, named as ``module:function``: to name it is to run its code."""

from __future__ import annotations

import inspect
from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor, nn

from efc.encoders.preprocess import prepare
from efc.errors import EFCError
from efc.plugins import load_object


def own_network(spec: str) -> nn.Module:
    """What the function gives: a module from normalised images (B, 3, 224, 224) to features (B, d).

    If it has a method ``prepare``, that makes its input, from uint8 images (B, H, W, 3) or (B, H, W).
    """
    make = load_object("encoder", spec)
    try:
        network = make()
    except Exception as problem:  # whatever somebody's function does
        raise EFCError(f"encoder: {spec} failed: {type(problem).__name__}: {problem}") from problem
    if not isinstance(network, nn.Module):
        raise EFCError(f"encoder: {spec} must return a torch module, got {type(network).__name__}")
    return network


def width_of(network: nn.Module, spec: str) -> int:
    """The number of features, found by trying."""
    images = torch.zeros(2, 32, 32, 3, dtype=torch.uint8)
    try:
        with torch.inference_mode():
            made = network(prepared(network, images))
    except Exception as problem:
        raise EFCError(f"encoder: {spec} failed on an image: {type(problem).__name__}: {problem}") from problem
    if not isinstance(made, Tensor) or made.dim() != 2 or len(made) != 2 or not made.shape[1] or made.is_complex():
        shape = f"{made.dtype} {tuple(made.shape)}" if isinstance(made, Tensor) else type(made).__name__
        raise EFCError(f"encoder: {spec} must return features (B, d), got {shape} for 2 images")
    return int(made.shape[1])


def prepared(network: nn.Module, images: Tensor) -> Tensor:
    """The network's input, by its own ``prepare`` if it has one."""
    own = getattr(network, "prepare", None)
    made: Tensor = prepare(images) if own is None else own(images)
    return made


def code_hash(network: nn.Module) -> str:
    """Of the file in which the network's class is written: other code, other features."""
    try:
        return sha256(Path(inspect.getfile(type(network))).read_bytes()).hexdigest()
    except (OSError, TypeError):
        return ""
