"""Servers that send too much, too little, the wrong thing, or nonsense: one sentence each, and few requests."""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from efc.data.download import RemoteFile, fetch
from efc.data.store import fetch_file
from efc.data.transport import Limits, SourceError
from efc.errors import EFCError
from support.mutate import mutations
from support.sockets import Clock, serving

CONTENT = random.Random(0).randbytes(5000)
HEAD = b"HTTP/1.1 200 OK\r\n"
WHOLE = HEAD + b"Content-Length: 5000\r\n\r\n"
CASES = int(os.environ.get("EFC_FUZZ", "150"))
"""How many mutated answers are tried."""


def remote(url: str, size: int | None = len(CONTENT)) -> RemoteFile:
    return RemoteFile("file.bin", f"sha256:{hashlib.sha256(CONTENT).hexdigest()}", size, (url,))


def patient(clock: Clock) -> Limits:
    return Limits(now=clock.now, sleep=clock.sleep)


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (b"Content-Length: abc\r\n\r\n", "sends Content-Length 'abc', which is no number of bytes"),
        (b"Content-Length: -5\r\n\r\n", "sends Content-Length '-5', which is no number of bytes"),
        (b"Content-Length: 5_000\r\n\r\n", "which is no number"),
        (b"Content-Length: \xb25000\r\n\r\n", "which is no number"),
        (b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", "which is no number"),
        (b"Content-Length: 5000\r\nContent-Length: 7\r\n\r\n", "sends Content-Length more than once: 5000, 7"),
        (b"Content-Length: 400000000\r\n\r\n", "announces 400000000 bytes, the published file has 5000"),
        (b"Content-Length: 4999\r\n\r\n", "announces 4999 bytes, the published file has 5000"),
        (b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "IncompleteRead"),
        (b"X: " + b"y" * 70_000 + b"\r\n\r\n", "LineTooLong"),
        (b"X: y\r\n" * 200 + b"\r\n", "got more than 100 headers"),
    ],
)
def test_odd_heads_are_one_sentence(head: bytes, says: str, tmp_path: Path) -> None:
    clock = Clock()
    with serving(lambda _: [HEAD + head + CONTENT]) as server, pytest.raises(SourceError) as failure:
        fetch(remote(server.url), tmp_path, limits=patient(clock))
    assert says in str(failure.value)
    assert "\n" not in str(failure.value)
    assert len(server.asked) <= 4


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "given up after 4 requests"),
        (b"\x00\xff\r\n\r\n", "BadStatusLine"),
        (b"HTTP/9.9 200 OK\r\n\r\n", "UnknownProtocol"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", "BadStatusLine"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", "HTTP 204 No Content"),
        (
            b"HTTP/1.1 206 Partial\r\nContent-Range: bytes 7-9/10\r\n\r\nabc",
            "asked for the bytes from 0 on, got 'bytes 7-",
        ),
        (b"HTTP/1.1 500 \x1b[31mred\r\n\r\n", "HTTP 500  [31mred"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\n", "redirects to 'http://[', which is no http"),
        (b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n", "redirects to 'file:///etc/passwd'"),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", "the redirects do not end"),
        (b"HTTP/1.1 302 Found\r\n\r\n", "redirects to ''"),
    ],
)
def test_odd_answers_are_one_sentence(answer: bytes, says: str, tmp_path: Path) -> None:
    clock = Clock()
    with serving(lambda _: [answer]) as server, pytest.raises(SourceError) as failure:
        fetch(remote(server.url), tmp_path, limits=patient(clock))
    assert says in str(failure.value)
    assert "\n" not in str(failure.value)
    assert "\x1b" not in str(failure.value)


