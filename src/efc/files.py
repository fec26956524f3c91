"""Files that are there whole or not at all."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import stat
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias

from efc.errors import EFCError, visible

try:
    import fcntl
except ImportError:  # Windows does not let anyone remove a file that is open
    fcntl = None  # type: ignore[assignment]

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
"""What JSON and YAML can hold."""


def write_atomically(path: Path, content: str | bytes, argument: str = "") -> None:
    """Write to a temporary name beside ``path``, flush to disk, rename, flush the folder."""
    # Halves of characters, from names that are no UTF-8, are written out: a traceback would cost the whole file.
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    try:
        file, temporary = _temporary(path)
        try:
            with file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                os.chmod(temporary, 0o644)
                os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as problem:
        told = f"cannot write {path}: {problem.strerror}; what was written before is intact"
        raise EFCError(f"{argument}: {told}" if argument else told) from None


def _temporary(path: Path) -> tuple[BinaryIO, Path]:
    """A new file beside ``path``, locked for as long as it is open: what nobody has locked is a leftover."""
    while True:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        file = os.fdopen(handle, "wb")
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            return file, Path(name)  # a file system without locks: leftovers stay, as nobody can lock them either
        if fcntl is None or os.fstat(handle).st_nlink:
            return file, Path(name)
        file.close()  # someone took it for a leftover before it was locked


LEFTOVER = re.compile(
    r"\.([0-9a-f]{16}\.json|\d{6}\.(json|safetensors)|(results|paper)\.json|config\.yaml|report\.html|paper\.(csv|md))"
    r"\.[a-z0-9_]{8}"
)
"""The names that :func:`write_atomically` gives to files of a results folder before they are whole."""


def leftovers(folder: Path) -> list[Path]:
    """Files in a results folder that a process began and, being killed, did not finish; not those of the living."""
    places = (folder, folder / "runs", *folder.glob("checkpoints/*"))
    found = [file for place in places if place.is_dir() for file in place.iterdir() if LEFTOVER.fullmatch(file.name)]
    return sorted(file for file in found if _left(file, remove=False))


def remove_leftovers(folder: Path) -> None:
    """Clear up after processes that were killed."""
    for file in leftovers(folder):
        _left(file, remove=True)


def remove_begun(path: Path) -> None:
    """The same for one file: what processes that were killed had begun to write in its place. Others' files stay,
    however they are named: a file that is not whole can be read by its owner alone."""
    name = re.compile(re.escape(f".{path.name}.") + "[a-z0-9_]{8}")
    for file in path.parent.iterdir() if path.parent.is_dir() else ():
        if name.fullmatch(file.name) and file.is_file() and stat.S_IMODE(file.lstat().st_mode) == 0o600:
            _left(file, remove=True)


def _left(path: Path, remove: bool) -> bool:
    """Whether nobody is writing a temporary file any more."""
    try:
        with path.open("rb") as file:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if remove:
                path.unlink()
    except OSError:
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a power loss, where the system can do that."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_folder(folder: Path, argument: str) -> Path:
    """Create a folder, as lasting as what is written to it, and make sure that it can be written to."""
    try:
        absent = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for made in absent:
            with suppress(PermissionError):  # a folder that may be written to, and not be read
                sync_folder(made.parent)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        raise EFCError(f"{argument}: cannot write to {folder}: {problem.strerror}") from None
    return folder


def to_json(document: object) -> str:
    """Strict JSON: what is no number is null, and an infinite option is written as the text ``inf``."""
    return json.dumps(_finite(document), indent=1, allow_nan=False, default=str)


def finite(value: Json) -> Json:
    """The same, with null for every number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(entry) for key, entry in value.items()}
    return [finite(entry) for entry in value] if isinstance(value, list | tuple) else value


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


_FORMULA = re.compile(r"'*([=+\-@]|\\[tr])")
"""How a cell begins that a spreadsheet would compute, or that has been kept from it; tabs are written out by then."""


def to_csv(rows: Iterable[Sequence[object]]) -> str:
    """CSV, a line per row, whatever is in it: no cell is a formula to a spreadsheet, and none breaks its line."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def from_cell(text: str) -> str:
    """What a cell of :func:`to_csv` was made from; control characters stay written out, as ``\\n``."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text[1:]) else text


def _cell(value: object) -> object:
    """A text that begins like a formula and is no number gets an apostrophe in front; ``None`` is empty."""
    if not isinstance(value, str):
        return value
    text = visible(value, keep="")
    return f"'{text}" if _FORMULA.match(text) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
