"""Unpacking without trust: nothing is ever written outside the target, no links, no more bytes than announced."""

from __future__ import annotations

import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from efc.errors import EFCError


def extract(archive: Path, target: Path, limit: int, wanted: Callable[[str], bool] = lambda name: True) -> list[Path]:
    """Unpack the ``wanted`` regular files of a tar or zip archive into ``target``; at most ``limit`` bytes altogether.

    A member with an absolute name, with ``..``, or that is a link or a device makes the archive unacceptable, and so
    does one that unpacks to more than the limit, whatever its header says. Unpack where it can be thrown away.
    """
    written, budget = [], limit
    try:
        for name, source in _members(archive):
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name:
                raise EFCError(f"{archive.name}: member {name!r} points outside the archive; refused")
            if not wanted(name):
                continue
            destination = target.joinpath(*path.parts)
            destination.parent.mkdir(parents=True, exist_ok=True)
            with destination.open("wb") as out:
                while block := source.read(1 << 20):
                    budget -= len(block)
                    if budget < 0:
                        raise EFCError(f"{archive.name}: unpacks to more than {limit / 1e6:.0f} MB; refused")
                    out.write(block)
            written.append(destination)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as problem:
        raise EFCError(f"{archive.name}: not a readable archive ({problem})") from None
    return written


def _members(archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Regular files in the order of the archive, each open for reading until the next one is asked for."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as bundle:
            for info in bundle.infolist():
                mode = info.external_attr >> 16
                if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise EFCError(f"{archive.name}: member {info.filename!r} is a link or a device; refused")
                if not info.is_dir():
                    with bundle.open(info) as source:
                        yield info.filename, source
        return
    with tarfile.open(archive) as bundle:
        for member in bundle:
            if not (member.isreg() or member.isdir()):
                raise EFCError(f"{archive.name}: member {member.name!r} is a link or a device; refused")
            reader = bundle.extractfile(member) if member.isreg() else None
            if reader is not None:
                yield member.name, reader
