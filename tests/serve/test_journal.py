"""The journal: what was accepted comes back bit for bit; a torn end is cut off, and damage is told."""

from __future__ import annotations

import json
import os
import resource
import signal
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import numpy as np
import pytest

from efc.errors import EFCError
from efc.serve import journal
from efc.serve.journal import HEAD, MARK, Journal, NoRoomError, Record, Segment, described, replay, segments
from efc.serve.samples import LARGEST, label_of
from support.mutate import check_sentence, mutations

ABOUT = {"journal": "j", "features": 3}


def written(folder: Path, groups: int = 4, last: int = 0) -> list[Record]:
    """A journal of groups of two batches."""
    rng = np.random.default_rng(last)
    one = Journal(folder, last, dict(ABOUT))
    found: list[Record] = []
    for k in range(groups):
        parts = [(rng.normal(size=(n, 3)), [f"ü{n}", "b", "c"][:n]) for n in (1 + k % 3, 2)]
        found += one.append(parts)
    one.close()
    return found


def read(folder: Path, after: int = 0) -> list[Record]:
    return list(replay(folder, 3, after, lambda _: None))


def signed(sequence: int, content: bytes) -> bytes:
    """A record whose checksum is right, whatever it holds."""
    rest = struct.pack("<QQ", sequence, 0) + content
    return HEAD.pack(MARK, len(content), zlib.crc32(rest), sequence, 0) + content


def holding(labels: object, *numbers: float) -> bytes:
    text = labels if isinstance(labels, bytes) else json.dumps(labels).encode()
    return struct.pack("<I", len(text)) + text + struct.pack(f"<{len(numbers)}d", *numbers)


def same(a: list[Record], b: list[Record]) -> bool:
    pairs = list(zip(a, b, strict=False))
    return len(a) == len(b) and all(
        (p.sequence, list(p.labels), p.x.tobytes()) == (q.sequence, list(q.labels), q.x.tobytes()) for p, q in pairs
    )


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    records = written(tmp_path)
    assert [record.sequence for record in records] == list(range(1, 9))
    assert same(read(tmp_path), records)
    assert same(read(tmp_path, 5), records[5:])
    assert described(tmp_path) == ABOUT
    more = written(tmp_path, last=8)
    assert [segment.first for segment in segments(tmp_path)] == [1, 9]
    assert same(read(tmp_path), records + more)


def test_whatever_byte_a_crash_ends_at_whole_batches_stay(tmp_path: Path) -> None:
    """Each length that the file may have been left with; then it goes on."""
    records = written(tmp_path, 3)
    path = segments(tmp_path)[0].path
    whole = path.read_bytes()
    kept = set()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        found = read(tmp_path)
        assert same(found, records[: len(found)])
        kept.add(len(found))
        assert same(read(tmp_path), found), "after it was cut"
        assert not path.exists() or whole.startswith(path.read_bytes())
    assert kept == set(range(len(records)))
    path.write_bytes(whole[:-1])
    assert len(read(tmp_path)) == len(records) - 1
    again = written(tmp_path, 1, last=len(records) - 1)
    assert same(read(tmp_path), records[:-1] + again)


def test_what_is_cut_off_is_told(tmp_path: Path) -> None:
    written(tmp_path)
    path = segments(tmp_path)[0].path
    path.write_bytes(path.read_bytes()[:-3])
    told: list[str] = []
    list(replay(tmp_path, 3, 0, told.append))
    assert len(told) == 1
    assert "cut off" in told[0]


def test_any_damage_before_the_last_group_is_told_and_nothing_is_changed(tmp_path: Path) -> None:
    """Every byte of the earlier groups, header included, turned over one at a time."""
    records = written(tmp_path, 3)
    path = segments(tmp_path)[0].path
    whole = path.read_bytes()
    last = sum(len(record.to_bytes(0)) for record in records[-2:])
    for at in range(len(whole) - last):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        with pytest.raises(EFCError, match="damaged at byte"):
            read(tmp_path)
    assert len(path.read_bytes()) == len(whole)


