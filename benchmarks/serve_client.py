"""A server process of `efc serve`, and the leanest client there is: HTTP over a connection that stays open."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from types import TracebackType
from typing import Any, Self


class ServerProcess:
    """``efc serve`` with these arguments on a free port; what it says is kept."""

    def __init__(self, *arguments: str) -> None:
        self.said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the server
        command = [sys.executable, "-m", "efc", "serve", *arguments, "--port", "0", "--no-open"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.said, text=True)
        self.port = 0

    def ready(self) -> Self:
        """Wait until it answers."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r":(\d+)/", line)
        if found is None:
            raise RuntimeError(f"efc serve did not start: {self.stderr()}")
        self.port = int(found[1])
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        return self

    def stderr(self) -> str:
        """All it has said there."""
        self.said.seek(0)
        return self.said.read()

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """As a polite system would; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()
        self.said.close()


class Connection:
    """One connection, one request after the other."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def ask(self, path: str, body: object = None) -> tuple[int, Any]:
        """The status and the document of an answer; POST if there is a body."""
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        assert self.reader is not None
        content = b"" if body is None else json.dumps(body).encode()
        head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
        if body is not None:
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        self.writer.write(f"{head}\r\n".encode() + content)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)
        told = await self.reader.readexactly(int(length[1]) if length else 0)
        return int(answer.split(None, 2)[1]), json.loads(told) if told[:1] == b"{" else told.decode()

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


def folder_for(name: str) -> tempfile.TemporaryDirectory[str]:
    """A folder of its own, on a disk."""
    return tempfile.TemporaryDirectory(prefix=f"efc-{name}-", dir=os.environ.get("TMPDIR"))


def digits() -> tuple[Any, Any]:
    """Training digits as a client has them: lists of 64 numbers, and whole numbers."""
    from efc.data.digits import load

    data = load()
    return (data.x_train * 16).round().tolist(), data.y_train.tolist()
