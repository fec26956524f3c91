"""What each address answers, asked over a real connection."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from starlette.requests import Request
from starlette.types import Message

from efc import EFCClassifier
from efc.serve.metrics import Traffic
from efc.serve.replies import reply
from efc.serve.routes import Routes
from efc.serve.service import Making, Service, Settings
from support.serving import Served, samples, serving


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("routes")


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    """Before anything was learned it says so; then it has learned 90 samples of three classes."""
    with serving(folder / "m.safetensors", "--beside", "sgd") as found:
        told = found.ask("/predict", {"inputs": [[1, 2, 3, 4]]})[1]
        assert (told["labels"], told["classes"], told["probabilities"]) == ([None], [], [[]])
        assert found.ask("/snapshot", {})[0] == 400
        x, y = samples(90)
        assert found.learn(x, y) == {"accepted": 90, "sequence": 1, "queued": 0}
        yield found


def test_what_takes_long_is_read_beside_the_others(tmp_path: Path) -> None:
    """A long body in a thread of its own, a short one at once."""
    service = Service(Settings(tmp_path / "m.safetensors", Making(features=4)))
    routes = Routes(service, Traffic())

    async def read(body: bytes) -> int:
        async def receive() -> Message:
            return {"type": "http.request", "body": body}

        request = Request({"type": "http", "method": "POST", "path": "/", "headers": []}, receive)
        return await routes._read(request, lambda found: threading.get_ident() * bool(found))

    with ThreadPoolExecutor(1) as thread:  # the browser's tests have a loop running in this one
        own = thread.submit(threading.get_ident).result()
        found = [thread.submit(asyncio.run, read(b'{"inputs": [' + b"1, " * n + b"1]}")).result() for n in (1, 2**16)]
    service.close()
    assert found[0] == own != found[1] != 0


def test_answers_are_whole_however_large(served: Served) -> None:
    x, _ = samples(1000, seed=2)
    told = served.ask("/predict", {"inputs": x})[1]
    few = served.ask("/predict", {"inputs": x[:32]})[1]
    assert few["probabilities"] == told["probabilities"][:32]
    assert [len(row) for row in told["probabilities"]] == [3] * 1000
    for content in ({}, {"a": {}, "b": [[1, 2], [], [None]], "c": [["x"]], "d": [1, [2]], "e": {"f": [[0.5]] * 3}}):
        assert json.loads(reply(content).body) == content


def test_it_predicts_what_the_file_predicts(served: Served, folder: Path) -> None:
    x, _ = samples(50, seed=1)
    status, found, _ = served.ask("/predict", {"inputs": x})
    written = served.ask("/snapshot", {})[1]
    assert status == 200
    assert written["bytes"] == Path(written["path"]).stat().st_size
    for file, told in ((folder / "m.safetensors", found),):
        loaded = EFCClassifier.load(file)
        assert told["labels"] == loaded.predict(x).tolist()
        assert np.allclose(told["probabilities"], loaded.predict_proba(x), rtol=1e-12)
        assert told["classes"] == loaded.classes_.tolist() == [0, 1, 2]
    assert found["seen"] >= 90
    assert found["beside"]["method"] == "sgd"
    assert len(found["beside"]["labels"]) == 50
    assert served.ask("/predict", {"input": x[0]})[1]["probabilities"] == found["probabilities"][:1]


@pytest.mark.parametrize(
    ("path", "body", "names"),
    [
        ("/predict", {}, "inputs"), ("/predict", {"input": [1, 2]}, "4 numbers, got 2"), ("/predict", [], "object"),
        ("/learn", {"input": [1, 2, 3, 4]}, "labels"), ("/learn", {"input": [1, 2, 3, 4], "label": "x"}, "are numbers"),
        ("/learn", {"inputs": [[1, 2, 3, 4]] * 1001, "labels": [1] * 1001}, "at most 1000"),
        ("/learn", {"inputs": [[1, 2, 3, 1e99]], "labels": [1]}, "1e"), ("/learn", b"\xff", "JSON"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_and_is_not_journaled(path: str, body: object, names: str, served: Served) -> None:
    before = served.get("/state")["sequence"]
    status, found, _ = served.ask(path, body)
    assert (status, list(found)) == (400, ["error"])
    assert names in found["error"]
    assert "\n" not in found["error"]
    assert len(found["error"]) <= 500
    assert served.get("/state")["sequence"] == before


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/nowhere", "GET", 404), ("/static/nothing.js", "GET", 404), ("/static/..%2fservice.py", "GET", 404),
        ("/static/%2e%2e/service.py", "GET", 404), ("/static/", "GET", 404), ("/predict", "GET", 405),
        ("/state", "DELETE", 405), ("/demo/lesson", "GET", 404), ("//state", "GET", 404), ("/state/", "GET", 404),
    ],
)  # fmt: skip
def test_addresses_that_are_none(path: str, method: str, status: int, served: Served) -> None:
    found = served.ask(path, method=method)
    assert found[0] == status, found
    assert "there is" in found[1]["error"]


def test_head_answers_without_a_body(served: Served) -> None:
    status, body, _ = served.ask("/state", method="HEAD")
    assert (status, body) == (200, b"")


def test_a_text_among_numbers_and_too_many_classes(tmp_path: Path) -> None:
    with serving(tmp_path / "m.safetensors") as served:
        x = np.random.default_rng(0).normal(size=(1000, 4)).tolist()
        served.learn(x, [f"class {k}" for k in range(1000)])
        status, found, _ = served.ask("/learn", {"input": x[0], "label": "one more"})
        assert (status, "1000 classes" in found["error"]) == (400, True)
        assert served.ask("/learn?wait=1", {"input": x[0], "label": "class 7"})[0] == 202
        assert served.get("/state")["classes"][0]["label"] == "class 0"


def test_a_batch_that_was_refused_leaves_no_label_behind(tmp_path: Path) -> None:
    with serving(tmp_path / "m.safetensors", "--queue", "5") as served:
        six = {"inputs": [[1, 2, 3, 4]] * 6, "labels": ["x"] * 6}
        status, found, _ = served.ask("/learn", six)
        assert (status, "at most 5 at a time" in found["error"]) == (413, True)
        served.learn([[1, 2, 3, 4]], [1])
        assert [c["label"] for c in served.get("/state")["classes"]] == [1]


def test_a_batch_that_cannot_be_learned_is_counted_and_the_service_goes_on(tmp_path: Path) -> None:
    """Plain gradient descent on inputs of any size diverges; a restart skips the same batch."""
    classifier = _fragile()
    classifier.save(tmp_path / "m.safetensors")
    with serving(tmp_path / "m.safetensors") as served:
        x, y = samples(200)
        served.learn(x[:40], y[:40])
        bad = (np.random.default_rng(0).normal(size=(600, 4)) * 1e14).tolist()
        served.learn(bad, [0, 1] * 300)
        errors = served.get("/state")["errors"]
        assert errors["batches"] == 1
        assert "no longer finite" in errors["last"]
        served.learn(x[40:], y[40:])
        told = served.ask("/predict", {"inputs": x})[1]
        assert told["seen"] == served.get("/state")["seen"] == 200
        served.kill()
    with serving(tmp_path / "m.safetensors") as served:
        assert served.get("/state")["errors"] == errors
        assert served.ask("/predict", {"inputs": x})[1] == told


def _fragile() -> object:
    from efc import ContinualClassifier

    raw = {"standardise": False, "options": {"optimiser": "sgd"}, "mode": "stream", "random_state": 0}
    x, y = samples(600, seed=3)
    return ContinualClassifier("sgd", hidden_layer_sizes=8, **raw).partial_fit(x, y)  # type: ignore[arg-type]


SEED = 7
VALUES = (0, -1, 1.5, True, None, "a", "", [], {}, [[]], 1e308, "\ud800", 2**70, [1, 2, 3, 4], "1")


@pytest.mark.parametrize("number", range(3))
def test_random_documents_never_make_a_mistake_of_ours(number: int, served: Served) -> None:
    """Thousands more: benchmarks/serve.py --only fuzz."""
    rng = random.Random(1000 * SEED + number)
    for _ in range(60):
        body: dict[str, object] = {}
        for name in ("inputs", "input", "labels", "label", "x"):
            if rng.random() < 0.4:
                rows = [[rng.choice((1, 2, *VALUES)) for _ in range(rng.choice((0, 3, 4)))] for _ in range(2)]
                body[name] = rng.choice((*VALUES, rows, [1, 2], ["a", "b"]))
        data = json.dumps(body).encode()
        at = rng.randrange(len(data))
        data = data if rng.random() < 0.7 else data[:at] + rng.randbytes(2) + data[at:]
        status, found, _ = served.ask(rng.choice(("/predict", "/learn")), data)
        assert status in (200, 202, 400), (data, status, found)
    assert served.ask("/predict", {"input": [1, 2, 3, 4]})[0] == 200
    assert "mistake" not in served.command.said