def test_an_earlier_segment_must_be_whole(tmp_path: Path) -> None:
    written(tmp_path)
    written(tmp_path, last=8)
    first = segments(tmp_path)[0].path
    whole = first.read_bytes()
    first.write_bytes(whole[:-5])
    with pytest.raises(EFCError, match="damaged"):
        read(tmp_path)
    first.unlink()
    with pytest.raises(EFCError, match="batches 1 to 8 are neither"):
        read(tmp_path)
    assert len(read(tmp_path, 8)) == 8


def test_a_segment_that_is_missing_in_between_is_told(tmp_path: Path) -> None:
    for last in (0, 8, 16):
        written(tmp_path, last=last)
    segments(tmp_path)[1].path.unlink()
    with pytest.raises(EFCError, match="lacks batches 9 to 16"):
        read(tmp_path)


def test_what_a_snapshot_covers_goes(tmp_path: Path) -> None:
    one = Journal(tmp_path, 0, dict(ABOUT))
    batch = [(np.zeros((1, 3)), ["a"])]
    for _ in range(3):
        one.append(batch)
    one.cover(3)
    assert len(segments(tmp_path)) == 1
    one.append(batch)
    one.cover(3)
    assert [segment.first for segment in segments(tmp_path)] == [4]
    assert [record.sequence for record in read(tmp_path, 3)] == [4]
    one.append(batch)
    assert [segment.first for segment in segments(tmp_path)] == [4, 5], "a snapshot ends a segment"
    one.cover(3)
    assert [record.sequence for record in read(tmp_path, 3)] == [4, 5]
    one.cover(4)
    assert [record.sequence for record in read(tmp_path, 4)] == [5]
    one.close()


def test_covered_segments_stay_where_they_are_to_be_kept(tmp_path: Path) -> None:
    one = Journal(tmp_path, 0, dict(ABOUT), keep=True)
    for k in range(4):
        one.append([(np.zeros((1, 3)), ["a"])])
        one.cover(k + 1)
    one.close()
    assert len(read(tmp_path)) == 4


@pytest.mark.parametrize("room", [0, 5, 20, 60, 100])
def test_a_disk_that_is_full_for_a_while_leaves_a_journal_that_is_whole(room: int, tmp_path: Path) -> None:
    """Wherever it is full, in the header too; writes then come back short before they fail."""
    one, batch = Journal(tmp_path, 0, dict(ABOUT)), [(np.zeros((1, 3)), ["a"])]
    with full_after(room):
        for _ in range(2):
            with pytest.raises(NoRoomError, match="nothing was accepted"):
                one.append(batch)
    records = one.append(batch)
    with full_after(sum(path.stat().st_size for path in tmp_path.iterdir()) + 10), pytest.raises(NoRoomError):
        one.append(batch)
    records += one.append(batch)
    one.close()
    assert same(read(tmp_path), records)
    assert [record.sequence for record in records] == [1, 2]


