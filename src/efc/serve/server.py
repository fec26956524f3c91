"""The service on a port: uvicorn in one process, until a signal ends it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from types import FrameType

import h11
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from efc.errors import EFCError, shown
from efc.serve.application import application
from efc.serve.guard import HEADERS, KNOWN, Access, dressed
from efc.serve.log import log
from efc.serve.metrics import Traffic
from efc.serve.replies import RefusedError, error, refusal
from efc.serve.service import Service, Settings, alone

CONNECTIONS = 256
"""Connections at a time; for what comes beyond them an idle one is closed. If there is none, it gets a 503."""
KEPT, BRIEFLY = 30, 5
"""Seconds that an idle connection is kept, with and without the token."""
BACKLOG = 512
"""Connections that may wait for being taken."""
HEAD_SECONDS = 10.0
"""Within which the head of a request has to be here."""
HEAD_BYTES = 16 * 1024


@dataclass(frozen=True)
class Place:
    """Where a service listens, and who may ask."""

    host: str = "127.0.0.1"
    port: int = 8000
    access: Access = field(default_factory=Access)


class Patient(H11Protocol):
    """uvicorn's protocol, for a service whose owner must not be locked out: its patience with half a request's head
    ends, and where all connections are taken those that can be spared make room."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self.head = self.loop.call_later(HEAD_SECONDS, self._too_slow)
        self.since = self.loop.time()
        there = [each for each in self.connections if isinstance(each, Patient) and not each.transport.is_closing()]
        if len(there) > CONNECTIONS and not self._make_room(there):
            self.app = _no_room

    def _make_room(self, there: Sequence[Patient]) -> bool:
        """Close a connection that asks nothing at the moment: one that never showed the token before one that did, one
        of the address that has most of them, the one that has been idle longest."""
        idle, many = [each for each in there if each is not self and each.idle], Counter(map(Patient.address, there))
        if not idle:
            return False
        min(idle, key=lambda each: (each.known, -many[each.address()], each.since)).transport.abort()
        return True

    @property
    def idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    @property
    def known(self) -> bool:
        """Whether its last request had the token, or needed none."""
        return self.scope is not None and bool(self.scope["state"].get(KNOWN))

    def address(self) -> str:
        return self.client[0] if self.client else ""

    def on_response_complete(self) -> None:
        self.timeout_keep_alive = KEPT if self.known else BRIEFLY
        self.since = self.loop.time()
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.idle:
            self.head.cancel()
        elif self.head.cancelled() and not self.transport.is_closing():
            self.head = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self.head.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """As everything is refused."""
        answer = error(400, "this is no HTTP request", {"connection": "close"})
        headers = [*answer.raw_headers, *((name.encode(), value.encode()) for name, value in HEADERS.items())]
        with suppress(h11.LocalProtocolError):  # in the middle of another answer
            for event in (
                h11.Response(status_code=400, headers=headers),
                h11.Data(bytes(answer.body)),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _too_slow(self) -> None:
        if self.idle:
            self.transport.close()


async def _no_room(scope: Scope, receive: Receive, send: Send) -> None:
    """What is answered where nobody can be spared."""
    told = RefusedError(503, "all connections are in use; try again later", {"retry-after": "1", "connection": "close"})
    await refusal(told)(scope, receive, lambda message: send(dressed(message)))


class Server(uvicorn.Server):
    """uvicorn's server; a signal ends it in good order, and is not raised again: the caller is told."""

    heard = False

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        numbers = (signal.SIGINT, signal.SIGTERM)
        try:
            before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        except ValueError:  # not the main thread
            before = {}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.heard = True
        super().handle_exit(sig, frame)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens.

    It is named a TCP socket, which `socket.create_server` does not do: asyncio sends answers without delay only on one
    that is, and a delay is 40 ms.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as problem:
        raise EFCError(f"host: cannot listen on {shown(host)}: {problem}") from None
    try:
        if os.name == "posix":
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(BACKLOG)
    except OSError as problem:
        found.close()
        raise EFCError(f"port: cannot listen on {shown(host)}:{port}: {problem.strerror or problem}") from None
    return found


def serve(settings: Settings, place: Place, ready: Callable[[str, Service], None]) -> bool:
    """Serve until a signal comes; returns whether one did. ``ready`` is told the address when requests are answered."""
    alone(settings.demo)
    warnings.simplefilter("ignore")  # what scikit-learn remarks on a batch is no concern of whoever runs the service
    with listening(place.host, place.port) as sock:
        service = Service(settings, gc.collect)
        try:
            traffic = Traffic()
            config = uvicorn.Config(
                application(service, place.access, traffic), http=Patient, ws="none", lifespan="off", loop="asyncio",
                log_config=None, access_log=False, server_header=False, proxy_headers=False,
                timeout_keep_alive=KEPT, timeout_graceful_shutdown=2, h11_max_incomplete_event_size=HEAD_BYTES,
            )  # fmt: skip
            _quiet()
            server = Server(config)
            name = f"[{place.host}]" if ":" in place.host else place.host
            address = f"http://{name}:{sock.getsockname()[1]}"
            service.start()
            asyncio.run(_run(server, sock, lambda: ready(address, service)))
        finally:
            service.close()
    return server.heard


async def _run(server: Server, sock: socket.socket, ready: Callable[[], None]) -> None:
    async def tell() -> None:
        while not server.started:
            await asyncio.sleep(0.01)
        ready()

    telling = asyncio.create_task(tell())
    await server.serve([sock])
    await telling


class _OneLine(logging.Handler):
    """What uvicorn has to say, without its tracebacks."""

    def emit(self, record: logging.LogRecord) -> None:
        log(record.getMessage().partition("\n")[0][:300])


def _quiet() -> None:
    """Invalid requests are everyday; errors are told."""
    for name in ("uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [_OneLine(level=logging.ERROR)], False
        logger.setLevel(logging.ERROR)
