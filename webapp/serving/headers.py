"""Send every response with a Content-Security-Policy."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TypeVar

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

Stamped = TypeVar("Stamped", bound=HttpResponseBase)

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)


class ContentSecurityPolicy:
    """Only our own files run or load: a reply that smuggled markup past every other guard could still do nothing."""

    sync_capable = async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse | Awaitable[HttpResponse]]) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        response = self.get_response(request)
        return self.later(response) if isawaitable(response) else stamped(response)

    async def later(self, response: Awaitable[HttpResponse]) -> HttpResponse:
        return stamped(await response)


def stamped(response: Stamped) -> Stamped:
    response.headers.setdefault("Content-Security-Policy", POLICY)
    return response
