"""Features of a frozen encoder: computed once, a batch at a time, kept as memory-mapped float16, resumable."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock

from efc.data.download import RemoteFile
from efc.data.image_set import PARTS, ImageSet
from efc.data.store import fetch_file
from efc.encoders import Encoder, load_encoder, preprocess, resnet18
from efc.errors import EFCError

BATCH = {"cpu": 16, "cuda": 256}
"""Images at a time; on a CPU small batches stay in its cache and are faster."""
SAVE_EVERY = 512
"""Images, at least, between two marks of how far the work has come."""

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Features:
    """Encoded images: (N, dim) float16, memory-mapped, per part."""

    x: dict[str, Any]
    folder: Path


def open_encoder(
    name: str, root: Path, weights: Path | None, device: torch.device | str, progress: Progress | None = None
) -> Encoder:
    """An encoder with its weights: from ``weights`` if given, else from its package, else downloaded and verified."""
    if name == "resnet18" and weights is None:
        name_of_file = resnet18.URL.rpartition("/")[2]
        file = RemoteFile(name_of_file, f"sha256:{resnet18.SHA256}", resnet18.SIZE_IN_BYTES, (resnet18.URL,))
        try:
            weights = fetch_file(file, root / "encoders", progress)
        except EFCError as problem:
            raise EFCError(f"{problem}\nOr give a file in torchvision's layout with --encoder-weights.") from None
    return load_encoder(name, weights, device)


def cache_key(data: ImageSet, encoder: Encoder) -> str:
    """Everything the features depend on: the data, the encoder, its weights, the preprocessing."""
    parts = (data.checksum, encoder.name, encoder.weights_hash, preprocess.VERSION)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def encode(data: ImageSet, encoder: Encoder, root: Path, progress: Progress | None = None) -> Features:
    """The features of a data set, from the cache if there; an interrupted encoding goes on where it stopped."""
    folder = root / "features" / f"{data.name.partition(':')[0]}-{encoder.name}-{cache_key(data, encoder)}"
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):
        for part in PARTS:
            if not (folder / f"{part}.npy").exists():
                _encode_part(data, encoder, part, folder, progress)
    return Features({part: np.load(folder / f"{part}.npy", mmap_mode="r") for part in PARTS}, folder)


def _encode_part(data: ImageSet, encoder: Encoder, part: str, folder: Path, progress: Progress | None) -> None:
    images, unfinished, mark = data.images[part], folder / f"{part}.part.npy", folder / f"{part}.done.json"
    n, done = len(images), _done(mark, unfinished)
    mode, step, marked = "r+" if done else "w+", BATCH[encoder.device.type], done
    try:
        out = np.lib.format.open_memmap(unfinished, mode, np.float16, None if done else (n, encoder.dim))
        for start in range(done, n, step):
            end = min(start + step, n)
            batch = torch.from_numpy(np.array(images[start:end]))
            out[start:end] = encoder.features(batch).cpu().numpy().astype(np.float16)
            if end - marked >= SAVE_EVERY:
                out.flush()
                mark.write_text(json.dumps(end))
                marked = end
            if progress is not None:
                progress(f"{data.name} {part}", end, n)
        out.flush()
        os.replace(unfinished, folder / f"{part}.npy")
        mark.unlink(missing_ok=True)
    except OSError as problem:
        raise EFCError(f"{folder}: {problem.strerror or problem}; encoding goes on from here next time") from None


def _done(mark: Path, unfinished: Path) -> int:
    """How many images an interrupted encoding has behind it."""
    try:
        return int(json.loads(mark.read_text())) if unfinished.exists() else 0
    except (OSError, ValueError):
        return 0
