"""The interface in words: OpenAPI for programs, a page made from it for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TypeAlias

from efc.environment import code_version
from efc.serve.samples import LARGEST, LONGEST, WHOLE, Document, Limits

Part: TypeAlias = dict[str, object]
"""Of a description."""

KINDS: list[Part] = [
    {"type": "string", "minLength": 1, "maxLength": LONGEST},
    {"type": "integer", "minimum": -WHOLE, "maximum": WHOLE},
]
LABEL: Part = {
    "description": f"A text of at most {LONGEST} characters, or a whole number; one kind for all of a model's classes.",
    "oneOf": KINDS,
}
NUMBER: Part = {"type": "number"}
WHOLE_NUMBER: Part = {"type": "integer"}
TEXT: Part = {"type": "string"}
ERRORS = {
    "400": "The body is not what it should be.",
    "401": "A token is needed, or this is not it.",
    "403": "Asked under another name, or from another site's page.",
    "408": "The body did not arrive in time.",
    "413": "The body is too long, or has more samples than the queue holds.",
    "415": "The body is not said to be application/json.",
    "429": "Too many requests, or a full queue; Retry-After says when to come again.",
    "503": "Nothing can be accepted at the moment.",
}
OF_POST = ("400", "401", "403", "408", "413", "415", "429", "503")
OF_GET = ("401", "403", "429")


def describe(features: int, limits: Limits, demo: bool) -> Part:
    """OpenAPI 3.1 of the service, with the limits it has."""
    sample = {"type": "array", "minItems": features, "maxItems": features, "items": _number(-LARGEST, LARGEST)}
    samples = {"type": "array", "minItems": 1, "maxItems": limits.samples, "items": sample}
    one = _object({"input": sample}, ["input"])
    many = _object({"inputs": samples}, ["inputs"])
    one_more = _object({"input": sample, "label": LABEL}, ["input", "label"])
    many_more = _object({"inputs": samples, "labels": {"type": "array", "items": LABEL}}, ["inputs", "labels"])
    paths: Part = {
        "/predict": _post("Label samples, as far as was learned.", {"oneOf": [many, one]}, 200, PREDICTION),
        "/learn": _post(
            "Learn labelled samples; answered when they are in the journal, on disk.",
            {"oneOf": [many_more, one_more]},
            202,
            ACCEPTED,
            wait=True,
        ),
        "/state": _get("Classes, samples, accuracies, control effort, memory.", STATE),
        "/history": _get("The curves: at most 500 points.", HISTORY),
        "/snapshot": _post("Write the model's file now.", None, 200, SNAPSHOT),
        "/metrics": _get("Figures for Prometheus.", {"type": "string"}, "text/plain"),
    }
    if demo:
        digit = _object({"label": _whole(0, 9), "samples": _whole(1, 100)}, ["label"])
        paths["/demo/lesson"] = _post("Learn the next embedded samples of a digit.", digit, 202, ACCEPTED, wait=True)
    pages = {"/": "The page.", "/docs": "This, for people.", "/openapi.json": "This."}
    for path, purpose in pages.items():
        kind = "application/json" if path.endswith("json") else "text/html"
        paths[path] = {"get": {"summary": purpose, "security": [], "responses": {"200": _content(purpose, {}, kind)}}}
    paths["/static/{name}"] = {
        "get": {
            "summary": "What the page is made of.",
            "security": [],
            "parameters": [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}],
            "responses": {"200": {"description": "A file."}, "404": {"description": "There is none of that name."}},
        }
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "efc serve", "version": code_version(), "summary": "A classifier that goes on learning."},
        "paths": paths,
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],
    }


def _number(least: float, most: float) -> Part:
    return {"type": "number", "minimum": least, "maximum": most}


def _whole(least: int, most: int) -> Part:
    return {"type": "integer", "minimum": least, "maximum": most}


def _list(items: Part) -> Part:
    return {"type": "array", "items": items}


def _object(properties: Mapping[str, object], required: list[str] | None = None) -> Part:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties) if required is None else required,
    }


def _map(values: Part) -> Part:
    return {"type": "object", "additionalProperties": values}


SHARE: Part = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
ERROR = _object({"error": {"type": "string"}})
_TOLD: Part = {"labels": _list({"oneOf": [*KINDS, {"type": "null"}]}), "probabilities": _list(_list(NUMBER))}
PREDICTION = _object(
    _TOLD
    | {
        "classes": _list(LABEL),
        "seen": WHOLE_NUMBER,
        "beside": _object({"method": {"type": "string"}} | _TOLD),
    },
    ["labels", "probabilities", "classes", "seen"],
)
ACCEPTED = _object({"accepted": WHOLE_NUMBER, "sequence": WHOLE_NUMBER, "queued": WHOLE_NUMBER})
SNAPSHOT = _object({"path": {"type": "string"}, "sequence": WHOLE_NUMBER, "bytes": WHOLE_NUMBER})
_CLASSES = _list(
    _object({"label": LABEL, "count": WHOLE_NUMBER, "right": WHOLE_NUMBER, "answered": WHOLE_NUMBER, "accuracy": SHARE})
)
_COUNTS = ("batches", "sequence", "seen")
_PREQUENTIAL = _object({"all": SHARE, "recent": SHARE})
_SIGNALS = {"psi": _list(NUMBER), "gamma": _list(NUMBER)}
STATE = _object(
    {
        "model": {"type": "string"},
        "method": {"type": "string"},
        "features": WHOLE_NUMBER,
        "classes": _CLASSES,
        "seen": WHOLE_NUMBER,
        "queued": WHOLE_NUMBER,
        "sequence": WHOLE_NUMBER,
        "prequential": _PREQUENTIAL,
        "effort": _object(_SIGNALS) | {"type": ["object", "null"]},
        "memory": _object({"state_bytes": WHOLE_NUMBER, "process_bytes": {"type": ["integer", "null"]}}),
        "journal": _object({"bytes": WHOLE_NUMBER, "since_snapshot": WHOLE_NUMBER}),
        "uptime": NUMBER,
        "errors": _object({"batches": WHOLE_NUMBER, "last": {"type": ["string", "null"]}}),
        "findings": _list(_object({"kind": TEXT, "text": TEXT} | dict.fromkeys(_COUNTS, WHOLE_NUMBER))),
        "broken": {"type": ["string", "null"]},
        "beside": _object({"method": {"type": "string"}, "prequential": _PREQUENTIAL, "classes": _CLASSES}),
        "demo": {"type": ["object", "null"]},
    },
    [
        *("model", "method", "features", "classes", "seen", "queued", "sequence", "prequential", "effort", "memory"),
        *("journal", "uptime", "errors", "findings", "broken", "demo"),
    ],
)
HISTORY = _object(
    {
        "points": _list(
            _object(
                {
                    "seen": WHOLE_NUMBER,
                    "recent": SHARE,
                    "beside_recent": SHARE,
                    "psi": {"type": ["array", "null"], "items": NUMBER},
                    "gamma": {"type": ["array", "null"], "items": NUMBER},
                    "per_class": _map(SHARE),
                }
            )
        )
    }
)


def _content(purpose: str, schema: Part, kind: str = "application/json") -> Part:
    return {"description": purpose, "content": {kind: {"schema": schema}}}


def _errors(statuses: tuple[str, ...]) -> Part:
    return {status: _content(ERRORS[status], ERROR) for status in statuses}


def _get(purpose: str, schema: Part, kind: str = "application/json") -> Part:
    return {"get": {"summary": purpose, "responses": {"200": _content("As asked.", schema, kind)} | _errors(OF_GET)}}


def _post(purpose: str, body: Part | None, status: int, answer: Part, wait: bool = False) -> Part:
    found: Part = {
        "summary": purpose,
        "responses": {str(status): _content("Done.", answer)} | _errors(OF_POST),
    }
    if body is not None:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    if wait:
        told = "1: answered when the samples are learned"
        found["parameters"] = [{"name": "wait", "in": "query", "description": told, "schema": _whole(0, 1)}]
    return {"post": found}


def docs_page(about: Document) -> str:
    """The same as a page; it needs nothing from anywhere."""
    return "\n".join(_page(about))


def _page(about: Document) -> Iterator[str]:
    title = escape(f"{about['info']['title']}: {about['info']['summary']}")
    yield f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield '<meta name="color-scheme" content="light dark">'
    yield '<link rel="icon" href="static/icon.svg"><link rel="stylesheet" href="static/page.css"></head>'
    yield f"<body><header><div><h1>{title}</h1><p>Version {escape(about['info']['version'])}. For programs: "
    yield '<a href="openapi.json">openapi.json</a>. The model itself: <a href="./">the page</a>.</p></div></header>'
    yield '<main class="interface">'
    for path, methods in about["paths"].items():
        for method, found in methods.items():
            yield f'<section class="card"><h2><code>{method.upper()} {escape(path)}</code></h2>'
            yield f"<p>{escape(found['summary'])}</p>"
            for parameter in found.get("parameters", []):
                told = escape(parameter.get("description", ""))
                yield f"<p>In the {parameter['in']}: <code>{escape(parameter['name'])}</code> {told}</p>"
            if "requestBody" in found:
                schema = found["requestBody"]["content"]["application/json"]["schema"]
                shapes = [f"<code>{escape(_shape(one))}</code>" for one in schema.get("oneOf", [schema])]
                yield f"<p>Body: {' or '.join(shapes)}</p>"
            yield "<dl>"
            for status, answer in found["responses"].items():
                schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
                shape = f" <code>{escape(_shape(schema))}</code>" if schema and status < "300" else ""
                yield f"<dt>{status}</dt><dd>{escape(answer['description'])}{shape}</dd>"
            yield "</dl></section>"
    yield "</main></body></html>"


def _shape(schema: Document) -> str:
    """A schema in one line."""
    if "properties" in schema:
        return "{" + ", ".join(f'"{name}": {_shape(part)}' for name, part in schema["properties"].items()) + "}"
    if "items" in schema:
        length = schema.get("minItems")
        exact = length is not None and length == schema.get("maxItems")
        return f"[{_shape(schema['items'])}, ...{f' ({length})' if exact else ''}]"
    if "additionalProperties" in schema:
        return f'{{"...": {_shape(schema["additionalProperties"])}}}'
    if "oneOf" in schema:
        return " | ".join(_shape(one) for one in schema["oneOf"])
    kind = schema.get("type", "any")
    return kind if isinstance(kind, str) else " | ".join(kind)
