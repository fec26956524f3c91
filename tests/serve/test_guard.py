"""Who may ask, how much and how fast, over a real connection."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from efc.serve.guard import CLIENTS, HEADERS, Rates
from support.serving import Served, serving

TOKEN = "a token that nobody guesses"
FOUR = {"input": [0, 1, 2, 3]}


@pytest.fixture(scope="module")
def open_(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("open") / "m.safetensors") as served:
        yield served


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("closed") / "m.safetensors", EFC_SERVE_TOKEN=TOKEN) as served:
        yield served


def test_without_the_token_nothing_is_told(closed: Served) -> None:
    for path in ("/state", "/history", "/metrics", "/nowhere"):
        status, found, headers = closed.ask(path)
        assert (status, headers["www-authenticate"]) == (401, "Bearer")
        assert "a token is needed" in found["error"]
    assert closed.ask("/learn", FOUR | {"label": 1})[0] == 401
    wrong = (TOKEN[:-1], TOKEN + " x", "", "é")
    for given in wrong:
        status, found, _ = closed.ask("/state", headers={"Authorization": f"Bearer {given}"})
        assert status == 401, given
    assert closed.ask("/state", headers={"Authorization": f"Basic {TOKEN}"})[0] == 401
    for path in ("/docs", "/openapi.json"):
        assert closed.ask(path)[0] == 200
    given = {"Authorization": f"Bearer {TOKEN}"}
    assert closed.ask("/learn?wait=1", FOUR | {"label": 1}, given)[0] == 202
    assert closed.ask("/state", headers=given)[1]["seen"] == 1


def test_who_tries_many_tokens_has_to_wait(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving(tmp_path_factory.mktemp("guessed") / "m.safetensors", EFC_SERVE_TOKEN=TOKEN) as served:
        statuses = {served.ask("/state", headers={"Authorization": f"Bearer {k}"})[0] for k in range(200)}
        assert statuses == {401, 429}
        assert served.ask("/state", headers={"Authorization": f"Bearer {TOKEN}"})[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "[::1", "localhost@evil.example", ""])
def test_a_name_that_is_not_this_machines_is_refused(host: str, open_: Served) -> None:
    """A page elsewhere whose name was made to point here: DNS rebinding."""
    status, found, _ = open_.ask("/state", headers={"Host": host})
    assert status == 403, found
    assert "Host" in found["error"]


def test_names_of_this_machine_are_answered(open_: Served) -> None:
    for host in (f"localhost:{open_.port}", f"127.0.0.1:{open_.port}", "[::1]:80", "LOCALHOST"):
        assert open_.ask("/state", headers={"Host": host})[0] == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://[", "http://localhost:1"])
def test_pages_of_other_sites_are_refused(origin: str, open_: Served) -> None:
    for body in (None, FOUR):
        status, found, _ = open_.ask("/predict" if body else "/state", body, {"Origin": origin})
        assert status == 403, found
        assert "Origin" in found["error"]
    assert open_.ask("/predict", FOUR, {"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert open_.ask("/predict", FOUR, {"Origin": f"http://127.0.0.1:{open_.port}"})[0] == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_forms_of_other_sites_cannot_post(kind: str, open_: Served) -> None:
    status, found, _ = open_.ask("/learn", json.dumps(FOUR | {"label": 1}).encode(), {"Content-Type": kind})
    assert status == 415, found


def test_a_body_that_is_too_long_is_refused_before_it_is_read(open_: Served) -> None:
    head = f"POST /learn HTTP/1.1\r\nHost: localhost:{open_.port}\r\nContent-Type: application/json\r\n"
    told = open_.raw(f"{head}Content-Length: 999999999999\r\n\r\n".encode())
    assert told.startswith(b"HTTP/1.1 413 ")
    piece = b"10000\r\n" + b" " * 65536 + b"\r\n"
    told = open_.raw(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + 65 * piece)
    assert told.startswith(b"HTTP/1.1 413 ")


def test_every_answer_carries_the_headers(open_: Served) -> None:
    for path in ("/state", "/docs", "/nowhere", "/static/nothing.js"):
        headers = open_.ask(path)[2]
        assert HEADERS.items() <= headers.items()
        assert "server" not in headers
    assert "default-src 'self'" in HEADERS["content-security-policy"]


def test_who_asks_too_often_is_told_when_to_come_again(tmp_path_factory: pytest.TempPathFactory) -> None:
    with serving(tmp_path_factory.mktemp("rate") / "m.safetensors", "--rate", "1") as served:
        found = [served.ask("/state") for _ in range(20)]
        late = [(status, told, headers) for status, told, headers in found if status != 200]
        assert late
        assert all(status == 429 and "at most 1 a second" in told["error"] for status, told, _ in late)
        assert all(int(headers["retry-after"]) >= 1 for _, _, headers in late)


def test_buckets_fill_with_time_and_are_bounded() -> None:
    rates = Rates(2.0, 3.0)
    assert [rates.wait("a", 0.0) for _ in range(3)] == [0.0, 0.0, 0.0]
    assert rates.wait("a", 0.0) == pytest.approx(0.5)
    assert rates.wait("b", 0.0) == 0.0
    assert rates.wait("a", 0.25) == pytest.approx(0.25)
    assert rates.wait("a", 0.5) == 0.0
    assert [rates.wait("a", 100.0) for _ in range(4)][-1] > 0, "it fills up to three, not for ever"
    for k in range(2 * CLIENTS):
        rates.wait(str(k), 100.0)
    assert len(rates.buckets) == CLIENTS