@contextmanager
def full_after(size: int) -> Iterator[None]:
    """No file of this process may grow beyond so many bytes."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_large_segments_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "SEGMENT", 400)
    records = written(tmp_path, 20)
    assert len(segments(tmp_path)) > 5
    assert same(read(tmp_path), records)


@pytest.mark.parametrize(
    "content",
    [
        holding(["a"], 1, 2, float("nan")), holding(["a"], 1, 2, float("inf")), holding(["a"], 1, 2, 1e300),
        holding(["a"], 1, 2), holding(["a"], 1, 2, 3, 4), holding([]), holding("a", 1, 2, 3), holding({}, 1, 2, 3),
        holding([None], 1, 2, 3), holding([["a"]], 1, 2, 3), holding([1.5], 1, 2, 3), holding(["\x1b[2J"], 1, 2, 3),
        holding(["a", 1], 1, 2, 3, 4, 5, 6), holding(b"[" * 100_000, 1, 2, 3), holding(b"no json", 1, 2, 3),
        holding(b"3"), struct.pack("<I", 10**6), b"",
    ],
)  # fmt: skip
def test_whole_records_that_no_request_can_have_brought_are_refused(content: bytes, tmp_path: Path) -> None:
    """A checksum is no signature: whoever can write the file can write one."""
    one = Journal(tmp_path, 0, dict(ABOUT))
    one.append([(np.zeros((1, 3)), ["a"])])
    one.close()
    path = segments(tmp_path)[0].path
    path.write_bytes(path.read_bytes() + signed(2, content))
    whole = path.read_bytes()
    with pytest.raises(EFCError, match="no request can have brought"):
        read(tmp_path)
    assert path.read_bytes() == whole, "nor is it cut off, as a torn one is"


@pytest.mark.parametrize("about", [b"[1]", b"3", b"{", b"[" * 100_000, b"\xff"])
def test_a_header_that_is_none_is_one_sentence(about: bytes, tmp_path: Path) -> None:
    data = struct.pack("<4sII", MARK, len(about), zlib.crc32(about)) + about
    (tmp_path / f"{1:020d}.log").write_bytes(data)
    for look in (described, read):
        with pytest.raises(EFCError, match="header"):
            look(tmp_path)


def test_other_files_are_no_segments(tmp_path: Path) -> None:
    records = written(tmp_path)
    for name in ("1abc.log", "1.log", "²²²²²²²²²²²²²²²²²²²².log", "notes.log"):
        (tmp_path / name).write_bytes(b"x")
    assert same(read(tmp_path), records)


def test_records_within_records_do_not_keep_anybody_busy(tmp_path: Path) -> None:
    """A segment whose every fourth byte begins what claims to be a record of all the rest: nothing of it is cut off."""
    Segment.begin(tmp_path, 1, dict(ABOUT)).close()
    path = segments(tmp_path)[0].path
    n = 2**20
    marks = bytearray(MARK * (n // 4))
    for at in range(0, n // 2, 8):
        struct.pack_into("<I", marks, at + 4, n // 2 - 64)
    path.write_bytes(path.read_bytes() + bytes(marks))
    size, counted, crc32 = path.stat().st_size, 0, zlib.crc32

    def counting(data: bytes) -> int:
        nonlocal counted
        counted += len(data)
        return crc32(data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal.zlib, "crc32", counting)
        with pytest.raises(EFCError, match="damaged at byte"):
            read(tmp_path)
    assert path.stat().st_size == size
    assert counted < 100 * size


@pytest.mark.parametrize("sign", [False, True], ids=["bytes", "content, signed"])
def test_mutated_journals(sign: bool, tmp_path: Path) -> None:
    """What comes back is what was written, up to where one is told that it ends; or one sentence."""
    rng, n = Random(19), int(os.environ.get("EFC_FUZZ", "150"))
    written(tmp_path, 3)
    written(tmp_path, 3, last=6)
    paths = [segment.path for segment in segments(tmp_path)]
    whole = [path.read_bytes() for path in paths]
    records = {record.sequence: record for record in read(tmp_path)}
    ends = 0
    for _ in range(n):
        for path, data in zip(paths, whole, strict=True):
            path.write_bytes(data)
        path, data = rng.choice(list(zip(paths, whole, strict=True)))
        path.write_bytes(resigned(data, rng) if sign else next(mutations(data, rng, 1)))
        told: list[str] = []
        try:
            found = list(replay(tmp_path, 3, 0, told.append))
        except EFCError as mistake:
            check_sentence(mistake)
            ends += 1
            continue
        assert [record.sequence for record in found] == list(range(1, len(found) + 1))
        for record in found:
            assert np.isfinite(record.x).all()
            assert (np.abs(record.x) <= LARGEST).all()
            assert [label_of(label) for label in record.labels] == list(record.labels)
            assert sign or same([record], [records[record.sequence]])
    assert 0 < ends <= n


def resigned(data: bytes, rng: Random) -> bytes:
    """A segment with the content of one record mutated, and its checksum made right again."""
    starts = [at for at in range(len(data)) if journal._frame(data, at) is not None]
    at = rng.choice(starts)
    frame = journal._frame(data, at)
    assert frame is not None
    content = next(mutations(data[frame.begin : frame.end], rng, 1))
    return data[:at] + signed(frame.sequence, content) + data[frame.end :]
