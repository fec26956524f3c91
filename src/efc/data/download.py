"""One file over HTTP: resumed after a break, verified before use, moved into place atomically."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import urllib.error
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse, IncompleteRead
from pathlib import Path
from typing import BinaryIO

from efc.data.transport import Limits, SourceError, Watch, request
from efc.errors import EFCError

CHUNK = 1 << 18
LIMITS = Limits()
MIRROR = "EFC_MIRROR"
"""The environment variable that names mirrors."""

Progress = Callable[[str, int, int | None], None]
"""Called with (file name, bytes so far, bytes in all if known)."""


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


def addresses(file: RemoteFile, folder: Path) -> tuple[str, ...]:
    """Where a file is looked for, in turn: below the mirrors of ``$EFC_MIRROR``, then where it is published.

    A mirror is laid out as the data folder is: ``MIRROR/mnist/train-images-idx3-ubyte.gz``.
    """
    mirrors = os.environ.get(MIRROR, "").split()
    for mirror in mirrors:
        if not re.match(r"https?://[^/]", mirror):
            raise EFCError(
                f"{MIRROR}: {mirror!r} is no http or https address; give one or several, with spaces between"
            )
    return (*(f"{mirror.rstrip('/')}/{folder.name}/{file.name}" for mirror in mirrors), *file.urls)


def fetch(file: RemoteFile, folder: Path, progress: Progress | None = None, limits: Limits = LIMITS) -> Path:
    """The verified file in ``folder``, from the first address that has it; :class:`SourceError` gives all reasons."""
    target = folder / file.name
    if matches(target, file.checksum):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    if progress is not None:  # it may be long, and nobody has asked for it in so many words
        size = "" if file.size is None else f" of {file.size / 1e6:.1f} MB"
        progress(f"{file.name} is not on this machine: a download{size} into {folder} begins", 0, None)
    reasons = []
    for url in addresses(file, folder):
        try:
            return fetch_from(url, file, target, progress, limits)
        except SourceError as failure:
            reasons.append(f"{url}: {failure}")
    raise SourceError("; ".join(reasons) or f"{file.name} has no published address")


def fetch_from(
    url: str, file: RemoteFile, target: Path, progress: Progress | None = None, limits: Limits = LIMITS
) -> Path:
    """Download from one address; what is already there of the file is not asked for again."""
    part = target.with_name(target.name + ".part")
    for fresh in (False, True):
        resumed = part.exists() and not fresh
        if fresh:
            part.unlink(missing_ok=True)
        _complete(url, file, part, progress, limits)
        if matches(part, file.checksum):
            os.replace(part, target)
            return target
        found = checksum_of(part, file.checksum.partition(":")[0])
        part.unlink()
        # A part left behind by something else may have spoilt it: begin once more from nothing.
        if not resumed:
            break
    raise SourceError(f"wrong checksum, expected {file.checksum}, got {found}; the file was discarded")


def _complete(url: str, file: RemoteFile, part: Path, progress: Progress | None, limits: Limits) -> None:
    """Bring ``part`` to its full length, taking a broken transfer up again as long as it makes headway."""
    watch, without_headway = Watch(limits), 0
    asked = 0
    while asked < limits.requests and without_headway < limits.tries:
        if asked:
            limits.sleep(min(limits.pause * 2.0**without_headway, limits.longest_pause))
        asked += 1
        before = _size(part)
        try:
            _transfer(url, file, part, progress, watch)
            return
        except urllib.error.HTTPError as problem:
            raise SourceError(f"HTTP {problem.code} {_plain(problem.reason)}") from None
        except urllib.error.URLError as problem:  # not even begun: the next mirror is a better idea than another try
            raise SourceError(_plain(problem.reason)) from None
        except (ConnectionError, IncompleteRead) as problem:
            last = _plain(problem) or type(problem).__name__
        except OSError as problem:
            if problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                needed = f" ({file.size / 1e6:.0f} MB are needed)" if file.size else ""
                said = f"{part.parent}: {os.strerror(problem.errno)}{needed}"
                raise EFCError(f"{said}; what was downloaded is kept for the next try") from None
            if problem.filename is not None:  # not the connection's fault: a file here cannot be written
                raise EFCError(f"{problem.filename}: {problem.strerror}") from None
            last = _plain(problem)
        except (HTTPException, ValueError) as problem:  # what comes is no HTTP, or the address cannot be used
            raise SourceError(f"{type(problem).__name__}: {_plain(problem)}") from None
        without_headway = 0 if _size(part) - before >= limits.headway else without_headway + 1
    raise SourceError(f"{last}; given up after {asked} requests; {_size(part)} bytes are kept for the next try")


def _transfer(url: str, file: RemoteFile, part: Path, progress: Progress | None, watch: Watch) -> None:
    """One request: the rest of the file, or all of it where the server does not do ranges."""
    have = _size(part)
    if file.size is not None and have >= file.size:
        if have == file.size:
            return
        part.unlink()
        have = 0
    most = watch.limits.size if file.size is None else file.size
    watch.begin(most)
    try:
        response = request(url, have, watch)
    except urllib.error.HTTPError as problem:
        problem.close()
        if problem.code == 416 and have:  # nothing left to send: what is here is complete, or of another file
            return
        raise
    with response:
        start, length = _start(response, have), _length(response)
        total = file.size if length is None else start + length
        whole = file.size is None or length is None or start + length == file.size
        if not whole and (response.status == 200 or start + (length or 0) > most):  # some servers give a range in parts
            raise SourceError(f"announces {total} bytes, the published file has {file.size}")
        with part.open("ab" if start else "wb") as out:
            for done in _copy(response, out, most - start, length):
                if progress is not None:
                    progress(file.name, start + done, total if file.size is None else file.size)
    expected = total if file.size is None else file.size
    if expected is not None and _size(part) < expected:
        raise ConnectionError(f"the connection broke after {_size(part)} of {expected} bytes")


def _start(response: HTTPResponse, have: int) -> int:
    """Where in the file the body begins."""
    if response.status == 200:
        return 0
    place = response.headers.get("Content-Range", "")
    if response.status != 206:
        raise SourceError(f"HTTP {response.status} {_plain(response.reason)}")
    if not place.startswith(f"bytes {have}-"):
        raise SourceError(f"asked for the bytes from {have} on, got {_plain(place)!r}")
    return have


def _length(response: HTTPResponse) -> int | None:
    """How many bytes the head announces; None if it does not say."""
    given = {str(value).strip() for value in response.headers.get_all("Content-Length", [])}
    if response.chunked or not given:
        return None
    if len(given) > 1:
        raise SourceError(f"sends Content-Length more than once: {', '.join(sorted(_plain(v) for v in given))}")
    value = given.pop()
    if not re.fullmatch("[0-9]{1,18}", value):
        raise SourceError(f"sends Content-Length {_plain(value)!r}, which is no number of bytes")
    return int(value)


def _copy(source: HTTPResponse, out: BinaryIO, most: int, length: int | None) -> Iterator[int]:
    """Write the body; yields how much of it is there. A body of more than ``most`` bytes is not read to its end."""
    done = 0
    while (length is None or done < length) and (block := source.read1(min(CHUNK, most - done + 1))):
        if done + len(block) > most:
            out.truncate(0)
            raise SourceError(f"sends more than the {most} bytes of the rest of the file; discarded")
        out.write(block)
        out.flush()
        done += len(block)
        yield done


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _plain(said: object) -> str:
    """What a server says, on one line and without what a terminal would obey."""
    return "".join(c if c.isprintable() else " " for c in str(said))[:200]


def place_by_hand(files: Sequence[RemoteFile], folder: Path) -> list[str]:
    """The lines to tell someone whose machine cannot reach any source."""
    listing = (f"    {file.name}  ({file.checksum})  e.g. from {file.urls[0]}" for file in files)
    return [f"Or place these files by hand in {folder}:", *listing]
