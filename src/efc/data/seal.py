"""Whether a file is still what was written: a hash per block, checked once per change of the file and remembered."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from efc.errors import EFCError
from efc.files import Json, write_atomically

BLOCK = 4 << 20
NOTES = ".verified.json"
"""Beside the files: which of them were found right, and in what state of the disk."""
RECENT = 2.0
"""Seconds for which a changed file is not yet remembered: within a tick of the disk's clock it may change once more."""


class DamagedError(EFCError):
    """A file is not what was written."""


@dataclass(frozen=True)
class Seal:
    """The size of a file, and a hash of each of its blocks."""

    size: int
    blocks: tuple[str, ...]

    def to_json(self) -> dict[str, Json]:
        return {"size": self.size, "block": BLOCK, "blake2b": self.blocks}

    @classmethod
    def from_json(cls, value: object) -> Seal:
        """``ValueError`` if it is none."""
        if isinstance(value, dict) and isinstance(size := value.get("size"), int) and value.get("block") == BLOCK:
            blocks = value.get("blake2b")
            if isinstance(blocks, list) and all(isinstance(one, str) for one in blocks):
                return cls(size, tuple(blocks))
        raise ValueError("the hashes of its blocks are not readable")

    @property
    def digest(self) -> str:
        """What stands for the whole."""
        return hashlib.blake2b(repr((self.size, self.blocks)).encode(), digest_size=16).hexdigest()


class Sealer:
    """Hashes bytes as they are written or read."""

    def __init__(self) -> None:
        self.size, self._whole, self._open = 0, list[str](), hashlib.blake2b(digest_size=16)

    def add(self, data: bytes) -> None:
        while data:
            piece = data[: BLOCK - self.size % BLOCK]
            self._open.update(piece)
            self.size += len(piece)
            data = data[len(piece) :]
            if self.size % BLOCK == 0:
                self._whole.append(self._open.hexdigest())
                self._open = hashlib.blake2b(digest_size=16)

    def seal(self) -> Seal:
        """Of what has been added so far."""
        rest = [self._open.hexdigest()] if self.size % BLOCK else []
        return Seal(self.size, tuple(self._whole + rest))


def read_sealed(path: Path, size: int | None = None) -> Sealer:
    """A file, or its first ``size`` bytes, as hashes."""
    sealer = Sealer()
    with path.open("rb") as file:
        while data := file.read(BLOCK if size is None else min(BLOCK, size - sealer.size)):
            sealer.add(data)
    return sealer


def difference(path: Path, seal: Seal) -> str | None:
    """How a file differs from its seal; None if it does not."""
    found = read_sealed(path).seal()
    if found.size != seal.size:
        return f"is {found.size} bytes long instead of {seal.size}"
    wrong = [k for k, (a, b) in enumerate(zip(found.blocks, seal.blocks, strict=True), 1) if a != b]
    return f"is not what was written (block {wrong[0]} of {len(seal.blocks)})" if wrong else None


def check_once(path: Path, expected: str, look: Callable[[], str | None], again: bool = False) -> str | None:
    """What ``look`` finds wrong with a file; not asked ``again`` while neither the file nor ``expected`` changes.

    The state of a file has the time of its last change, which no program can set back.
    """
    try:
        state = _state(path)
        if not again and _notes(path.parent).get(path.name) == [*state, expected]:
            return None
        wrong = look()
        if wrong is not None:
            with contextlib.suppress(OSError):
                (path.parent / NOTES).unlink(missing_ok=True)
        elif state == _state(path) and time.time_ns() - max(state[1:3]) >= RECENT * 1e9:
            _remember(path, [*state, expected])
        return wrong
    except OSError as problem:
        return f"cannot be read ({problem.strerror or problem})"


def check_seal(path: Path, seal: Seal, again: bool = False) -> str | None:
    """:func:`difference`, once per change of the file."""
    return check_once(path, seal.digest, lambda: difference(path, seal), again)


def sync_file(path: Path) -> None:
    """Make the content of a file survive a power loss."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _state(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _notes(folder: Path) -> dict[str, object]:
    try:
        return dict(json.loads((folder / NOTES).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return {}


def _remember(path: Path, note: list[int | str]) -> None:
    with contextlib.suppress(OSError, EFCError):  # where nothing can be written the file is read again next time
        sync_file(path)  # what was read may not be on the disk yet, and the note must not be there before it
        write_atomically(path.parent / NOTES, json.dumps(_notes(path.parent) | {path.name: note}))
