"""Files that are there whole or not at all."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from efc.errors import EFCError

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""What JSON and YAML can hold."""


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write to a temporary name beside ``path``, flush to disk, rename, flush the folder."""
    data = content.encode() if isinstance(content, str) else content
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as problem:
        raise EFCError(f"cannot write {path}: {problem.strerror}; what was written before is intact") from None


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power loss, where the system can do that."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_folder(folder: Path, argument: str) -> Path:
    """Create a folder and make sure that it can be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise EFCError(f"{argument}: cannot write to {folder}: {problem.strerror}") from None
    return folder


def to_json(document: object) -> str:
    """Strict JSON: NaN has no place in it, and an infinite option is written as the text ``inf``."""
    return json.dumps(_without_infinity(document), indent=1, allow_nan=False, default=str)


def _without_infinity(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_infinity(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinity(entry) for entry in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value
