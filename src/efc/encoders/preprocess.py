"""From the pixels of any image to the input of an ImageNet encoder, the same for every encoder."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from efc.errors import EFCError

SIZE = 224
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
# Part of a feature cache's key: change it whenever `prepare` changes what it returns.
VERSION = "unit-bicubic224-antialias-imagenet-1"


def prepare(images: Tensor) -> Tensor:
    """uint8 (B, H, W, 3), or (B, H, W) in grey, to normalised float32 (B, 3, 224, 224) on the same device."""
    shape = tuple(images.shape)
    if images.dtype != torch.uint8 or len(shape) not in (3, 4) or shape[3:] not in ((), (3,)) or 0 in shape[1:]:
        raise EFCError(
            f"images: expected uint8 (B, H, W, 3) or (B, H, W), got {images.dtype} {shape}; "
            "pass pixels 0..255 with the colours last"
        )
    # One grey channel becomes three at the normalisation, by broadcasting: a third of the resizing.
    x = (images.unsqueeze(1) if len(shape) == 3 else images.permute(0, 3, 1, 2)).float() / 255
    # Bicubic weights overshoot [0, 1] at sharp edges; the reference features were made without clamping.
    x = interpolate(x, size=(SIZE, SIZE), mode="bicubic", align_corners=False, antialias=True)
    mean, std = (torch.tensor(c, device=x.device).view(1, 3, 1, 1) for c in (MEAN, STD))
    return (x - mean) / std
