"""Bodies of requests: large ones are read beside the event loop, which all replies share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import ninja
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja.operation import AsyncOperation

from chat.api.access import key_of
from core import threads

LARGE = 256 * 1024
"""Bytes of a body from which on a thread is worth its while."""


class Aside(AsyncOperation):
    """ninja's own, but for the thread in which a large body is parsed and validated, and for keys that only knocked:
    whoever has none hears of that before anything else."""

    async def run(self, request: HttpRequest, **path: Any) -> HttpResponseBase:  # type: ignore[override]
        if refusal := await self._run_checks(request):
            return refusal
        let_in = partial(key_of, request)
        try:
            response = self.api.create_temporal_response(request)
            if is_large(request):
                await threads.call(let_in)
                values = await asyncio.to_thread(self._get_values, request, path, response)
            else:
                try:
                    values = self._get_values(request, path, response)
                except Exception:
                    await threads.call(let_in)
                    raise
            return self._result_to_response(request, await self.view_func(request, **values), response)
        except Exception as failure:
            return self.api.on_exception(request, failure)


class Router(ninja.Router):
    """A router whose operations are Aside."""

    def add_api_operation(self, path: str, methods: list[str], view_func: Callable[..., Any], **more: Any) -> None:
        super().add_api_operation(path, methods, view_func, **more)
        view_func._ninja_operation.__class__ = Aside  # type: ignore[attr-defined]


def is_large(request: HttpRequest) -> bool:
    with suppress(RequestDataTooBig):  # told where the body is read
        return len(request.body) > LARGE
    return False
