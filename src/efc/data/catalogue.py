"""Any data set by name, as features ready to be cut into tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from efc.data import digits
from efc.data.dataset import Dataset
from efc.data.image_set import PARTS, ImageSet
from efc.data.own import folder_classes, npz_classes, read_folder, read_npz
from efc.data.store import SPECS, data_root, open_set
from efc.encoders import check_encoder
from efc.errors import EFCError, choose

DATASETS = ("digits", *SPECS)
"""The data sets known by name."""
OWN = ("npz", "folder")
ENCODED_SIZE = 224
Progress = Callable[[str, int, int | None], None]


def check_name(name: str) -> str:
    """A known data set, or ``npz:FILE`` or ``folder:DIR``."""
    if name.partition(":")[0] in OWN and name.partition(":")[2]:
        return name
    return choose("dataset", name, (*DATASETS, "npz:FILE", "folder:DIR"))


def usual_classes(name: str) -> int:
    """The customary number of classes per task."""
    return SPECS[name].classes_per_task if name in SPECS else 2


def count_classes(name: str) -> int:
    """How many classes a data set has, found without loading it."""
    kind, _, place = check_name(name).partition(":")
    if kind == "npz":
        return npz_classes(_path(place))
    if kind == "folder":
        return folder_classes(_path(place))
    return len(SPECS[name].class_names) if name in SPECS else len(digits.CLASSES)


def load(
    name: str,
    encoder: str = "none",
    encoder_weights: Path | str | None = None,
    data_dir: Path | str | None = None,
    image_size: int = 32,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Dataset:
    """A data set as features: pixels in [0, 1], or what a frozen ``encoder`` makes of the images.

    Fetched and encoded first where that has not been done. Pictures of a ``folder:`` are resized to ``image_size``.
    """
    check_name(name)
    check_encoder(encoder)
    if encoder_weights is not None and encoder != "resnet18":
        raise EFCError(f"encoder_weights: only resnet18 takes a file of weights, not encoder {encoder!r}")
    if name == "digits":
        if encoder != "none":
            raise EFCError(f"encoder: digits are 8 x 8 pixels, too small for {encoder!r}; use none")
        return digits.load()
    if name.startswith("npz:"):
        arrays = read_npz(_path(name.partition(":")[2]))
        if encoder == "none":
            scale = (1 / 255 if arrays.x["train"].dtype == np.uint8 else 1.0) if arrays.scale is None else arrays.scale
            x = {part: arrays.x[part].reshape(len(arrays.x[part]), -1) for part in PARTS}
            return Dataset(name, x["train"], arrays.y["train"], x["test"], arrays.y["test"], arrays.class_names, scale)
        for x in arrays.x.values():
            if x.dtype != np.uint8 or x.ndim < 3 or x.shape[3:] not in ((), (3,)):
                raise EFCError(f"encoder: {encoder!r} needs uint8 images (N, H, W[, 3]); {name} holds {x.shape}")
        images = ImageSet(name, arrays.class_names, dict(arrays.x), arrays.y, arrays.checksum)
    elif name.startswith("folder:"):
        size = image_size if encoder == "none" else ENCODED_SIZE
        images = read_folder(_path(name.partition(":")[2]), size)
    else:
        images = open_set(name, data_root(data_dir), progress)
    if encoder == "none":
        return _pixels(images)
    return _encoded(images, encoder, encoder_weights, data_root(data_dir), device, progress)


def _path(place: str) -> Path:
    try:
        return Path(place).expanduser()
    except RuntimeError as problem:  # a user who is none
        raise EFCError(f"dataset: {place!r}: {problem}") from None


def _pixels(images: ImageSet) -> Dataset:
    x = {part: np.asarray(images.images[part][:]).reshape(len(images.images[part]), -1) for part in PARTS}
    y = images.labels
    return Dataset(images.name, x["train"], y["train"], x["test"], y["test"], images.class_names, 1 / 255)


def _encoded(
    images: ImageSet,
    encoder: str,
    weights: Path | str | None,
    root: Path,
    device: torch.device | str,
    progress: Progress | None,
) -> Dataset:
    from efc.data.features import encode, open_encoder

    network = open_encoder(encoder, root, None if weights is None else Path(weights).expanduser(), device, progress)
    x, y = encode(images, network, root, progress).x, images.labels
    return Dataset(images.name, x["train"], y["train"], x["test"], y["test"], images.class_names)
