"""API operations that let the key in and open turns in one call to a database thread.

Bodies are read there as well: large ones beside the event loop, which all replies share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import ninja
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja.operation import AsyncOperation

from chat.api import streaming
from chat.api.access import Bearer, secrets_of
from chat.api_keys import ApiKey
from chat.models import Turn
from core import process_memory, threads

LARGE = 256 * 1024
"""Bytes of a body from which on a thread is worth its while."""

View = TypeVar("View", bound=Callable[..., Any])


class Aside(AsyncOperation):
    """Run a view with its key let in first; parse a large body in a thread.

    For a view that opens turns the operation lets the key in itself, in the same call to the database that opens them.
    The view is called when that is done, so no view can leave the key out. A request without a key is refused before
    its body is looked at.
    """

    async def run(self, request: HttpRequest, **path: Any) -> HttpResponseBase:  # type: ignore[override]
        open_turns: Callable[..., list[Turn]] | None = getattr(self.view_func, "open_turns", None)
        if open_turns is None and (refusal := await self._run_checks(request)):
            return refusal
        try:
            response = self.api.create_temporal_response(request)
            let_in = partial(self.let_in, request)
            if is_large(request):
                if open_turns is not None:
                    await threads.call(let_in)
                values = await asyncio.to_thread(self._get_values, request, path, response)
            else:
                try:
                    values = self._get_values(request, path, response)
                except Exception:
                    if open_turns is not None:
                        await threads.call(let_in)
                    raise
            if open_turns is not None:
                request.turns = await streaming.open_or_close(partial(self.open, open_turns, request, values))  # type: ignore[attr-defined]
            return self._result_to_response(request, await self.view_func(request, **values), response)
        except Exception as failure:
            return self.api.on_exception(request, failure)
        finally:
            if is_large(request):
                process_memory.trim_soon()

    def open(self, open_turns: Callable[..., list[Turn]], request: HttpRequest, values: dict[str, Any]) -> list[Turn]:
        self.let_in(request)
        return open_turns(request, **values)

    def let_in(self, request: HttpRequest) -> None:
        """Let the request's key in, once. Raises what Bearer raises."""
        if isinstance(getattr(request, "auth", None), ApiKey):
            return
        (door,) = self.auth_callbacks
        if not isinstance(door, Bearer):
            raise TypeError(f"{self.path} opens turns, and needs a Bearer to let keys in")
        request.auth = door.let_in(request, *secrets_of(request))  # type: ignore[attr-defined]  # as ninja does


class Router(ninja.Router):
    """A router whose operations are Aside."""

    def add_api_operation(self, path: str, methods: list[str], view_func: Callable[..., Any], **more: Any) -> None:
        super().add_api_operation(path, methods, view_func, **more)
        view_func._ninja_operation.__class__ = Aside  # type: ignore[attr-defined]


def opens(open_turns: Callable[..., list[Turn]]) -> Callable[[View], View]:
    """Have a view's operation call `open_turns(request, **values)` in a thread for database work, with the key let in;
    the view asks turns_of() for them. A reader that leaves meanwhile leaves no turn behind."""

    def marked(view: View) -> View:
        view.open_turns = open_turns  # type: ignore[attr-defined]
        return view

    return marked


def turns_of(request: HttpRequest) -> list[Turn]:
    """The turns that were opened for this request."""
    turns: list[Turn] = request.turns  # type: ignore[attr-defined]
    return turns


def is_large(request: HttpRequest) -> bool:
    with suppress(RequestDataTooBig):  # told where the body is read
        return len(request.body) > LARGE
    return False
