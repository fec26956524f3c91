"""A real server: signals, kill -9, a full disk, slow and broken clients, predictions while it learns."""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import re
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from efc.classifiers.file_format import read
from efc.errors import EFCError
from efc.serve.guard import KNOWN
from efc.serve.journal import replay
from efc.serve.learning import learn
from efc.serve.pupil import Pupil, begun
from efc.serve.replies import reply
from efc.serve.server import CONNECTIONS, Patient, is_loopback, listening
from support.serving import Served, batches, samples, serving

JOURNAL = "m.safetensors.journal"


def kept(file: Path) -> tuple[dict[str, bytes], object]:
    state, about = read(file)
    return {key: value.numpy().tobytes() for key, value in state.items()}, about


def test_what_was_accepted_survives_kill_9(tmp_path: Path) -> None:
    """Killed three times while three connections teach; the end is the journal replayed from its beginning."""
    model, accepted, rng = tmp_path / "m.safetensors", dict[int, object](), random.Random(0)
    arguments = ("--beside", "sgd", "--keep-journal", "--snapshot-every", "60")
    for number in range(3):
        with serving(model, *arguments) as served:
            teachers = [threading.Thread(target=_teach, args=(served, 10 * number + k, accepted)) for k in range(3)]
            before, wanted = len(accepted), rng.randint(5, 40)
            for teacher in teachers:
                teacher.start()
            served.command.wait_for(lambda: len(accepted) >= before + wanted)  # noqa: B023
            served.kill()
            for teacher in teachers:
                teacher.join()
    with serving(model, *arguments) as served:
        assert served.get("/state")["seen"] >= sum(len(body["labels"]) for body in accepted.values())  # type: ignore[index]
        served.end()
    pupil, beside, there = Pupil(begun("efc", (8,), None, 0)), Pupil(begun("sgd", (8,), None, 0)), {}
    for record in replay(tmp_path / JOURNAL, 4):
        there[record.sequence] = {"inputs": record.x.tolist(), "labels": list(record.labels)}
        learn(record, pupil, beside)
    assert {number: there.get(number) for number in accepted} == accepted
    journal = Pupil.load(model)[1]
    for one, file in ((pupil, model), (beside, tmp_path / JOURNAL / "beside.safetensors")):
        one.save(tmp_path / "again", journal)
        assert kept(tmp_path / "again") == kept(file)


def _teach(served: Served, seed: int, accepted: dict[int, object]) -> None:
    """Until the server is dead."""
    try:
        for x, y in batches(3000, seed):
            accepted[served.learn(x, y, wait=False)["sequence"]] = {"inputs": x, "labels": y}
    except (OSError, HTTPException):
        return


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_everything_learned_and_written(number: int, tmp_path: Path) -> None:
    with serving(tmp_path / "m.safetensors") as served:
        x, y = samples(300)
        for k in range(0, 300, 30):
            served.learn(x[k : k + 30], y[k : k + 30], wait=False)
        said = served.end(number)
    assert said.splitlines()[-1] == f"efc: interrupted; what was accepted is in {tmp_path / 'm.safetensors'}"
    assert Pupil.load(tmp_path / "m.safetensors")[0].measures.seen == 300
    with serving(tmp_path / "m.safetensors") as served:
        state = served.get("/state")
        assert (state["seen"], state["journal"]["since_snapshot"]) == (300, 0)
        assert "0 batches from the journal" in served.command.said


def test_predictions_go_on_while_it_learns(tmp_path: Path) -> None:
    """One batch takes long; meanwhile every question is answered, and by what was known before it."""
    with serving(tmp_path / "m.safetensors", "--hidden", "600") as served:
        x, y = samples(1000)
        served.learn(x[:20], y[:20])
        during = []
        served.learn(x, y, wait=False)
        while served.get("/state")["seen"] == 20:
            _, found, _ = served.ask("/predict", {"inputs": x[:2]})
            during.append(found)
        assert sum(found["seen"] == 20 for found in during) >= 3
        assert served.ask("/predict", {"inputs": x[:2]})[1]["seen"] == 1020


