"""A server on loopback that says what it is told to, byte for byte, whether that is HTTP or not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

Answer = Callable[[bytes], Iterable[bytes]]
"""From the head of a request to the pieces of what is sent back; then the connection is closed."""


class RawServer:
    """Answers one connection after another."""

    def __init__(self, answer: Answer) -> None:
        self.answer, self.asked, self.sent = answer, list[bytes](), 0
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                connection.settimeout(60)
                head = b""
                while b"\r\n\r\n" not in head and (piece := connection.recv(4096)):
                    head += piece
                if head:
                    self.asked.append(head)
                    for piece in self.answer(head):
                        connection.sendall(piece)
                        self.sent += len(piece)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(4096):  # closing with bytes unread would cut off what was sent
                        pass

    def close(self) -> None:
        with suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.thread.join(60)


@contextmanager
def serving(answer: Answer) -> Iterator[RawServer]:
    server = RawServer(answer)
    try:
        yield server
    finally:
        server.close()


class Clock:
    """Time that passes only when someone says so."""

    def __init__(self) -> None:
        self.time, self.slept = 0.0, list[float]()

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
