"""The results folder: configuration, results, a picture. Written whole or not at all."""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path
from typing import Any

from efc.errors import EFCError


def prepare_folder(folder: Path, overwrite: bool) -> None:
    """Make sure, before any training, that results can be written and that none are lost."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise EFCError(f"--out: cannot write to {folder}: {problem.strerror}") from None
    if not overwrite and (folder / "results.json").exists():
        raise EFCError(f"--out: {folder} already holds results; choose another folder or pass --overwrite")


def write_atomically(path: Path, text: str) -> None:
    """Write to a temporary name beside ``path``, flush to disk, rename."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def to_json(document: dict[str, Any]) -> str:
    """Strict JSON: NaN has no place in it, and an infinite option is written as the text ``inf``."""
    return json.dumps(_without_infinity(document), indent=1, allow_nan=False)


def _without_infinity(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_infinity(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinity(entry) for entry in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value
