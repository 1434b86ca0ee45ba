"""Allow pages of other origins to use the API (CORS), where CORS_ORIGINS names them.

Keys come in headers and no cookie opens the API, so no answer allows credentials.
"""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

METHODS = "GET, POST, OPTIONS"

KEPT_S = 600
"""How long a browser need not ask again."""

SHOWN = (
    "x-request-id, request-id, X-Session-Id, Retry-After, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, "
    "x-ratelimit-reset-requests"
)
"""Headers of an answer that a page may read."""


def allowed(request: HttpRequest) -> str:
    """The origin that asks, where it may; else nothing."""
    origin = request.headers.get("Origin", "")
    return origin if origin and ("*" in settings.CORS_ORIGINS or origin in settings.CORS_ORIGINS) else ""


def preflight(request: HttpRequest) -> HttpResponse | None:
    """The answer to a browser that asks whether a page may send a request; None where it is no such question, or the
    page may not."""
    asked = "Access-Control-Request-Method" in request.headers
    if request.method != "OPTIONS" or not asked or not allowed(request):
        return None
    response = HttpResponse(status=204)
    response.headers["Access-Control-Allow-Methods"] = METHODS
    response.headers["Access-Control-Max-Age"] = str(KEPT_S)
    if headers := request.headers.get("Access-Control-Request-Headers"):
        response.headers["Access-Control-Allow-Headers"] = headers
    if request.headers.get("Access-Control-Request-Private-Network") == "true":
        response.headers["Access-Control-Allow-Private-Network"] = "true"
    return response


def admit(request: HttpRequest, response: HttpResponseBase) -> None:
    """Let the page that asks read the answer, where it may."""
    if not settings.CORS_ORIGINS:
        return
    patch_vary_headers(response, ["Origin"])
    if origin := allowed(request):
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Access-Control-Expose-Headers"] = SHOWN
