"""The journal of a service: what it has accepted, on disk before it says so.

A folder of segments. A segment begins with a header (a JSON text and its checksum) and goes on with records: a mark,
the length and the checksum of what follows, the record's number, the last number that was known to be on disk when it
was written, the labels as JSON and the inputs as float64. Records are numbered without gaps, through all segments.

A crash can leave the last records of the last segment unfinished. Nobody was told that they are kept: they are cut off.
Damage anywhere else is told, and nothing is begun on top of it. A checksum finds accidents and is no signature: what
stands in a whole record is looked at as a request is.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np

from efc.errors import EFCError
from efc.files import Json, sync_folder
from efc.serve.samples import Document, Inputs, Label, check_inputs, check_kind, label_of

MARK = b"EFCj"
HEAD = struct.Struct("<4sIIQQ")
"""Mark, length of the content, checksum of all that follows it, number, last number known to be on disk."""
SEGMENT = 16 * 2**20
"""Bytes after which a new segment begins."""
LARGEST = 256 * 2**20
"""Bytes that no record has."""


@dataclass(frozen=True)
class Record:
    """A batch that was accepted."""

    sequence: int
    x: Inputs
    labels: Sequence[Label]

    def to_bytes(self, durable: int) -> bytes:
        """As it stands in a segment."""
        labels = json.dumps(list(self.labels)).encode()
        content = struct.pack("<I", len(labels)) + labels + self.x.astype("<f8", copy=False).tobytes()
        rest = struct.pack("<QQ", self.sequence, durable) + content
        return HEAD.pack(MARK, len(content), zlib.crc32(rest), self.sequence, durable) + content


@dataclass(frozen=True)
class Frame:
    """Where a whole record stands in a segment."""

    sequence: int
    durable: int
    """The number that was on disk by then."""
    begin: int
    end: int


def _frame(data: bytes, at: int) -> Frame | None:
    """That of the record that begins at a byte; None if it is none, or not as it was written."""
    if len(data) - at < HEAD.size:
        return None
    mark, length, checksum, sequence, durable = HEAD.unpack_from(data, at)
    begin, end = at + HEAD.size, at + HEAD.size + length
    if mark != MARK or length > LARGEST or end > len(data):
        return None
    if zlib.crc32(memoryview(data)[begin - 16 : end]) != checksum:
        return None
    return Frame(sequence, durable, begin, end)


def _record(data: bytes, frame: Frame, features: int) -> Record:
    """What a whole record holds; a ValueError if no request can have brought it."""
    cut = frame.begin + 4 + int.from_bytes(data[frame.begin : frame.begin + 4], "little")
    labels = [label_of(label) for label in _listed(json.loads(data[frame.begin + 4 : cut]))]
    check_kind(labels, labels[0])
    x = np.frombuffer(data[cut : frame.end], "<f8").reshape(len(labels), features).astype(np.float64)
    check_inputs(x)
    return Record(frame.sequence, x, labels)


def _listed(value: object) -> list[object]:
    if not isinstance(value, list) or not value:
        raise EFCError("labels: expected a list")
    return value


class NoRoomError(EFCError):
    """The journal has no room for a batch; nothing of it was kept."""


class Segment:
    """One file of the journal."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.first = int(path.stem)

    @staticmethod
    def begin(folder: Path, first: int, about: dict[str, Json]) -> BinaryIO:
        """A new one, with its header on disk."""
        text = json.dumps(about).encode()
        file = (folder / f"{first:020d}.log").open("wb", buffering=0)
        try:
            _write(file, struct.pack("<4sII", MARK, len(text), zlib.crc32(text)) + text)
            os.fsync(file.fileno())
            sync_folder(folder)
        except OSError:  # the next attempt begins this file anew
            file.close()
            raise
        return file

    def read(self) -> tuple[bytes, Document | None, int]:
        """Its bytes, its header (None if that is unfinished), and where that ends."""
        data = self.path.read_bytes()
        if len(data) < 12:
            return data, None, 0
        mark, length, checksum = struct.unpack_from("<4sII", data)
        text = data[12 : 12 + length]
        if mark != MARK or zlib.crc32(text) != checksum or len(text) != length:
            return data, None, 0
        try:
            about = json.loads(text)
        except (ValueError, RecursionError):
            about = None
        if not isinstance(about, dict):
            raise EFCError(f"{self.path}: its header is none that a journal begins with; move the journal away")
        return data, about, 12 + length


def segments(folder: Path) -> list[Segment]:
    """Those there are, in their order."""
    return [Segment(path) for path in sorted(folder.glob("*.log")) if re.fullmatch("[0-9]{20}", path.stem)]


def described(folder: Path) -> Document | None:
    """What the journal's last whole header says; None if there is no journal."""
    for segment in reversed(segments(folder)):
        about = segment.read()[1]
        if about is not None:
            return about
    return None


