"""What stands before the routes: who may ask, from where, how much and how fast; and what every answer carries."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from efc.errors import shown, visible
from efc.serve.log import log
from efc.serve.replies import RefusedError, refusal

HEADERS = {
    "content-security-policy": (
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; object-src 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
"""What every answer carries."""
OPEN = ("/", "/docs", "/openapi.json", "/favicon.ico")
"""Pages that say nothing of the model: they need no token, and without one no body is read."""
KNOWN = "known"
"""In a request's state: whether it may have what the service knows, because it shows the token or none is needed."""
STATIC = "/static/"
CLIENTS = 4096
"""Addresses whose rates are remembered, the latest ones."""
BAD_TOKENS = 5.0
"""Wrong tokens a second that an address may try."""
PATIENCE = 30.0
"""Seconds that a client may take to read a piece of an answer."""


@dataclass(frozen=True)
class Access:
    """Who may ask.

    Args:
        token: what a request has to show; None: nothing.
        loopback: whether only this machine can reach the service; the name it is called by must be this machine's.
        rate: requests a second from one address; twice as many at once.
        body: bytes of a request.
        body_seconds: within which it has to be here.
    """

    token: str | None = None
    loopback: bool = True
    rate: float = 2000.0
    body: int = 4 * 2**20
    body_seconds: float = 10.0


@dataclass
class Rates:
    """Buckets, one for each address: they fill with time, and every request takes one out."""

    rate: float
    burst: float
    buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def wait(self, client: str, now: float) -> float:
        """Take one out; 0 if there was one, or the seconds until there is."""
        left, before = self.buckets.pop(client, (self.burst, now))
        left = min(self.burst, left + self.rate * (now - before))
        self.buckets[client] = (left - 1 if left >= 1 else left, now)
        if len(self.buckets) > CLIENTS:
            self.buckets.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / self.rate


class Guard:
    """An ASGI application around another one, to which it hands the requests that pass, their bodies read.

    No exception leaves it: what goes wrong inside is one line on stderr and a 500.
    """

    def __init__(self, app: ASGIApp, access: Access, count: Callable[[str, str, int, float], None]) -> None:
        self.app, self.access, self.count = app, access, count
        self.rates = Rates(access.rate, 2 * access.rate)
        self.guesses = Rates(BAD_TOKENS, 2 * BAD_TOKENS)
        self.digest = None if access.token is None else _digest(access.token.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        began, status = time.perf_counter(), 500

        async def told(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            async with asyncio.timeout(PATIENCE):
                await send(dressed(message))

        try:
            await self._answer(scope, receive, told)
        except TimeoutError:  # nobody reads the answer: uvicorn closes the connection
            status = 499
        except GoneError:
            status = 499
        finally:
            self.count(scope["method"], scope["path"], status, time.perf_counter() - began)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            self._check(scope)
            body = await self._body(scope, receive) if scope["state"][KNOWN] else b""
            await self.app(scope, _given(body), noted)
        except (TimeoutError, GoneError):
            raise
        except RefusedError as refused:
            await refusal(refused)(scope, _nothing, noted)
        except Exception as problem:  # a mistake of ours: never a traceback for the client, nor a dead connection
            line = visible(f"{type(problem).__name__}: {problem}", keep="")[:500]
            log(f"{scope['method']} {shown(scope['path'])}: {line}")
            if not started:
                await refusal(problem)(scope, _nothing, noted)

    def _check(self, scope: Scope) -> None:
        """Who, from where, how often, and what."""
        headers, client = _headers(scope), (scope.get("client") or ("",))[0]
        given = headers.get("authorization", "")
        known = self.digest is None or self._is_token(given)
        scope.setdefault("state", {})[KNOWN] = known
        # Who shows the token is not kept waiting by others at the same address.
        seconds = self.rates.wait(client if known else f"{client} unknown", time.monotonic())
        if seconds:
            told = f"too many requests; at most {self.access.rate:g} a second from one address"
            raise RefusedError(429, told, {"retry-after": str(max(1, round(seconds)))})
        host = headers.get("host", "")
        if self.access.loopback and _name(host) not in ("localhost", "127.0.0.1", "::1"):
            raise RefusedError(403, f"Host: this service answers on this machine alone, not as {shown(host)}")
        origin = headers.get("origin")
        if origin is not None and _netloc(origin) != host.lower():
            raise RefusedError(403, f"Origin: requests from pages of {shown(origin)} are not answered")
        if headers.get("sec-fetch-site") == "cross-site" and scope["method"] != "GET":
            raise RefusedError(403, "Sec-Fetch-Site: requests from other sites are not answered")
        path = scope["path"]
        if not known and path not in OPEN and not path.startswith(STATIC):
            raise self._without_token(given, client)
        if scope["method"] == "POST":
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != "application/json":
                raise RefusedError(415, f"Content-Type: expected application/json, got {shown(kind)}")

    def _is_token(self, given: str) -> bool:
        kind, _, token = given.partition(" ")
        right = hmac.compare_digest(_digest(token.strip().encode("utf-8", "replace")), self.digest or b"")
        return right and kind.lower() == "bearer"

    def _without_token(self, given: str, client: str) -> RefusedError:
        if given and (seconds := self.guesses.wait(client, time.monotonic())):
            return RefusedError(429, "too many wrong tokens", {"retry-after": str(max(1, round(seconds)))})
        told = "this is not the token" if given else "a token is needed"
        sentence = f"Authorization: {told}; send 'Authorization: Bearer TOKEN'"
        return RefusedError(401, sentence, {"www-authenticate": "Bearer"})

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """All of it, unless it is too long or too slow."""
        most = self.access.body
        announced = _headers(scope).get("content-length", "")
        too_long = RefusedError(413, f"body: longer than the {most} bytes that are allowed", {"connection": "close"})
        if announced.isascii() and announced.isdigit() and (len(announced) > 18 or int(announced) > most):
            raise too_long
        parts, length = [], 0
        try:
            async with asyncio.timeout(self.access.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise GoneError
                    parts.append(message.get("body", b""))
                    length += len(parts[-1])
                    if length > most:
                        raise too_long
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            told = f"body: it was not here within {self.access.body_seconds:g} seconds"
            raise RefusedError(408, told, {"connection": "close"}) from None


def dressed(message: Message) -> Message:
    """A message of an answer, with the headers that every answer carries."""
    if message["type"] != "http.response.start":
        return message
    own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    return {**message, "headers": [*message.get("headers", []), *own]}


class GoneError(Exception):
    """The client has closed the connection."""


def _given(body: bytes) -> Receive:
    """What a route receives: the body at once, then nothing."""
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            await asyncio.Event().wait()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


async def _nothing() -> Message:
    return {"type": "http.disconnect"}


def _headers(scope: Scope) -> dict[str, str]:
    """By small names; of one that comes twice the first."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return found


def _digest(token: bytes) -> bytes:
    """Tokens of different lengths are compared in the same time."""
    return hashlib.sha256(token).digest()


def _name(host: str) -> str:
    """A Host header without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _netloc(origin: str) -> str:
    """Host and port of an Origin header."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
