"""The whole as one ASGI application: the guard, the routes, and a sentence for whatever goes wrong."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from efc.errors import EFCError
from efc.serve.guard import Access, Guard
from efc.serve.learning import BrokenError
from efc.serve.metrics import Traffic
from efc.serve.replies import RefusedError, refusal
from efc.serve.routes import Routes
from efc.serve.service import Service


def application(service: Service, access: Access, traffic: Traffic) -> Guard:
    """What a server runs."""
    kinds: tuple[type[Exception], ...] = (RefusedError, EFCError, BrokenError, HTTPException, Exception)
    routes = Routes(service, traffic).all()
    inner = Starlette(routes=routes, exception_handlers=dict.fromkeys(kinds, _told))
    inner.router.redirect_slashes = False
    return Guard(inner, access, traffic.count)


async def _told(request: Request, problem: Exception) -> Response:
    return refusal(problem)