def test_a_full_queue_is_a_429_and_nothing_of_it_is_kept(tmp_path: Path) -> None:
    with serving(tmp_path / "m.safetensors", "--queue", "250", "--hidden", "600") as served:
        x, y = samples(1000)
        refused, taken = None, 0
        while refused is None:
            status, found, headers = served.ask("/learn", {"inputs": x[:100], "labels": y[:100]})
            taken += 100 * (status == 202)
            refused = (status, found, headers) if status != 202 else None
        status, found, headers = refused
        assert (status, int(headers["retry-after"])) == (429, 1)
        assert "queue of 250 samples is full" in found["error"]
        status, found, _ = served.ask("/learn", {"inputs": x[:300], "labels": y[:300]})
        assert (status, "at most 250" in found["error"]) == (413, True), "a batch that never fits"
        served.learn(x[:1], y[:1])
        assert served.get("/state")["seen"] == taken + 1


def test_a_full_disk_is_a_503_and_predictions_go_on(tmp_path: Path) -> None:
    with serving(tmp_path / "m.safetensors", "--hidden", "60", largest=20_000) as served:
        x, y = samples(2000)
        accepted, status = 0, 202
        while status == 202:
            some = slice(accepted, accepted + 50)
            status, found, _ = served.ask("/learn?wait=1", {"inputs": x[some], "labels": y[some]})
            accepted += 50 * (status == 202)
        assert status == 503
        assert "nothing was accepted" in found["error"]
        assert served.ask("/predict", {"input": x[0]})[1]["seen"] == accepted
        assert served.ask("/learn", {"input": x[0], "label": 1})[0] == 202, "for a small one there is room"
        status, found, _ = served.ask("/snapshot", {})
        assert (status, "cannot write" in found["error"]) == (503, True)
        served.kill()
    with serving(tmp_path / "m.safetensors", "--hidden", "60") as served:
        assert served.get("/state")["seen"] == accepted + 1


def test_clients_that_are_slow_or_go_away_harm_nobody(tmp_path: Path) -> None:
    with serving(tmp_path / "m.safetensors") as served:
        x, y = samples(60)
        served.learn(x, y)
        idle = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(20)]
        for k, one in enumerate(idle):
            one.sendall((b"POST /learn HTTP/1.1\r\nHost: localhost\r\n", b"GE", b"")[k % 3])
        for data in (b"\0" * 100_000, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000, b"\r\n" * 3 + b"X", b"GET\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", served.port)) as one:
                try:
                    one.sendall(data)
                    one.shutdown(socket.SHUT_WR)
                    assert one.recv(100)[:12] in (b"", b"HTTP/1.1 400")
                except ConnectionError:
                    pass
        head = f"POST /learn?wait=1 HTTP/1.1\r\nHost: localhost:{served.port}\r\nContent-Type: application/json\r\n"
        for body in (b'{"inputs"', b'{"input":[1,2,3,4],"label":1}'):
            with socket.create_connection(("127.0.0.1", served.port)) as one:
                one.sendall(head.encode() + f"Content-Length: {len(body) + (len(body) < 12)}\r\n\r\n".encode() + body)
        served.command.wait_for(lambda: served.get("/state")["seen"] == 61)
        for one in idle:
            one.close()
        assert served.ask("/predict", {"input": x[0]})[0] == 200
        served.end()


def test_strangers_do_not_lock_the_owner_out(tmp_path: Path) -> None:
    """More connections than there may be, each of which has asked for a page that needs no token, and stays."""
    with serving(tmp_path / "m.safetensors", EFC_SERVE_TOKEN="open sesame") as served:
        head = f"GET /favicon.ico HTTP/1.1\r\nHost: localhost:{served.port}\r\n\r\n".encode()
        owner, again = (http.client.HTTPConnection("127.0.0.1", served.port, timeout=600) for _ in range(2))
        strangers: list[socket.socket] = []

        def asked(connection: http.client.HTTPConnection) -> int:
            connection.request("GET", "/state", headers={"Authorization": "Bearer open sesame"})
            answer = connection.getresponse()
            answer.read()
            return answer.status

        assert asked(owner) == 200
        for _ in range(CONNECTIONS + 20):
            strangers.append(socket.create_connection(("127.0.0.1", served.port)))
            strangers[-1].sendall(head)
            assert strangers[-1].recv(100).startswith(b"HTTP/1.1 404")
        assert asked(owner) == 200
        assert asked(again) == 200
        for one in (owner, again, *strangers):
            one.close()
        served.end()


async def _asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> tuple[int, bytes]:
    writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head)[1])  # type: ignore[index]
    return int(head.split(b" ")[1]), head + await reader.readexactly(length)


