"""One file over HTTP: resumed after a break, verified before use, moved into place atomically."""

from __future__ import annotations

import errno
import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO

from efc.errors import EFCError

CHUNK = 1 << 18
TIMEOUT = 20.0
TRIES = 4
"""How often a broken transfer is taken up again without headway before the next mirror is tried."""

Progress = Callable[[str, int, int | None], None]
"""Called with (file name, bytes so far, bytes in all if known)."""


class SourceError(Exception):
    """One source of a file could not give it; the message says why. Another may."""


@dataclass(frozen=True)
class RemoteFile:
    """A file as published: name, checksum (``md5:...`` or ``sha256:...``), size in bytes, and where it can be had."""

    name: str
    checksum: str
    size: int | None
    urls: tuple[str, ...]


def checksum_of(path: Path, kind: str) -> str:
    """``kind:hex`` of a file, read in pieces."""
    digest = hashlib.new(kind, usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return f"{kind}:{digest.hexdigest()}"


def matches(path: Path, checksum: str) -> bool:
    """Whether a file is there and is the published one."""
    return path.is_file() and checksum_of(path, checksum.partition(":")[0]) == checksum


def fetch(file: RemoteFile, folder: Path, progress: Progress | None = None) -> Path:
    """The verified file in ``folder``, from the first mirror that has it; :class:`SourceError` gives all reasons."""
    target = folder / file.name
    if matches(target, file.checksum):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    reasons = []
    for url in file.urls:
        try:
            return fetch_from(url, file, target, progress)
        except SourceError as failure:
            reasons.append(f"{url}: {failure}")
    raise SourceError("; ".join(reasons) or f"{file.name} has no published address")


def fetch_from(url: str, file: RemoteFile, target: Path, progress: Progress | None = None) -> Path:
    """Download from one address; what is already there of the file is not asked for again."""
    part = target.with_name(target.name + ".part")
    for fresh in (False, True):
        resumed = part.exists() and not fresh
        if fresh:
            part.unlink(missing_ok=True)
        _complete(url, file, part, progress)
        if matches(part, file.checksum):
            os.replace(part, target)
            return target
        found = checksum_of(part, file.checksum.partition(":")[0])
        part.unlink()
        # A part left behind by something else may have spoilt it: begin once more from nothing.
        if not resumed:
            break
    raise SourceError(f"wrong checksum, expected {file.checksum}, got {found}; the file was discarded")


def _complete(url: str, file: RemoteFile, part: Path, progress: Progress | None) -> None:
    """Bring ``part`` to its full length, taking a broken transfer up again as long as it makes headway."""
    without_headway = 0
    while without_headway < TRIES:
        before = _size(part)
        try:
            _transfer(url, file, part, progress)
            return
        except urllib.error.URLError as problem:  # not even begun: the next mirror is a better idea than another try
            reason = (
                f"HTTP {problem.code} {problem.reason}"
                if isinstance(problem, urllib.error.HTTPError)
                else problem.reason
            )
            raise SourceError(str(reason)) from None
        except OSError as problem:
            if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                needed = f" ({file.size / 1e6:.0f} MB are needed)" if file.size else ""
                said = f"{part.parent}: {os.strerror(problem.errno)}{needed}"
                raise EFCError(f"{said}; what was downloaded is kept for the next try") from None
            last = str(problem)
        except HTTPException as problem:
            last = str(problem) or type(problem).__name__
        without_headway = 0 if _size(part) > before else without_headway + 1
    raise SourceError(f"{last}; {_size(part)} bytes are kept for the next try")


def _transfer(url: str, file: RemoteFile, part: Path, progress: Progress | None) -> None:
    """One request: the rest of the file, or all of it where the server does not do ranges."""
    have = _size(part)
    if file.size is not None and have >= file.size:
        if have == file.size:
            return
        part.unlink()
        have = 0
    headers = {"User-Agent": "efc"} | ({"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as problem:
        problem.close()
        if problem.code == 416 and have:  # nothing left to send: what is here is complete, or of another file
            return
        raise
    with response:
        resumed = response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        have = have if resumed else 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else file.size
        with part.open("ab" if resumed else "wb") as out:
            _copy(response, out, lambda done: progress and progress(file.name, have + done, total))
    if total is not None and _size(part) < total:
        raise ConnectionError(f"the connection broke after {_size(part)} of {total} bytes")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _copy(source: BinaryIO, out: BinaryIO, tell: Callable[[int], object]) -> None:
    done = 0
    while block := source.read(CHUNK):
        out.write(block)
        out.flush()
        done += len(block)
        tell(done)


def place_by_hand(files: Sequence[RemoteFile], folder: Path) -> str:
    """What to tell someone whose machine cannot reach any source."""
    listing = "\n".join(f"    {file.name}  ({file.checksum})  e.g. from {file.urls[0]}" for file in files)
    return f"Or place these files by hand in {folder}:\n{listing}"