def test_the_same_length_twice_is_no_contradiction(tmp_path: Path) -> None:
    with serving(lambda _: [HEAD, b"Content-Length: 5000\r\n" * 2, b"\r\n", CONTENT]) as server:
        assert fetch(remote(server.url), tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("size", [None, len(CONTENT)])
def test_a_body_without_an_announced_length(size: int | None, tmp_path: Path) -> None:
    chunks = b"1000\r\n" + CONTENT[:4096] + b"\r\n388\r\n" + CONTENT[4096:] + b"\r\n0\r\n\r\n"
    for k, answer in enumerate((HEAD + b"\r\n" + CONTENT, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)):
        with serving(lambda _, answer=answer: [answer]) as server:
            assert fetch(remote(server.url, size), tmp_path / str(k)).read_bytes() == CONTENT


def test_a_body_is_not_read_beyond_the_known_size(tmp_path: Path) -> None:
    def endless(_: bytes) -> Iterator[bytes]:
        yield HEAD + b"\r\n"
        while True:
            yield bytes(1 << 20)

    with serving(endless) as server, pytest.raises(SourceError, match="sends more than the 5000 bytes"):
        fetch(remote(server.url), tmp_path)
    assert server.sent < 64 << 20  # what the sockets hold, not what is read
    assert [file.stat().st_size for file in tmp_path.iterdir()] == [0]
    with serving(endless) as server, pytest.raises(SourceError, match="sends more than the 100000 bytes"):
        fetch(remote(server.url, size=None), tmp_path, limits=Limits(size=100_000))


def test_a_byte_per_connection_is_given_up_soon_and_with_pauses(tmp_path: Path) -> None:
    clock = Clock()

    def one(head: bytes) -> list[bytes]:
        start = int(head.partition(b"bytes=")[2].partition(b"-")[0] or b"0")
        status = b"HTTP/1.1 206 Partial\r\nContent-Range: bytes %d-4999/5000\r\n" % start if start else HEAD
        return [status + b"Content-Length: %d\r\n\r\n" % (5000 - start) + CONTENT[start : start + 1]]

    with serving(one) as server, pytest.raises(SourceError, match="given up after 4 requests; 4 bytes are kept"):
        fetch(remote(server.url), tmp_path, limits=patient(clock))
    assert len(server.asked) == 4
    assert clock.slept == [2.0, 4.0, 8.0]
    assert (tmp_path / "file.bin.part").read_bytes() == CONTENT[:4]


def test_even_with_headway_there_is_an_end_to_the_requests(tmp_path: Path) -> None:
    clock = Clock()
    limits = Limits(now=clock.now, sleep=clock.sleep, headway=1, requests=7)

    def some(head: bytes) -> list[bytes]:
        start = int(head.partition(b"bytes=")[2].partition(b"-")[0] or b"0")
        status = b"HTTP/1.1 206 Partial\r\nContent-Range: bytes %d-4999/5000\r\n" % start if start else HEAD
        return [status + b"\r\n" + CONTENT[start : start + 500]]

    with serving(some) as server, pytest.raises(SourceError, match="given up after 7 requests; 3500 bytes are kept"):
        fetch(remote(server.url), tmp_path, limits=limits)
    assert clock.slept == [1.0] * 6
    with serving(some) as server:  # the next try goes on from there
        assert fetch(remote(server.url), tmp_path, limits=limits).read_bytes() == CONTENT
    assert len(server.asked) == 3


def test_a_server_that_gives_a_range_in_parts_is_asked_on(tmp_path: Path) -> None:
    def parts(head: bytes) -> list[bytes]:
        start = int(head.partition(b"bytes=")[2].partition(b"-")[0] or b"0")
        end = min(start + 2000, 5000)
        said = b"HTTP/1.1 206 Partial\r\nContent-Range: bytes %d-%d/5000\r\n" % (start, end - 1)
        return [said + b"Content-Length: %d\r\n\r\n" % (end - start) + CONTENT[start:end]]

    clock = Clock()
    with serving(parts) as server:
        assert fetch(remote(server.url), tmp_path, limits=patient(clock)).read_bytes() == CONTENT
    assert len(server.asked) == 3


def test_a_slow_server_leaves_the_next_its_turn(tmp_path: Path) -> None:
    clock = Clock()

    def slow(_: bytes) -> Iterator[bytes]:
        yield WHOLE + CONTENT[:1000]
        for k in range(1000, 4000):
            clock.time += 2.0
            yield CONTENT[k : k + 1]

    def rest(head: bytes) -> list[bytes]:
        start = int(head.partition(b"bytes=")[2].partition(b"-")[0] or b"0")
        said = b"HTTP/1.1 206 Partial\r\nContent-Range: bytes %d-4999/5000\r\n" % start
        return [said + b"Content-Length: %d\r\n\r\n" % (5000 - start) + CONTENT[start:]]

    with serving(slow) as one, serving(rest) as two:
        file = RemoteFile("file.bin", remote("").checksum, 5000, (one.url, two.url))
        assert fetch(file, tmp_path, limits=patient(clock)).read_bytes() == CONTENT
        assert len(one.asked) == len(two.asked) == 1


def test_mirrors_come_first_are_laid_out_as_the_data_folder_and_are_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(lambda _: [WHOLE + bytes(5000)]) as wrong, serving(lambda _: [WHOLE + CONTENT]) as right:
        monkeypatch.setenv("EFC_MIRROR", f"{wrong.url}/a/ {right.url}")
        file = RemoteFile("file.bin", remote("").checksum, 5000, ("http://127.0.0.1:9/nobody",))
        assert fetch(file, tmp_path / "mnist").read_bytes() == CONTENT
        assert wrong.asked[0].startswith(b"GET /a/mnist/file.bin ")
        assert right.asked[0].startswith(b"GET /mnist/file.bin ")


@pytest.mark.parametrize("mirror", ["file:///data", "nonsense", "ftp://x/", "http://", "/data"])
def test_a_mirror_that_is_no_address(mirror: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EFC_MIRROR", mirror)
    with pytest.raises(EFCError, match=r"EFC_MIRROR: .* is no http or https address"):
        fetch_file(remote("http://127.0.0.1:9/"), tmp_path)


def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").mkdir()
    with (
        serving(lambda _: [WHOLE + CONTENT]) as server,
        pytest.raises(EFCError, match=r"file.bin.part: Is a directory"),
    ):
        fetch_file(remote(server.url), tmp_path)


ANSWERS = (
    WHOLE + CONTENT,
    HEAD + b"Transfer-Encoding: chunked\r\nServer: x\r\n\r\n1388\r\n" + CONTENT + b"\r\n0\r\n\r\n",
    b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 1000-4999/5000\r\nContent-Length: 4000\r\n\r\n"
    + CONTENT[1000:],
    b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Range: bytes */5000\r\n\r\n",
)


def test_mutated_answers_give_the_right_file_or_one_sentence(tmp_path: Path) -> None:
    """Heads and bodies, whole and resumed; no traceback, no wrong file, no waiting."""
    rng, clock = random.Random(19), Clock()
    limits = Limits(now=clock.now, sleep=clock.sleep, tries=2, requests=4)
    answer, ended, several_lines = b"", {"right": 0, "refused": 0}, 0

    def reply(head: bytes) -> list[bytes]:
        return [WHOLE + CONTENT] if head.startswith(b"GET /there ") else [answer]

    with serving(reply) as server:
        for _ in range(CASES):
            whole = rng.choice(ANSWERS)
            end = whole.index(b"\r\n\r\n") + 4
            [head] = mutations(whole[:end], rng, 1)
            [body] = mutations(whole[end:], rng, 1)
            answer = rng.choice((head + whole[end:], head + whole[end:], whole[:end] + body, head + body))
            (tmp_path / "file.bin").unlink(missing_ok=True)
            (tmp_path / "file.bin.part").unlink(missing_ok=True)
            if whole.startswith(b"HTTP/1.1 206") or rng.randrange(4) == 0:
                (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
            try:
                found = fetch(remote(server.url, rng.choice((None, 5000))), tmp_path, limits=limits)
            except (SourceError, EFCError) as problem:
                ended["refused"] += 1
                several_lines += "\n" in str(problem)
            else:
                assert found.read_bytes() == CONTENT
                ended["right"] += 1
    print(ended)
    assert all(ended.values())
    assert not several_lines