async def _crowd() -> None:
    """Three connections may be there; the application answers some paths late, and knows whoever names itself."""
    late = asyncio.Event()

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"][KNOWN] = "known" in scope["path"]
        if "late" in scope["path"]:
            await late.wait()
        await reply({})(scope, receive, send)

    config = uvicorn.Config(application, http=Patient, lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(lambda: Patient(config, state, {}), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def met(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        one = await asyncio.open_connection("127.0.0.1", port)
        assert (await _asked(*one, path))[0] == 200
        return one

    known, old, new = await met("/known"), await met("/"), await met("/")
    keeps = {connection.known: connection.timeout_keep_alive for connection in state.connections}
    assert keeps[True] > keeps[False]
    fourth = await met("/")  # the stranger that was idle longest makes room
    assert await old[0].read() == b""
    for one in (known, new, fourth):
        assert (await _asked(*one, "/known"))[0] == 200
    waiting = [asyncio.create_task(_asked(*one, "/late")) for one in (known, new, fourth)]
    while sum(not connection.idle for connection in state.connections) < 3:
        await asyncio.sleep(0.01)
    surplus = await asyncio.open_connection("127.0.0.1", port)
    status, told = await _asked(*surplus, "/known")  # nobody can be spared
    assert (status, b"application/json" in told, b"nosniff" in told) == (503, True, True)
    assert json.loads(told.partition(b"\r\n\r\n")[2]) == {"error": "all connections are in use; try again later"}
    assert await surplus[0].read() == b""
    late.set()
    assert [status for status, _ in await asyncio.gather(*waiting)] == [200, 200, 200]
    assert (await _asked(*new, "/"))[0] == 200
    for _, writer in (known, old, new, fourth, surplus):
        writer.close()
    server.close()


def test_where_all_connections_are_taken_the_idle_ones_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("efc.serve.server.CONNECTIONS", 3)
    with ThreadPoolExecutor(1) as thread:  # the browser's tests have a loop running in this one
        thread.submit(asyncio.run, _crowd()).result()


def test_what_is_no_http_is_told_so_as_all_that_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "m.safetensors") as served:
        head, _, body = served.raw(b"this is no HTTP\r\n\r\n").partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 400")
        assert b"x-content-type-options: nosniff" in head
        assert json.loads(body) == {"error": "this is no HTTP request"}


def test_without_a_token_no_body_is_waited_for(tmp_path: Path) -> None:
    with serving(tmp_path / "m.safetensors", EFC_SERVE_TOKEN="open sesame") as served:
        for path in ("/", "/docs", "/favicon.ico", "/state"):
            head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\n"
            with socket.create_connection(("127.0.0.1", served.port), timeout=600) as one:
                one.sendall(head.encode())
                assert one.recv(100)[:12] in (b"HTTP/1.1 200", b"HTTP/1.1 404", b"HTTP/1.1 401"), "not 408"


def test_a_port_that_is_taken_and_a_model_that_is_served_are_one_sentence(tmp_path: Path) -> None:
    with serving(tmp_path / "m.safetensors") as served:
        from support.command import efc

        arguments = ("serve", "n.safetensors", "--features", "4", "--port", str(served.port))
        done = efc(*arguments, cwd=tmp_path, timeout=600)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "cannot listen" in done.stderr
        assert not (tmp_path / "n.safetensors.journal").exists()
        done = efc("serve", "m.safetensors", "--port", "0", cwd=tmp_path, timeout=600)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "another process serves this model" in done.stderr


def test_answers_are_sent_without_delay() -> None:
    """asyncio does so for sockets that are called TCP; with the delay every answer takes 40 ms."""

    async def without_delay() -> bool:
        found = asyncio.get_running_loop().create_future()

        class Seen(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                own = transport.get_extra_info("socket")
                found.set_result(bool(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))

        with listening("127.0.0.1", 0) as sock:
            server = await asyncio.get_running_loop().create_server(Seen, sock=sock)
            _, writer = await asyncio.open_connection("127.0.0.1", sock.getsockname()[1])
            result = await found
            writer.close()
            server.close()
        return bool(result)

    with ThreadPoolExecutor(1) as thread:  # the browser's tests have a loop running in this one
        assert thread.submit(asyncio.run, without_delay()).result()


def test_which_addresses_are_this_machines_alone() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "localhost", "::1", "127.8.8.8")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.1.1", "example.org", "", "localhost.example.org")))
    with pytest.raises(EFCError, match="cannot listen"):
        listening("256.1.1.1", 0)
