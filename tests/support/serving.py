"""A real server of `efc serve` in a process of its own, and what asks it over loopback."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from support.command import Started, started

GUARD = 600.0


class Served:
    """A server that answers."""

    def __init__(self, command: Started, token: str | None = None) -> None:
        self.command, self.token = command, token
        command.wait_for(lambda: self._port() is not None, GUARD)
        port = self._port()
        assert port is not None
        self.port = port

    def _port(self) -> int | None:
        found = re.search(r":(\d+)/\n", self.command.out.read_text()) if self.command.out.exists() else None
        return int(found[1]) if found else None

    def ask(
        self, path: str, body: object = None, headers: Mapping[str, str] | None = None, method: str | None = None
    ) -> tuple[int, Any, dict[str, str]]:
        """Status, document and headers of an answer; POST if there is a body, bytes of which are sent as they are."""
        given = dict(headers or {})
        if self.token is not None:
            given.setdefault("Authorization", f"Bearer {self.token}")
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        if data is not None:
            given.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=GUARD)
        try:
            connection.request(method or ("GET" if data is None else "POST"), path, data, given)
            answer = connection.getresponse()
            text = answer.read()
            found = {name.lower(): value for name, value in answer.getheaders()}
            kind = found.get("content-type", "")
            return answer.status, json.loads(text) if kind.startswith("application/json") and text else text, found
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """A document that is there."""
        status, found, _ = self.ask(path)
        assert status == 200, found
        return found

    def learn(self, inputs: object, labels: object, wait: bool = True) -> dict[str, Any]:
        status, found, _ = self.ask(f"/learn?wait={int(wait)}", {"inputs": inputs, "labels": labels})
        assert status == 202, found
        return dict(found)

    def raw(self, data: bytes) -> bytes:
        """What comes back for these bytes until the server closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=GUARD) as connection:
            connection.sendall(data)
            found = b""
            while piece := connection.recv(65536):
                found += piece
            return found

    def end(self, number: int = signal.SIGTERM) -> str:
        """End it politely; what it said."""
        os.kill(self.command.pid, number)
        done = self.command.ended(GUARD)
        assert done.returncode == 130, done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    def kill(self) -> None:
        os.kill(self.command.pid, signal.SIGKILL)
        self.command.process.join()


@contextmanager
def serving(
    model: Path, *arguments: str, token: str | None = None, largest: int | None = None, **environment: str
) -> Iterator[Served]:
    """``efc serve`` of a small model, begun if it is not there, on a free port."""
    small = () if "--demo" in arguments else ("--features", "4", "--hidden", "8")
    line = ("serve", str(model), "--port", "0", "--no-open", *small, *arguments)
    with started(*line, cwd=model.parent, largest=largest, **environment) as command:
        served = Served(command, token)
        yield served
        assert "Traceback" not in command.said


def samples(n: int, seed: int = 0, classes: int = 3) -> tuple[list[list[float]], list[int]]:
    """Well separated classes of four features, in a random order."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    x = 3 * np.eye(4)[y % 4] + rng.normal(size=(n, 4))
    return x.tolist(), y.tolist()


def batches(n: int, seed: int = 0, classes: int = 3) -> list[tuple[list[list[float]], list[int]]]:
    """The same in batches of one to nine."""
    x, y = samples(n, seed, classes)
    found, at, rng = [], 0, np.random.default_rng(seed)
    while at < n:
        size = int(rng.integers(1, 10))
        found.append((x[at : at + size], y[at : at + size]))
        at += size
    return found
