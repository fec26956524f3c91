"""The service on a port: uvicorn in one process, until a signal ends it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from types import FrameType

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from efc.errors import EFCError, shown
from efc.serve.application import application
from efc.serve.guard import Access
from efc.serve.metrics import Traffic
from efc.serve.service import Service, Settings, alone

CONNECTIONS = 256
"""Connections at a time; what comes beyond them gets a 503."""
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
    """uvicorn's protocol, whose patience with half a request's head ends."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self.head = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self.head.cancel()
        elif self.head.cancelled() and not self.transport.is_closing():
            self.head = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        self.head.cancel()
        super().connection_lost(exc)

    def _too_slow(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


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
    alone()
    warnings.simplefilter("ignore")  # what scikit-learn remarks on a batch is no concern of whoever runs the service
    with listening(place.host, place.port) as sock:
        service = Service(settings, gc.collect)
        try:
            traffic = Traffic()
            config = uvicorn.Config(
                application(service, place.access, traffic), http=Patient, ws="none", lifespan="off", loop="asyncio",
                log_config=None, access_log=False, server_header=False, proxy_headers=False,
                limit_concurrency=CONNECTIONS, timeout_keep_alive=30, timeout_graceful_shutdown=2,
                h11_max_incomplete_event_size=HEAD_BYTES,
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
        print(f"efc: {record.getMessage().splitlines()[0][:300]}", file=sys.stderr, flush=True)


def _quiet() -> None:
    """Invalid requests are everyday; errors are told."""
    log = logging.getLogger("uvicorn")
    log.handlers, log.propagate = [_OneLine(level=logging.ERROR)], False
    log.setLevel(logging.ERROR)
    logging.getLogger("asyncio").handlers = [_OneLine(level=logging.ERROR)]
    logging.getLogger("asyncio").propagate = False
