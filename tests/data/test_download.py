"""Downloads against a real HTTP server on loopback that can be told to misbehave."""

from __future__ import annotations

import hashlib
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from efc.data.download import RemoteFile, fetch
from efc.data.store import fetch_file
from efc.data.transport import Limits, SourceError
from efc.errors import EFCError

CONTENT = bytes(range(256)) * 8000  # 2 MB
LIMITS = Limits(sleep=lambda seconds: None)


@dataclass
class Server:
    """What to serve, how badly, and what was asked for."""

    url: str = ""
    cut_after: list[int] = field(default_factory=list)
    """For each coming request: break the connection after so many bytes of the body."""
    ranges: bool = True
    missing: bool = False
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    sent: int = 0


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append((self.path, wanted))
            if state.missing or self.path.startswith("/missing"):
                self.send_error(404)
                return
            start = 0
            if wanted and state.ranges:
                start = int(re.fullmatch(r"bytes=(\d+)-", wanted).group(1))  # type: ignore[union-attr]
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
            else:
                self.send_response(200)
            body = CONTENT[start:]
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            cut = state.cut_after.pop(0) if state.cut_after else None
            body = body[:cut]
            state.sent += len(body)  # before the client can be done
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, daemon=True)
    thread.start()
    yield state
    http.shutdown()
    http.server_close()


def remote(*urls: str, content: bytes = CONTENT, size: int | None = len(CONTENT)) -> RemoteFile:
    return RemoteFile("file.bin", f"md5:{hashlib.md5(content).hexdigest()}", size, urls)


def test_plain_success_and_nothing_is_fetched_twice(server: Server, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    path = fetch(remote(f"{server.url}/a"), tmp_path, lambda *at: seen.append(at))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == ("file.bin", len(CONTENT), len(CONTENT))
    assert [at[1] for at in seen] == sorted(at[1] for at in seen)
    fetch(remote(f"{server.url}/a"), tmp_path)
    assert len(server.asked) == 1
    assert [f.name for f in tmp_path.iterdir()] == ["file.bin"]


@pytest.mark.parametrize("size", [None, len(CONTENT)])
def test_a_cut_connection_is_resumed_where_it_broke(server: Server, tmp_path: Path, size: int | None) -> None:
    server.cut_after = [700_000, 600_000]
    assert fetch(remote(f"{server.url}/a", size=size), tmp_path, limits=LIMITS).read_bytes() == CONTENT
    assert [wanted for _, wanted in server.asked] == [None, "bytes=700000-", "bytes=1300000-"]
    assert server.sent == len(CONTENT)


def test_a_part_from_an_earlier_process_is_resumed(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1_500_000])
    assert fetch(remote(f"{server.url}/a"), tmp_path).read_bytes() == CONTENT
    assert server.sent == len(CONTENT) - 1_500_000


def test_a_connection_that_always_breaks_gives_up_and_keeps_the_part(server: Server, tmp_path: Path) -> None:
    server.cut_after = [1000] + [0] * 50
    with pytest.raises(SourceError, match="1000 bytes are kept"):
        fetch(remote(f"{server.url}/a"), tmp_path, limits=LIMITS)
    assert (tmp_path / "file.bin.part").read_bytes() == CONTENT[:1000]


def test_a_server_that_ignores_ranges(server: Server, tmp_path: Path) -> None:
    server.ranges, server.cut_after = False, [500_000]
    assert fetch(remote(f"{server.url}/a"), tmp_path, limits=LIMITS).read_bytes() == CONTENT
    assert server.sent == 500_000 + len(CONTENT)


def test_a_wrong_checksum_is_refused_and_leaves_nothing(server: Server, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="wrong checksum"):
        fetch(remote(f"{server.url}/a", content=b"something else"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_spoilt_part_does_not_spoil_the_file(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.bin.part").write_bytes(b"x" * 1_000_000)
    assert fetch(remote(f"{server.url}/a"), tmp_path).read_bytes() == CONTENT
    assert len(server.asked) == 2


def test_the_next_mirror_is_tried(server: Server, tmp_path: Path) -> None:
    path = fetch(remote(f"{server.url}/missing", "http://127.0.0.1:9/nobody", f"{server.url}/a"), tmp_path)
    assert path.read_bytes() == CONTENT


def test_when_every_mirror_fails_each_reason_is_named(server: Server, tmp_path: Path) -> None:
    server.missing = True
    file = remote(f"{server.url}/a", "http://127.0.0.1:9/nobody")
    with pytest.raises(EFCError) as failure:
        fetch_file(file, tmp_path)
    text = str(failure.value)
    assert "HTTP 404" in text
    assert "refused" in text
    assert f"by hand in {tmp_path}" in text
    assert file.checksum in text


FETCH = (
    "import sys, pathlib\n"
    "from efc.data.download import RemoteFile\n"
    "from efc.data.store import fetch_file\n"
    "from efc.errors import EFCError\n"
    "try:\n"
    "    fetch_file(RemoteFile('file.bin', sys.argv[3], int(sys.argv[4]), (sys.argv[1],)), pathlib.Path(sys.argv[2]))\n"
    "except EFCError as problem:\n"
    "    sys.exit(f'efc: {problem}')\n"
)


def command(file: RemoteFile, folder: Path) -> list[str]:
    return [sys.executable, "-c", FETCH, file.urls[0], str(folder), file.checksum, str(file.size)]


def test_two_processes_share_one_download(server: Server, tmp_path: Path) -> None:
    workers = [subprocess.Popen(command(remote(f"{server.url}/a"), tmp_path)) for _ in range(2)]
    assert [worker.wait(600) for worker in workers] == [0, 0]
    assert len(server.asked) == 1
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_full_disk_is_one_clear_message_and_keeps_what_there_is(server: Server, tmp_path: Path) -> None:
    """A file-size limit stands in for the full disk: the write itself fails, as it would there."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))

    file = remote(f"{server.url}/a")
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command(file, tmp_path), capture_output=True, text=True, preexec_fn=limit, env=environment)
    assert done.returncode == 1
    assert re.fullmatch(rf"efc: {tmp_path}: File too large \(2 MB are needed\).*kept.*\n", done.stderr), done.stderr
    kept = (tmp_path / "file.bin.part").read_bytes()
    assert 0 < len(kept) <= 1_000_000
    assert kept == CONTENT[: len(kept)]
    assert fetch(file, tmp_path).read_bytes() == CONTENT
    assert server.asked[-1][1] == f"bytes={len(kept)}-"
