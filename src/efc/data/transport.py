"""One HTTP request that must come to an end: bounded in time, in rate and in bytes; to http and https only."""

from __future__ import annotations

import http.client
import io
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPResponse
from typing import IO, Any
from urllib.parse import urljoin, urlsplit


class SourceError(Exception):
    """One source of a file could not give it; the message says why. Another may."""


@dataclass(frozen=True)
class Limits:
    """How patient a download is; what concerns time is in seconds and holds for one address."""

    timeout: float = 20.0
    """Without a byte."""
    rate: float = 2000.0
    """Bytes per second, at least, over each ``window``."""
    window: float = 60.0
    deadline: float = 12 * 3600.0
    """For all requests together."""
    requests: int = 100
    """At most."""
    tries: int = 4
    """Requests in a row that brought less than ``headway`` bytes, before the next address is tried."""
    headway: int = 1 << 16
    pause: float = 1.0
    """Before a broken transfer is taken up again; doubled each time, up to ``longest_pause``."""
    longest_pause: float = 60.0
    size: int = 16 << 30
    """The most bytes of a file whose size is not known."""
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Watch:
    """Looks on while bytes come in from one address, and stops what takes too long or does not end."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.end = limits.now() + limits.deadline
        self.begin(0)

    def begin(self, size: int) -> None:
        """A request for ``size`` bytes. What comes with them, heads and the lengths of chunks, has its bounds too."""
        self.left = 8 * size + (1 << 20)
        self.since, self.seen = self.limits.now(), 0
        self.took(0)

    def took(self, count: int) -> None:
        """So many bytes have come."""
        now, limits = self.limits.now(), self.limits
        self.left -= count
        self.seen += count
        if self.left < 0:
            raise SourceError("the answer does not end")
        if now > self.end:
            raise SourceError(f"not done after {limits.deadline:.0f} seconds")
        if now - self.since >= limits.window:
            if self.seen < limits.rate * (now - self.since):
                said = f"{self.seen} bytes in {now - self.since:.0f} seconds"
                raise SourceError(f"too slow: {said}, expected at least {limits.rate:.0f} a second")
            self.since, self.seen = now, 0


def request(url: str, start: int, watch: Watch) -> HTTPResponse:
    """The answer to a request for a file from byte ``start`` on, redirects followed."""
    headers = {"User-Agent": "efc"} | ({"Range": f"bytes={start}-"} if start else {})
    answer: HTTPResponse = _opener(watch).open(
        urllib.request.Request(url, headers=headers), timeout=watch.limits.timeout
    )
    return answer


class _Watched(io.RawIOBase):
    """What a socket receives, watched: heads, bodies and all."""

    def __init__(self, raw: io.RawIOBase, watch: Watch) -> None:
        self.raw, self.watch = raw, watch

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        count = self.raw.readinto(buffer)
        self.watch.took(count or 0)
        return count

    def close(self) -> None:
        self.raw.close()
        super().close()


class _Redirects(urllib.request.HTTPRedirectHandler):
    """To http and https alone, and without reading what comes with a redirect."""

    inf_msg = "the redirects do not end: "

    def http_error_302(self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message) -> Any:
        fp.close()
        place = str(headers.get("Location", ""))
        try:
            address = urlsplit(urljoin(req.full_url, place))
            good = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
        except ValueError:
            good = False
        if not place or not good:
            raise SourceError(f"redirects to {place[:200]!r}, which is no http or https address")
        return super().http_error_302(req, fp, code, msg, headers)  # type: ignore[arg-type]

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _opener(watch: Watch) -> urllib.request.OpenerDirector:
    """Proxies as the environment has them; no files, no FTP, no data in addresses."""

    class Response(HTTPResponse):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.fp = io.BufferedReader(_Watched(self.fp.detach(), watch))

    class Plain(http.client.HTTPConnection):
        response_class = Response

    class Secure(http.client.HTTPSConnection):
        response_class = Response

    class HTTPHandler(urllib.request.HTTPHandler):
        def http_open(self, req: urllib.request.Request) -> HTTPResponse:
            return self.do_open(Plain, req)

    class HTTPSHandler(urllib.request.HTTPSHandler):
        def https_open(self, req: urllib.request.Request) -> HTTPResponse:
            return self.do_open(Secure, req)

    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        HTTPHandler(),
        HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    return opener
