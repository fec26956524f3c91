"""The description is that of the routes, and an answer is as it says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from efc.serve.metrics import Traffic
from efc.serve.openapi import describe, docs_page
from efc.serve.routes import Routes
from efc.serve.samples import Limits
from efc.serve.service import Making, Service, Settings
from support.serving import Served, samples, serving


@pytest.mark.parametrize("demo", [False, True])
def test_what_is_described_is_what_there_is(demo: bool, tmp_path: Path) -> None:
    making = Making(features=64, hidden=(4,))
    service = Service(Settings(tmp_path / "m.safetensors", making, demo=demo))
    routes = {(route.path, *sorted(route.methods - {"HEAD"})) for route in Routes(service, Traffic()).all()}  # type: ignore[attr-defined]
    service.close()
    paths = describe(64, Limits(), demo)["paths"]
    assert routes == {(path, *(method.upper() for method in found)) for path, found in paths.items()}


def wrong(value: Any, schema: Mapping[str, Any]) -> Iterator[str]:
    """Where a document is not as its schema says: as much of JSON Schema as the description uses."""
    if "oneOf" in schema:
        fitting = [one for one in schema["oneOf"] if not list(wrong(value, one))]
        if len(fitting) != 1:
            yield f"{value!r} fits {len(fitting)} of {schema['oneOf']}"
        return
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "null": type(None)}
    types = schema.get("type", list(kinds))
    types = [types] if isinstance(types, str) else types
    if not any(isinstance(value, kinds[kind]) for kind in types):  # type: ignore[arg-type]
        yield f"{value!r} is no {types}"
    if isinstance(value, dict) and "properties" in schema:
        missing, more = set(schema["required"]) - value.keys(), value.keys() - schema["properties"].keys()
        if missing or more:
            yield f"missing {missing}, undescribed {more}"
        for name in value.keys() & schema["properties"].keys():
            yield from wrong(value[name], schema["properties"][name])
    if isinstance(value, list) and "items" in schema:
        for item in value:
            yield from wrong(item, schema["items"])


def test_answers_are_as_described(tmp_path: Path) -> None:
    with serving(tmp_path / "m.safetensors", "--beside", "sgd") as served:
        about = served.get("/openapi.json")
        x, y = samples(30)
        for path, body in (
            ("/predict", {"inputs": x}), ("/learn?wait=1", {"inputs": x, "labels": y}), ("/learn", {"input": x[0]}),
            ("/predict", {"input": x[0]}), ("/state", None), ("/history", None), ("/snapshot", {}),
        ):  # fmt: skip
            _check(served, about, path, body)
        assert b"<h1>" in served.get("/docs")


def _check(served: Served, about: Mapping[str, Any], path: str, body: object) -> None:
    status, found, _ = served.ask(path, body)
    method = about["paths"][path.partition("?")[0]]["get" if body is None else "post"]
    schema = method["responses"][str(status)]["content"]["application/json"]["schema"]
    assert not list(wrong(found, schema)), path
    if body and status < 300:
        asked = method["requestBody"]["content"]["application/json"]["schema"]
        assert not list(wrong(body, asked)), path


def test_the_check_can_tell() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert not list(wrong({"a": 1}, schema))
    assert list(wrong({"a": "1"}, schema))
    assert list(wrong({}, schema))
    assert list(wrong({"a": 1, "b": 2}, schema))


def test_the_page_names_every_address_and_needs_nothing_from_elsewhere() -> None:
    about = describe(4, Limits(), demo=True)
    page = docs_page(about)
    assert all(f"{path}</code></h2>" in page for path in about["paths"])
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    assert "style=" not in page
    json.dumps(about, allow_nan=False)
