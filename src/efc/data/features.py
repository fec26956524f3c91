"""Features of a frozen encoder: computed once, a batch at a time, kept as memory-mapped float16, resumable."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from filelock import FileLock

from efc.data.download import RemoteFile
from efc.data.image_set import PARTS, ImageSet
from efc.data.seal import Seal, Sealer, check_seal, read_sealed
from efc.data.store import fetch_file
from efc.encoders import Encoder, load_encoder, preprocess, resnet18
from efc.errors import EFCError, EFCWarning, LinesError
from efc.files import sync_folder, write_atomically

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
            lines = str(problem).split("\n")
            raise LinesError(*lines, "Or give a file in torchvision's layout with --encoder-weights.") from None
    return load_encoder(name, weights, device)


def cache_key(data: ImageSet, encoder: Encoder) -> str:
    """Everything the features depend on: the data, the encoder, its weights, the preprocessing."""
    parts = (data.checksum, encoder.name, encoder.weights_hash, preprocess.VERSION)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:24]


def encode(data: ImageSet, encoder: Encoder, root: Path, progress: Progress | None = None) -> Features:
    """The features of a data set, from the cache if there; an interrupted encoding goes on where it stopped.

    What is in the cache is verified. A part that is not what was written is encoded again, and a warning says so.
    """
    named = re.sub(r"[^\w.-]+", "-", encoder.name)[-60:]  # module:function, or a path to it
    folder = root / "features" / f"{data.name.partition(':')[0]}-{named}-{cache_key(data, encoder)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(_damage(data, encoder, part, folder) is not None for part in PARTS):
            with FileLock(folder / ".lock"):
                for left in folder.glob(".*.json.*"):  # of a process killed while it wrote
                    left.unlink(missing_ok=True)
                for part in PARTS:
                    _mend(data, encoder, part, folder, progress)
    except OSError as problem:
        raise EFCError(f"{folder}: {problem.strerror or problem}; encoding goes on from here next time") from None
    return Features({part: np.load(folder / f"{part}.npy", mmap_mode="r") for part in PARTS}, folder)


def _mend(data: ImageSet, encoder: Encoder, part: str, folder: Path, progress: Progress | None) -> None:
    """Encode a part that is not there or damaged."""
    damage = _damage(data, encoder, part, folder)
    if damage is None:
        return
    if (folder / f"{part}.npy").exists():
        warnings.warn(f"{folder / part}.npy {damage}; encoded again", EFCWarning, stacklevel=4)
    _encode_part(data, encoder, part, folder, progress)


def _damage(data: ImageSet, encoder: Encoder, part: str, folder: Path) -> str | None:
    """What is wrong with the features of a part; None if they are there and as they were written."""
    path, seal = folder / f"{part}.npy", folder / f"{part}.seal.json"
    try:
        return check_seal(path, Seal.from_json(json.loads(seal.read_text(encoding="utf-8"))))
    except FileNotFoundError:
        return _adopt(path, seal, (len(data.images[part]), encoder.dim)) if path.exists() else "is not there"
    except (OSError, ValueError, RecursionError):
        return f"cannot be verified ({seal.name} is damaged)"


def _adopt(path: Path, seal: Path, shape: tuple[int, int]) -> str | None:
    """Seal the features of an older version, which wrote no hashes, if they look right."""
    try:
        array = np.load(path, mmap_mode="r")
    except Exception as problem:  # what numpy raises depends on which bytes it stumbles over
        return f"is not readable ({problem})"
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != np.float16:
        return f"does not hold float16 {shape}"
    # The features of a picture are never all zero: what was lost on its way to the disk is.
    if not all(array[start : start + 4096].any(axis=1).all() for start in range(0, len(array), 4096)):
        return "holds nothing but zeros for some images"
    with contextlib.suppress(EFCError):  # a folder that cannot be written to
        write_atomically(seal, json.dumps(read_sealed(path).seal().to_json()))
    return None


def _encode_part(data: ImageSet, encoder: Encoder, part: str, folder: Path, progress: Progress | None) -> None:
    images, unfinished, mark = data.images[part], folder / f"{part}.part.npy", folder / f"{part}.done.json"
    n, step = len(images), BATCH[encoder.device.type]
    header = _header((n, encoder.dim))
    written = _written(mark, unfinished)
    done = marked = max(0, written.size - len(header)) // (2 * encoder.dim)
    with unfinished.open("r+b" if written.size else "wb") as out:
        out.truncate(written.size)
        out.seek(written.size)
        if not written.size:
            _append(out, header, written)
        for start in range(done, n, step):
            end = min(start + step, n)
            batch = torch.from_numpy(np.array(images[start:end]))
            _append(out, _rows(encoder, batch), written)
            if end - marked >= SAVE_EVERY:
                _sync(out)
                write_atomically(mark, json.dumps(written.seal().to_json()))
                marked = end
            if progress is not None:
                progress(f"{data.name} {part}", end, n)
        _sync(out)
    write_atomically(folder / f"{part}.seal.json", json.dumps(written.seal().to_json()))
    os.replace(unfinished, folder / f"{part}.npy")
    sync_folder(folder)
    mark.unlink(missing_ok=True)


def _rows(encoder: Encoder, images: torch.Tensor) -> bytes:
    """The features of a batch as they are kept; nothing that is none gets into the cache, where it would stay."""
    try:
        found = encoder.features(images)
    except Exception as problem:
        if ":" not in encoder.name:
            raise
        told = " ".join(f"{type(problem).__name__}: {problem}".split())[:300]
        raise EFCError(f"encoder: {encoder.name} failed on images: {told}") from problem
    if found.shape != (len(images), encoder.dim):
        shape = f"{tuple(found.shape)} for {len(images)} images"
        raise EFCError(
            f"encoder: {encoder.name} must return features (B, {encoder.dim}), as it did before, got {shape}"
        )
    single = found.float().cpu().numpy()
    with np.errstate(over="ignore"):
        kept = single.astype("<f2")
    if not np.isfinite(kept).all():
        largest = "NaN or infinity" if not np.isfinite(single).all() else f"{abs(single).max():g}"
        raise EFCError(f"encoder: {encoder.name} returns {largest}; features are kept in half precision, up to 65504")
    return kept.tobytes()


def _append(out: BinaryIO, data: bytes, written: Sealer) -> None:
    out.write(data)
    written.add(data)


def _sync(out: BinaryIO) -> None:
    out.flush()
    os.fsync(out.fileno())


def _written(mark: Path, unfinished: Path) -> Sealer:
    """The hashes of what an interrupted encoding has written; of nothing if there is none, or it is damaged."""
    try:
        seal = Seal.from_json(json.loads(mark.read_text(encoding="utf-8")))
        written = read_sealed(unfinished, seal.size)
        return written if written.seal() == seal else Sealer()
    except (OSError, ValueError, RecursionError):
        return Sealer()


def _header(shape: tuple[int, int]) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f2", "fortran_order": False, "shape": shape})
    return out.getvalue()
