"""Answers as JSON, and requests that are not answered as they were meant."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.responses import Response

from efc.errors import EFCError, visible
from efc.serve.journal import NoRoomError
from efc.serve.learning import BrokenError

LONGEST = 500
"""Characters of a sentence."""


class RefusedError(Exception):
    """A request that is refused: the status and one sentence."""

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, dict(headers or {})


def reply(content: Mapping[str, object], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A document."""
    return Response(_encoded(content).encode(), status, headers, "application/json")


def _encoded(value: object) -> str:
    """JSON; of a matrix row by row, so that no other thread has to wait for all of it."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{json.dumps(str(name))}: {_encoded(entry)}' for name, entry in value.items())}}}"
    if isinstance(value, list) and len(value) > 1 and isinstance(value[0], list):
        return f"[{', '.join(map(_encoded, value))}]"
    return json.dumps(value, allow_nan=False)


def refusal(problem: Exception) -> Response:
    """What a client is told of what went wrong with its request."""
    if isinstance(problem, RefusedError):
        return error(problem.status, problem.sentence, problem.headers)
    if isinstance(problem, NoRoomError | BrokenError):
        return error(503, str(problem), {"retry-after": "10"})
    if isinstance(problem, EFCError):
        return error(400, str(problem))
    if isinstance(problem, HTTPException):
        told = {404: "there is no such address", 405: "this address does not take that method"}
        sentence = f"{told.get(problem.status_code, problem.detail)}; /docs lists what there is"
        return error(problem.status_code, sentence, problem.headers)
    return error(500, "the service has made a mistake; its log says which")


def error(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    """One sentence."""
    return reply({"error": visible(sentence, keep="")[:LONGEST]}, status, headers)
