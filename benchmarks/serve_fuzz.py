"""Requests that nobody should send: broken HTTP and JSON, numbers that are none, too much, too slow, too foreign."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from collections.abc import Callable

PATHS = (
    "/predict", "/learn", "/state", "/history", "/snapshot", "/metrics", "/openapi.json", "/docs", "/", "/demo/lesson",
    "/static/index.html", "/static/../../pyproject.toml", "/static/%2e%2e%2fservice.py", "//", "/%00", "/learn?wait=1",
    "/learn?wait=%ff", "/predict/", "/../etc/passwd", "/static/", "/state?x=" + "a" * 5000, "*", "http://evil/", "",
)  # fmt: skip
METHODS = (
    "GET",
    "POST",
    "PUT",
    "DELETE",
    "HEAD",
    "OPTIONS",
    "PATCH",
    "TRACE",
    "CONNECT",
    "get",
    "G\0ET",
    "",
    "A" * 300,
)
VALUES = (
    0, 1.5, -1, True, False, None, "1", "", "nan", [], {}, [[]], 1e308, -1e308, 1e400, 10**400, float("nan"),
    float("inf"), 2**63, -(2**63), 1e16, "\0", "\ud800", "é" * 200, "\u202e", " 7", "7 ", {"a": 1}, [1, [2]], 3.5,
    1e-320,
)  # fmt: skip
SLOW = 0.01
"""The share of requests that are sent in pieces, or never to their end."""


def _matrix(rng: random.Random) -> object:
    rows, columns = rng.choice((0, 1, 1, 2, 3, 1001)), rng.choice((0, 1, 63, 64, 64, 64, 65))
    found: list[object] = [[rng.choice((0, 1, 16, 0.5)) for _ in range(columns)] for _ in range(rows)]
    if found and rng.random() < 0.6:
        row = found[rng.randrange(len(found))]
        if isinstance(row, list) and row:
            row[rng.randrange(len(row))] = rng.choice(VALUES)
    if found and rng.random() < 0.1:
        found[rng.randrange(len(found))] = rng.choice(VALUES)
    return found if rng.random() < 0.9 else rng.choice(VALUES)


def _document(rng: random.Random) -> object:
    found: dict[str, object] = {}
    if rng.random() < 0.8:
        found["inputs"] = _matrix(rng)
    if rng.random() < 0.3:
        found["input"] = rng.choice(([0] * 64, [1] * 63, rng.choice(VALUES)))
    if rng.random() < 0.7:
        n = len(found["inputs"]) if isinstance(found.get("inputs"), list) else 1  # type: ignore[arg-type]
        found["labels"] = [rng.choice((*VALUES, *range(10))) for _ in range(n)] if rng.random() < 0.5 else [1] * n
    if rng.random() < 0.3:
        found["label"] = rng.choice((*VALUES, 3, 11))
    if rng.random() < 0.2:
        found["samples"] = rng.choice((*VALUES, 1))
    if rng.random() < 0.1:
        found[rng.choice(("__class__", "x" * 1000, "\ud800"))] = rng.choice(VALUES)
    return found if rng.random() < 0.95 else rng.choice(VALUES)


def _body(rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.6:
        data = json.dumps(_document(rng)).encode()
    elif kind < 0.65:
        data = b"[" * rng.choice((10, 1000, 100_000))
    elif kind < 0.7:
        data = b'{"inputs":' + b'{"a":' * 50_000
    elif kind < 0.75:
        data = b'{"label":' + b"9" * 10_000 + b"}"
    elif kind < 0.8:
        data = rng.randbytes(rng.choice((0, 1, 100, 5000)))
    elif kind < 0.805:
        data = b'{"inputs":[[' + b"0," * 3_000_000 + b"0]]}"
    elif kind < 0.85:
        data = b'{"input":[' + b"0," * 63 + b'0],"input":[1],"label":1}'
    else:
        data = json.dumps({"input": [1] * 64, "label": 1}).encode()
    if rng.random() < 0.2 and data:
        at = rng.randrange(len(data))
        data = data[:at] + rng.choice((b"", b"\0", b"\xff", b'"', b"}", b"NaN", b"\xed\xa0\x80")) + data[at + 1 :]
    return data


def request(rng: random.Random, port: int) -> bytes:
    """One request, or something that is none."""
    if rng.random() < 0.05:
        return rng.randbytes(rng.choice((1, 10, 200, 70_000)))
    method = rng.choice(METHODS) if rng.random() < 0.25 else "POST"
    path = rng.choice(PATHS) if rng.random() < 0.4 else rng.choice(PATHS[:2])
    body = _body(rng)
    headers = {"Host": f"127.0.0.1:{port}", "Content-Type": "application/json", "Content-Length": str(len(body))}
    changes: list[Callable[[], object]] = [
        lambda: headers.update(Host=rng.choice(("evil.example", "", "127.0.0.1.evil.example", "[::1", "a" * 300))),
        lambda: headers.update(Origin=rng.choice(("http://evil.example", "null", "http://[", ""))),
        lambda: headers.update({"Content-Length": rng.choice(("-1", "x", "9" * 30, "0", str(len(body) + 5), "1e3"))}),
        lambda: headers.update({"Content-Type": rng.choice(("text/plain", "", "multipart/form-data", "a" * 200))}),
        lambda: headers.update({"Transfer-Encoding": rng.choice(("chunked", "gzip", "chunked, chunked"))}),
        lambda: headers.update({"Expect": "100-continue"}),
        lambda: headers.update({"Authorization": rng.choice(("Bearer \xff", "Basic x", "Bearer", "x" * 9000))}),
        lambda: headers.update({"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "x"}),
        lambda: headers.update({"X" * rng.choice((1, 5000, 20_000)): "y"}),
        lambda: headers.update({f"X-{k}": "y" for k in range(200)}),
        lambda: headers.pop("Content-Length"),
        lambda: headers.pop("Host"),
    ]
    if rng.random() < 0.3:
        rng.choice(changes)()
    version = rng.choice(("HTTP/1.1", "HTTP/1.0", "HTTP/9.9", "")) if rng.random() < 0.05 else "HTTP/1.1"
    lines = [f"{method} {path} {version}", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    head = rng.choice(("\r\n", "\n")) if rng.random() < 0.05 else "\r\n"
    return head.join(lines).encode("latin-1", "replace") + body


async def send(port: int, data: bytes, rng: random.Random, patience: float) -> str:
    """What came of it: a status, or how the connection ended."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return "no connection"
    try:
        if rng.random() < SLOW:
            for k in range(0, min(len(data), 400), 40):
                writer.write(data[k : k + 40])
                await asyncio.sleep(0.05)
        elif rng.random() < 0.03:
            writer.write(data[: len(data) // 2])
            await writer.drain()
            return "hung up"
        else:
            writer.write(data)
            await writer.drain()
        line = await asyncio.wait_for(reader.readline(), patience)
        return line.split(b" ")[1].decode() if line.startswith(b"HTTP/1.1 ") else "closed"
    except TimeoutError:
        return "waits for more"
    except OSError:
        return "closed"
    finally:
        writer.transport.abort()


async def hostile(port: int, count: int, seed: int, patience: float = 2.0, at_once: int = 16) -> dict[str, int]:
    """Send so many, some of them at once; how often each thing came of it."""
    found: Counter[str] = Counter()
    numbers = iter(range(count))

    async def one_after_the_other() -> None:
        for number in numbers:
            rng = random.Random(seed * 1_000_003 + number)
            data = request(rng, port)
            result = await send(port, data, rng, patience)
            found[result] += 1
            if result == "500" and "EFC_FUZZ_SHOW" in os.environ:
                print(number, data[:2000])

    await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))
    return dict(found)
