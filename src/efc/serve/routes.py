"""What each address answers: JSON in, JSON out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from typing import TYPE_CHECKING, TypeVar, cast

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from efc.files import Json
from efc.serve.journal import Record
from efc.serve.learning import QueueFullError, Told, View
from efc.serve.metrics import Traffic, exposition
from efc.serve.openapi import describe, docs_page
from efc.serve.replies import RefusedError, reply
from efc.serve.samples import LARGE, Document, Inputs, Label, inputs_of, labels_of, parsed
from efc.serve.service import Service

if TYPE_CHECKING:
    from efc.serve.answers import Answers

T = TypeVar("T")
FEW = 32
"""Samples that are answered at once; more are answered in a thread, so that others need not wait."""
TYPES = {
    "html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml", "png": "image/png", "ico": "image/x-icon", "webmanifest": "application/manifest+json",
    "json": "application/json", "woff2": "font/woff2",
}  # fmt: skip
STATIC = files("efc.serve") / "static"


class Routes:
    """The routes of a service."""

    def __init__(self, service: Service, traffic: Traffic) -> None:
        self.service, self.traffic, self.limits = service, traffic, service.settings.limits
        self.threads = asyncio.Semaphore(2)

    def all(self) -> list[BaseRoute]:
        """Addresses and what answers them."""
        found: list[BaseRoute] = [
            Route("/", self.page, methods=["GET"]),
            Route("/static/{name}", self.static, methods=["GET"]),
            Route("/predict", self.predict, methods=["POST"]),
            Route("/learn", self.learn, methods=["POST"]),
            Route("/state", self.state, methods=["GET"]),
            Route("/history", self.history, methods=["GET"]),
            Route("/snapshot", self.snapshot, methods=["POST"]),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/openapi.json", self.openapi, methods=["GET"]),
            Route("/docs", self.docs, methods=["GET"]),
        ]
        if self.service.lessons is not None:
            found.append(Route("/demo/lesson", self.lesson, methods=["POST"]))
        return found

    async def predict(self, request: Request) -> Response:
        x = await self._read(request, lambda body: inputs_of(body, self.service.features, self.limits))
        view = self.service.teacher.view
        return await self._apart(len(x) > FEW, lambda: self._predicted(view, x))

    def _predicted(self, view: View, x: Inputs) -> Response:
        found = _answered(view.pupil, x) | {"classes": list(view.pupil.classes), "seen": view.pupil.seen}
        if view.beside is not None:
            assert self.service.beside is not None
            found["beside"] = {"method": self.service.beside.method} | _answered(view.beside, x)
        return reply(found)

    async def learn(self, request: Request) -> Response:
        x, labels = await self._read(request, self._samples)
        return await self._taught(request, x, labels)

    def _samples(self, body: Document) -> tuple[Inputs, list[Label]]:
        x = inputs_of(body, self.service.features, self.limits)
        return x, labels_of(body, len(x))

    async def lesson(self, request: Request) -> Response:
        lessons, queue = self.service.lessons, self.service.settings.queue
        assert lessons is not None
        lesson = lessons.asked(await self._read(request, dict), queue)
        return await self._taught(request, lesson.x, lesson.labels, lambda: lessons.take_back(lesson))

    async def _taught(
        self, request: Request, x: Inputs, labels: list[Label], refused: Callable[[], None] = lambda: None
    ) -> Response:
        """Teach; who is not accepted is told so, and ``refused`` is called."""
        waits = request.query_params.get("wait", "0") not in ("0", "false", "")
        accepted, accept = _awaited()
        learned, know = _awaited() if waits else (None, None)
        try:
            self._submit(x, labels, accept, know)
            record = cast(Record, await accepted)
        except Exception:
            refused()
            raise
        if learned is not None:
            await learned
        found = {"accepted": len(labels), "sequence": record.sequence, "queued": self.service.teacher.queued}
        return reply(found, 202)

    def _submit(self, x: Inputs, labels: list[Label], accepted: Told, learned: Told | None) -> None:
        most = self.service.settings.queue
        if len(labels) > most:
            told = f"labels: {len(labels)} samples never fit into the queue; send at most {most} at a time"
            raise RefusedError(413, told)
        try:
            self.service.teacher.submit(x, labels, accepted, learned)
        except QueueFullError:
            told = f"the queue of {most} samples is full; try again later"
            raise RefusedError(429, told, {"retry-after": "1"}) from None

    async def state(self, request: Request) -> Response:
        return reply(self.service.state())

    async def history(self, request: Request) -> Response:
        return reply(self.service.history())

    async def snapshot(self, request: Request) -> Response:
        written, tell = _awaited()
        self.service.teacher.ask_snapshot(tell)
        return reply(cast("dict[str, Json]", await written))

    async def metrics(self, request: Request) -> Response:
        text = exposition(self.service.state(), self.traffic)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def openapi(self, request: Request) -> Response:
        return reply(describe(self.service.features, self.limits, self.service.lessons is not None))

    async def docs(self, request: Request) -> Response:
        about = describe(self.service.features, self.limits, self.service.lessons is not None)
        return Response(docs_page(about), media_type=TYPES["html"])

    async def page(self, request: Request) -> Response:
        return _file("index.html")

    async def static(self, request: Request) -> Response:
        return _file(request.path_params["name"])

    async def _read(self, request: Request, made: Callable[[Document], T]) -> T:
        """What is made of the document in a request's body."""
        body = await request.body()
        return await self._apart(len(body) > LARGE, lambda: made(parsed(body)))

    async def _apart(self, apart: bool, work: Callable[[], T]) -> T:
        """What takes longer is done in a thread, so that others need not wait; not by many at a time."""
        if not apart:
            return work()
        async with self.threads:
            return await asyncio.to_thread(work)


def _answered(answers: Answers, x: Inputs) -> dict[str, object]:
    p = answers.probabilities(x)
    return {"labels": answers.labels(p), "probabilities": p.tolist()}


def _file(name: str) -> Response:
    """One of the page's files; nothing else is reached by any name."""
    kind = TYPES.get(name.rpartition(".")[2])
    found = {entry.name: entry for entry in STATIC.iterdir()}.get(name)
    if kind is None or found is None or not found.is_file():
        raise RefusedError(404, "there is no such page")
    return Response(found.read_bytes(), media_type=kind)


def _awaited() -> tuple[asyncio.Future[object], Callable[[object], None]]:
    """A future of this loop, and what another thread sets it with."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[object] = loop.create_future()

    def settle(found: object) -> None:
        if future.done():  # nobody waits any more
            return
        if isinstance(found, Exception):
            future.set_exception(found)
        else:
            future.set_result(found)

    def tell(found: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, found)

    return future, tell
