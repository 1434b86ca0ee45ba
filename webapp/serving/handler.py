"""The API's requests, handled with nothing that only pages need: no session, no cookies, no forms, no middleware that
hops to a thread and back. What is answered is what Django's ordinary stack would answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from contextlib import aclosing
from http import HTTPStatus
from io import BytesIO
from time import monotonic
from typing import IO, Any, Self, cast

from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.conf import settings
from django.core.exceptions import RequestAborted, RequestDataTooBig
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.core.handlers.exception import convert_exception_to_response
from django.db import DatabaseError, close_old_connections
from django.http import HttpRequest
from django.http.response import HttpResponse, HttpResponseBase
from django.urls import set_script_prefix

from chat.api.access import note_refusal
from chat.replying.replies import arrived_at
from core import threads
from core.errors import TalkbackError
from core.states import defer_signals
from webapp.errors import RequestInvalid, answer, bad_request, not_allowed, refused, request_id
from webapp.serving.afterwards import Afterwards
from webapp.serving.encodings import decode
from webapp.serving.headers import stamped
from webapp.serving.origins import admit, preflight

log = logging.getLogger(__name__)

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

STALL_S = 300.0
"""Who takes nothing of a stream for so long has left, though the connection stands."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": settings.SECURE_REFERRER_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Frame-Options": settings.X_FRAME_OPTIONS,
}
"""What the ordinary stack's middleware says of every response."""


class ApiHandler(ASGIHandler):
    """Django's handler without MIDDLEWARE, and with database work in threads that are kept."""

    def load_middleware(self, is_async: bool = False) -> None:
        async def answered(request: HttpRequest) -> HttpResponse:
            request.get_host()  # raises DisallowedHost
            if asked := preflight(request):
                return asked
            response: HttpResponse = await self._get_response_async(request)  # type: ignore[attr-defined]
            if response.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
                response = not_allowed(request, response)
            if refusal := refused(request, response):
                try:
                    await sync_to_async(note_refusal)(*refusal)
                except DatabaseError as error:  # a note, and no condition of the answer
                    log.warning("a refusal was not noted: %s", error)
            return response

        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        self._middleware_chain = convert_exception_to_response(answered)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        arrived_at.set(monotonic())
        if threads.kept():
            with defer_signals(Afterwards.of_this_loop().note):
                await self.handle(scope, receive, send)
            return
        async with ThreadSensitiveContext():
            try:
                await self.handle(scope, receive, send)
            finally:
                await asyncio.shield(sync_to_async(close_old_connections)())

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and stop answering the moment the client leaves."""
        try:
            scope, body = await decode(scope, await self.read_body(receive))
        except RequestAborted:
            return
        except (RequestDataTooBig, TalkbackError) as error:
            lost = unread(scope)
            told = answer(lost, error) if isinstance(error, TalkbackError) else bad_request(lost, error)
            await self.send_response(finished(lost, told), send)
            return
        set_script_prefix(get_script_prefix(scope))
        request, _ = self.create_request(scope, body)
        if request is None:
            lost = unread(scope)
            await self.send_response(finished(lost, answer(lost, RequestInvalid("The query is not UTF-8."))), send)
            return
        answering = asyncio.create_task(self.answer(request, send))
        leaving = asyncio.create_task(self.listen_for_disconnect(receive))
        await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
        for task in (leaving, answering):
            task.cancel()
        _, failure = await asyncio.gather(leaving, answering, return_exceptions=True)
        if isinstance(failure, Exception):
            raise failure

    async def answer(self, request: HttpRequest, send: Send) -> None:
        response = finished(request, await self.run_get_response(request))
        try:
            await self.send_response(response, send)
        except BaseException:  # the client left, or the connection broke: nothing else will close it
            await asyncio.shield(sync_to_async(response.close)())
            raise

    async def read_body(self, receive: Receive) -> IO[bytes]:
        """The body, kept in memory: a disk has no place on the event loop. Raises RequestDataTooBig."""
        body = BytesIO()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RequestAborted
            body.write(message.get("body", b""))
            if body.tell() > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
                raise RequestDataTooBig
            if not message.get("more_body", False):
                body.seek(0)
                return body

    async def send_response(self, response: HttpResponseBase, send: Send) -> None:  # type: ignore[override]
        headers = [(name.encode("ascii").lower(), value.encode("latin1")) for name, value in response.items()]
        start = {"type": "http.response.start", "status": response.status_code, "headers": headers}
        if not response.streaming:
            await send(start)
            await send({"type": "http.response.body", "body": cast(HttpResponse, response).content})
            return
        async with aclosing(aiter(cast(AsyncIterable[bytes], response))) as parts:  # type: ignore[type-var]
            with Sending() as sending:
                await send(start)
                async for part in parts:
                    sending.since = monotonic()
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                    sending.since = None
        await send({"type": "http.response.body"})


def unread(scope: Scope) -> ASGIRequest:
    """A request of which only the path and the headers could be read, to shape an answer by."""
    return ASGIRequest(scope | {"query_string": b""}, BytesIO())


def finished(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """The response with all that every response of the API has."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if settings.SECURE_HSTS_SECONDS and request.is_secure():
        response.headers.setdefault("Strict-Transport-Security", f"max-age={settings.SECURE_HSTS_SECONDS}")
    response.headers["x-request-id"] = response.headers["request-id"] = request_id(request)  # OpenAI's, Anthropic's
    if not response.streaming and response.status_code != HTTPStatus.NO_CONTENT:
        response.headers.setdefault("Content-Length", str(len(cast(HttpResponse, response).content)))
    admit(request, response)
    return stamped(response)


class Sending:
    """A stream under way. Its task is cancelled, as if the reader had left, once one part was not taken for STALL_S.

    One timer for the whole stream: it sets itself anew, so that a part costs it nothing.
    """

    def __init__(self) -> None:
        self.since: float | None = None
        """When the part went out that is not taken yet, on the monotonic clock."""

    def __enter__(self) -> Self:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._timer = self._loop.call_later(STALL_S, self._look)
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        waited_s = monotonic() - self.since if self.since is not None else 0.0
        if waited_s >= STALL_S - 0.001:
            log.info("a stream ends: its reader took nothing for %.0f s", waited_s)
            cast(asyncio.Task[object], self._task).cancel()
        else:
            self._timer = self._loop.call_later(STALL_S - waited_s, self._look)
