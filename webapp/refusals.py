"""A request that is refused leaves no turn: its key remembers why, for the page that says how connecting goes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.http import HttpRequest, HttpResponse

from chat.api.access import note_refusal
from chat.models import ApiKey
from core.errors import TalkbackError


class Remembered:
    """Costs only those who are refused."""

    sync_capable = async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse | Awaitable[HttpResponse]]) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        response = self.get_response(request)
        if isawaitable(response):
            return self.later(request, response)
        if known := refused(request, response):
            note_refusal(*known)
        return response

    async def later(self, request: HttpRequest, coming: Awaitable[HttpResponse]) -> HttpResponse:
        response = await coming
        if known := refused(request, response):
            await sync_to_async(note_refusal)(*known)
        return response


def refused(request: HttpRequest, response: HttpResponse) -> tuple[ApiKey, TalkbackError] | None:
    """Whose request was refused, and why; None where it was not, or nobody knows whose it was."""
    key, refusal = getattr(request, "api_key", None), getattr(response, "refusal", None)
    return (key, refusal) if key and refusal and response.status_code < 500 else None
