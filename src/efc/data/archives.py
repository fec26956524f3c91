"""Unpacking without trust: nothing is ever written outside the target, no links, no more bytes than announced."""

from __future__ import annotations

import errno
import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from efc.errors import EFCError

MEMBERS = 200_000
"""No archive may have more members."""

NOT_ITS_FAULT = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO)
"""What goes wrong on this machine whatever an archive holds."""


def extract(archive: Path, target: Path, limit: int, wanted: Callable[[str], bool] = lambda name: True) -> list[Path]:
    """Unpack the ``wanted`` regular files of a zip, tar or tar.gz archive into ``target``; at most ``limit`` bytes.

    A member with an absolute name, with ``..``, that is there twice, or that is a link or a device makes the archive
    unacceptable, and so does one that unpacks to more than the limit, whatever its header says. Unpack where it can be
    thrown away.
    """
    written: list[Path] = []
    left = limit
    try:
        for name, source in _members(archive, limit):
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in name or "\0" in name:
                raise EFCError(f"{archive.name}: member {name!r} points outside the archive; refused")
            if not wanted(name):
                continue
            destination = target.joinpath(*path.parts)
            if destination.exists():
                raise EFCError(f"{archive.name}: member {name!r} is there twice; refused")
            destination.parent.mkdir(parents=True, exist_ok=True)
            with destination.open("xb") as out:
                while block := source.read(1 << 20):
                    left -= len(block)
                    if left < 0:
                        raise _too_much(archive, limit)
                    out.write(block)
            written.append(destination)
    except EFCError:
        raise
    except Exception as problem:  # what is raised depends on which bytes are stumbled over, and where they are written
        if isinstance(problem, OSError) and problem.errno in NOT_ITS_FAULT:
            raise
        said = problem.strerror if isinstance(problem, OSError) and problem.strerror else problem
        raise EFCError(f"{archive.name}: not a readable archive ({said or type(problem).__name__})") from None
    return written


def check_member(archive: str, info: zipfile.ZipInfo) -> None:
    """Refuse a member of a zip file that is a link or a device, encrypted, or compressed in an unusual way."""
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise EFCError(f"{archive}: member {info.filename!r} is a link or a device; refused")
    if info.flag_bits & 0x1:
        raise EFCError(f"{archive}: member {info.filename!r} is encrypted; refused")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise EFCError(f"{archive}: member {info.filename!r} is compressed by method {info.compress_type}; refused")


def _members(archive: Path, limit: int) -> Iterator[tuple[str, IO[bytes]]]:
    """Regular files in the order of the archive, each open for reading until the next one is asked for."""
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as bundle:
            if len(bundle.infolist()) > MEMBERS:
                raise EFCError(f"{archive.name}: more than {MEMBERS} members; refused")
            for info in bundle.infolist():
                check_member(archive.name, info)
                if not info.is_dir():
                    with bundle.open(info) as source:
                        yield info.filename, source
        return
    with archive.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        content = cast(IO[bytes], gzip.GzipFile(fileobj=file)) if zipped else file
        # Names and headers have sizes too: what is read altogether is bounded, not only what is written.
        bounded = io.BufferedReader(_Bounded(archive, content, limit))
        # As a stream: members are read in their order, and no header can send us elsewhere.
        with tarfile.open(fileobj=bounded, mode="r|") as tar:
            for count, member in enumerate(tar):
                if not (member.isreg() or member.isdir()):
                    raise EFCError(f"{archive.name}: member {member.name!r} is a link or a device; refused")
                if count >= MEMBERS:
                    raise EFCError(f"{archive.name}: more than {MEMBERS} members; refused")
                reader = tar.extractfile(member) if member.isreg() else None
                if reader is not None:
                    yield member.name, reader


class _Bounded(io.RawIOBase):
    """What an archive unpacks to, up to a number of bytes."""

    OVERHEAD = 4 << 20

    def __init__(self, archive: Path, source: IO[bytes], limit: int) -> None:
        self.archive, self.source, self.limit, self.left = archive, source, limit, limit + self.OVERHEAD

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        data = self.source.read(len(buffer))
        buffer[: len(data)] = data
        self.left -= len(data)
        if self.left < 0:
            raise _too_much(self.archive, self.limit)
        return len(data)


def _too_much(archive: Path, limit: int) -> EFCError:
    return EFCError(f"{archive.name}: unpacks to more than {limit / 1e6:.0f} MB; refused")
