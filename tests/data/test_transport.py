"""Answers that take too long or do not end, heads included. Time is told by the server, not by a clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from efc.data.transport import Limits, SourceError, Watch, request
from support.sockets import Clock, serving


def get(url: str, limits: Limits, size: int = 1000) -> bytes:
    watch = Watch(limits)
    watch.begin(size)
    with request(url, 0, watch) as response:
        return response.read()


def dripping(
    clock: Clock, before: bytes, byte: bytes = b"x", seconds: float = 2.0
) -> Callable[[bytes], Iterator[bytes]]:
    """One byte every two seconds, for ever. How far the server is ahead of who reads is anybody's guess."""

    def answer(_: bytes) -> Iterator[bytes]:
        yield before
        while True:
            clock.time += seconds
            yield byte

    return answer


@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nX-A: ",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFF\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /\r\nX-A: ",
    ],
)
def test_a_byte_every_two_seconds_is_too_slow(before: bytes) -> None:
    clock = Clock()
    with serving(dripping(clock, before)) as server, pytest.raises(SourceError, match=r"too slow: \d+ bytes in"):
        get(server.url, Limits(deadline=math.inf, now=clock.now, sleep=clock.sleep))


def test_what_is_fast_enough_still_has_a_deadline() -> None:
    clock = Clock()
    with (
        serving(dripping(clock, b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 5000)) as server,
        pytest.raises(SourceError, match="not done after 600 seconds"),
    ):
        # No least rate: the server's clock may be ahead of what has been read by now.
        get(server.url, Limits(deadline=600, rate=0, now=clock.now, sleep=clock.sleep), 1 << 30)


@pytest.mark.parametrize(
    ("before", "piece"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n" * 1000),
        (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 10_000),
    ],
)
def test_an_answer_without_end_is_not_read_to_its_end(before: bytes, piece: bytes) -> None:
    clock = Clock()
    with (
        serving(dripping(clock, before, piece, 0.0)) as server,
        pytest.raises(SourceError, match="the answer does not end"),
    ):
        get(server.url, Limits(now=clock.now, sleep=clock.sleep))


def redirect(place: bytes) -> Callable[[bytes], Iterator[bytes]]:
    def answer(head: bytes) -> Iterator[bytes]:
        if head.startswith(b"GET /there "):
            yield b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        else:
            yield b"HTTP/1.1 302 Found\r\nLocation: " + place + b"\r\nContent-Length: 1000000000\r\n\r\n"
            yield b"x" * 100_000

    return answer


def test_a_redirect_is_followed_and_its_body_is_not_read() -> None:
    with serving(redirect(b"/there")) as server:
        assert get(server.url, Limits()) == b"ok"


@pytest.mark.parametrize(
    "place",
    [
        b"file:///etc/passwd", b"ftp://127.0.0.1/x", b"data:text/plain,x", b"javascript:alert(1)", b"http://[::1", b"",
        b"http://127.0.0.1:abc/", b"http://127.0.0.1:99999/", b"//[", b"gopher://x",
    ],
)  # fmt: skip
def test_a_redirect_to_something_else_is_refused(place: bytes) -> None:
    with serving(redirect(place)) as server, pytest.raises(SourceError, match="no http or https address"):
        get(server.url, Limits())
    assert len(server.asked) == 1


@pytest.mark.parametrize("scheme", ["file", "ftp", "data"])
def test_other_addresses_are_not_opened(scheme: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"secret")
    with pytest.raises(OSError, match="unknown url type"):
        get(f"{scheme}://{tmp_path / 'f'}", Limits())