def replay(folder: Path, features: int, after: int = 0, tell: Callable[[str], None] = print) -> Iterator[Record]:
    """The records after a number, in their order. What a crash left unfinished at the very end is cut off, and told."""
    found = segments(folder)
    expected = None
    for segment in found:
        data, about, at = segment.read()
        last = segment is found[-1]
        if about is None:
            if not last or _lost(data, -1, 0):
                raise _damaged(segment, 0)
            tell(f"{segment.path}: {len(data)} bytes that no batch had followed are removed")
            segment.path.unlink()
            return
        if expected is None:
            if segment.first > after + 1:
                told = f"batches {after + 1} to {segment.first - 1} are neither in the model's file nor in the journal"
                raise EFCError(f"{folder}: {told}")
            expected = segment.first
        if segment.first != expected:
            raise EFCError(f"{folder}: the journal lacks batches {expected} to {segment.first - 1}")
        while at < len(data):
            frame = _frame(data, at)
            if frame is None or frame.sequence != expected:
                if not last or _lost(data, at, expected):
                    raise _damaged(segment, at)
                tell(f"{segment.path}: {len(data) - at} bytes of a batch that nobody was told is kept are cut off")
                _cut(segment.path, at)
                return
            if expected > after:
                try:
                    record = _record(data, frame, features)
                except (ValueError, RecursionError):
                    raise EFCError(
                        f"{segment.path}: at byte {at} stands a batch that no request can have brought"
                    ) from None
                yield record
            expected, at = expected + 1, frame.end


def _lost(data: bytes, at: int, number: int) -> bool:
    """Whether a later record says that the one with this number was on disk: then it is damaged, not unfinished."""
    patience = 64 * len(data)
    while (at := data.find(MARK, at + 1)) >= 0:
        frame = _frame(data, at)
        claimed = int.from_bytes(data[at + 4 : at + 8], "little")
        patience -= claimed if claimed <= len(data) - at else 0  # what a checksum was computed of
        if patience < 0:
            return True  # no crash leaves records within records: nothing is cut off
        if frame is not None and frame.durable >= number:
            return True
    return False


def _cut(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.truncate(at)
        os.fsync(file.fileno())


def _damaged(segment: Segment, at: int) -> EFCError:
    return EFCError(
        f"{segment.path}: the journal is damaged at byte {at}, and batches that were accepted stood there; restore the "
        "file from a copy, or move the journal away to go on from the model's file alone"
    )


class Journal:
    """Where batches are written; one writer.

    Args:
        folder: where the segments are.
        last: the number of the last batch there is.
        about: what every segment's header says.
        keep: whether segments stay that a snapshot covers.
    """

    def __init__(self, folder: Path, last: int, about: dict[str, Json], keep: bool = False) -> None:
        self.folder, self.last, self.about, self.keep = folder, last, about, keep
        self.file: BinaryIO | None = None
        self.full = False
        """Whether the next batch begins a new segment."""
        self.written = 0
        """Bytes of batches that were brought to disk."""

    @property
    def bytes(self) -> int:
        """What all segments take."""
        total = 0
        for segment in segments(self.folder):
            with suppress(FileNotFoundError):  # a snapshot may just have removed it
                total += segment.path.stat().st_size
        return total

    def append(self, batches: Sequence[tuple[Inputs, Sequence[Label]]]) -> list[Record]:
        """Number batches and bring them to disk, all at once.

        If there is no room for them none of them is there, and others may be tried later (:class:`NoRoomError`). If
        the disk does not say that it has them, nobody knows what is there: an OSError, and nothing may be appended any
        more.
        """
        records = [Record(self.last + 1 + k, x, labels) for k, (x, labels) in enumerate(batches)]
        data = b"".join(record.to_bytes(self.last) for record in records)
        file, begin = self._file()
        try:
            _write(file, data)
        except OSError as problem:
            file.truncate(begin)  # if that fails, too, the journal is of no use any more
            os.fsync(file.fileno())
            raise self._no_room(problem) from None
        os.fsync(file.fileno())
        self.full = self.full or begin + len(data) > SEGMENT
        self.last += len(records)
        self.written += len(data)
        return records

    def _file(self) -> tuple[BinaryIO, int]:
        """Where to write, and how long that is: a new segment if there is none, or if it is to grow no more."""
        if self.file is None or self.full:
            self.close()
            self.file, self.full = None, False
            try:
                self.file = Segment.begin(self.folder, self.last + 1, self.about)
            except OSError as problem:
                raise self._no_room(problem) from None
        return self.file, self.file.seek(0, os.SEEK_END)

    def cover(self, sequence: int) -> None:
        """A snapshot holds the batches up to this one: older segments go, and the next batch begins a new one.

        This may be another thread than the one that appends.
        """
        found = [] if self.keep else segments(self.folder)
        for segment, following in pairwise(found):
            if following.first <= sequence + 1:
                segment.path.unlink()
        sync_folder(self.folder)
        self.full = True

    def _no_room(self, problem: OSError) -> NoRoomError:
        return NoRoomError(f"journal: cannot write {self.folder}: {problem.strerror}; nothing was accepted")

    def close(self) -> None:
        if self.file is not None:
            self.file.close()


def _write(file: BinaryIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]
