"""Shape failures for their readers: OpenAI's shape under /v1, Anthropic's at its doors, a page elsewhere.

Each once.
"""

from __future__ import annotations

import logging
import math
import re
import sys
from typing import Any
from uuid import uuid4

from django.core.exceptions import DisallowedHost, RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError

from accounts.roles import NotAllowed
from chat.api import anthropic_events
from chat.api.wire import shape
from chat.api_keys import ApiKey
from core import stores
from core.errors import TalkbackError
from webapp.serving.paths import guide, is_programs

log = logging.getLogger(__name__)

TRIED = {"str", "int", "float", "bool"}
"""Steps of a validation error's path that are no fields."""


MOST_FAULTS = 64
"""Faults of a request that are looked at: the first is told, and there may be as many as the request has room for."""


class RequestInvalid(TalkbackError):
    """The request could not be read."""

    code, status = "invalid_request", 400

    def __init__(self, sentence: str, param: str | None = None) -> None:
        super().__init__(sentence)
        self.param = param


class RequestTooLarge(TalkbackError):
    code, status = "request_too_large", 413


class HostUnknown(TalkbackError):
    """A Host header that is none of ALLOWED_HOSTS."""

    code, status = "unknown_host", 400


class MethodNotAllowed(TalkbackError):
    code, status = "method_not_allowed", 405


class NotFound(TalkbackError):
    code, status = "not_found", 404


def answer(request: HttpRequest, error: TalkbackError) -> HttpResponse:
    """A failure in the shape of the protocol that is spoken, with its status; one worth another try says when."""
    if speaks_anthropic(request):
        shaped = anthropic_events.shape(error) | {"request_id": request_id(request)}
    else:
        shaped = {"error": shape(error)}
    response = JsonResponse(shaped, status=error.status)
    after_s = error.retry_after_s if error.retry_after_s is not None else 2 if error.retryable else None
    if after_s is not None:
        response.headers["Retry-After"] = str(math.ceil(after_s))
    for name, value in getattr(error, "headers", {}).items():
        response.headers[name] = value
    response.refusal = error  # type: ignore[attr-defined]
    return response


def speaks_anthropic(request: HttpRequest) -> bool:
    """Whether a request came to a door of Anthropic's, or to where a client takes one to be."""
    return bool(re.match(r"(/v1)*/messages(/|$)", request.path))


def request_id(request: HttpRequest) -> str:
    """What this request goes by, in its answer and in the log: the client's own X-Request-Id, or one of ours."""
    known: str | None = getattr(request, "request_id", None)
    if known is None:
        given = request.headers.get("X-Request-Id", "")
        known = given if re.fullmatch(r"[\w.:-]{1,128}", given, re.ASCII) else f"req_{uuid4().hex}"
        request.request_id = known  # type: ignore[attr-defined]
    return known


def refused(request: HttpRequest, response: HttpResponse) -> tuple[ApiKey, TalkbackError] | None:
    """Whose request was refused, and why; None where it was not, or it is not known whose it was.

    A refusal leaves no turn: the key remembers the last one, for the page that says how connecting goes.
    """
    key, refusal = getattr(request, "api_key", None), getattr(response, "refusal", None)
    return (key, refusal) if key and refusal and response.status_code < 500 else None


def connect(api: NinjaAPI) -> None:
    """Have every failure of the API leave it in one shape."""

    @api.exception_handler(TalkbackError)
    def known(request: HttpRequest, error: TalkbackError) -> HttpResponse:
        return answer(request, error)

    @api.exception_handler(ValidationError)
    def invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
        fault = telling(error.errors)
        return answer(request, RequestInvalid(sentence([fault]), field(fault) or None))

    @api.exception_handler(HttpError)
    def refused(request: HttpRequest, error: HttpError) -> HttpResponse:
        # The framework wraps whatever kept it from reading the body; too large has a status of its own.
        reason = error.__cause__ or error.__context__
        if isinstance(reason, RequestDataTooBig):
            return too_large(request, RequestDataTooBig())
        if isinstance(reason, TalkbackError):
            return answer(request, reason)
        if error.status_code == 400:
            return answer(request, RequestInvalid("The body is not JSON in UTF-8."))
        failure = RequestInvalid(str(error))
        failure.status = error.status_code
        return answer(request, failure)

    @api.exception_handler(RequestDataTooBig)
    def too_large(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
        return answer(request, RequestTooLarge("The request is larger than 8 MB. Shorten the messages."))

    @api.exception_handler(Http404)
    def missing(request: HttpRequest, error: Http404) -> HttpResponse:
        return answer(request, NotFound(guide(request)))

    @api.exception_handler(Exception)
    def unknown(request: HttpRequest, error: Exception) -> HttpResponse:
        if (failure := stores.name_failure(error)) is not None:
            log.error("%s %s is %s (%s): %s", request.method, request.path, failure.code, request_id(request), error)
            return answer(request, failure)
        log.error("%s %s broke (%s)", request.method, request.path, request_id(request), exc_info=error)
        return answer(request, TalkbackError("Something went wrong here; the log has the details."))


def field(error: dict[str, Any]) -> str:
    """Where the fault is, in the request's own words: the names of types that were tried are left out.

    >>> field({"loc": ("body", "body", "messages", 0, "content", "list[Part]", 1, "type")})
    'messages.0.content.1.type'
    """
    steps = [str(step) for step in error["loc"] if step != "body"]
    return ".".join(step for step in steps if not re.search(r"[^a-z0-9_]", step) and step not in TRIED)


def telling(errors: list[dict[str, Any]]) -> dict[str, Any]:
    """Of all that is wrong the first; where a value was tried as several types, what is wrong deepest inside."""
    first = field(errors[0])
    near = errors[:MOST_FAULTS]
    about = [error for error in near if field(error) == first or field(error).startswith(f"{first}.")]
    return max(about, key=lambda error: field(error).count("."))


def sentence(errors: list[dict[str, Any]]) -> str:
    """The first thing that is wrong, and where.

    >>> sentence([{"loc": ("body", "body", "temperature"), "msg": "Input should be less than 2"}])
    'temperature: Input should be less than 2.'
    """
    first = telling(errors)
    where = field(first)
    if not where and first.get("type") == "missing":
        return "The body is empty: send a JSON object."
    what = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    return f"{where}: {what}." if where else f"{what[:1].upper()}{what[1:]}."


def not_allowed(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """The framework's own 405, in the shape of all others."""
    allowed = response.headers["Allow"]
    told = answer(request, MethodNotAllowed(f"{request.method} means nothing here: this route knows {allowed}."))
    told.headers["Allow"] = allowed
    return told


KINDS: dict[int, type[TalkbackError]] = {404: NotFound, 413: RequestTooLarge}
"""What a failure of a status is called under /v1, where the framework knows no more of it."""


def page(request: HttpRequest, status: int, sentence: str, kind: type[TalkbackError] | None = None) -> HttpResponse:
    """A failure as a page; for a program in the shape that it reads."""
    if is_programs(request):
        failure = (kind or KINDS.get(status) or (TalkbackError if status >= 500 else RequestInvalid))(sentence)
        failure.status = status
        return answer(request, failure)
    return render(request, "error.html", {"sentence": sentence, "status": status}, status=status)


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    if isinstance(exception, RequestDataTooBig):
        return page(request, 413, _("That is larger than 8 MB. Send less at once."))
    if isinstance(exception, DisallowedHost):
        sentence = _("This server does not go by that name: ALLOWED_HOSTS in its settings must have it.")
        return page(request, 400, sentence, HostUnknown)
    return page(request, 400, _("This request could not be understood."))


def forbidden(request: HttpRequest, exception: Exception | None = None, reason: str = "") -> HttpResponse:
    if reason and not request.user.is_authenticated:  # the check against forged forms, after a sign-out elsewhere
        response = page(
            request, 403, _("You are signed out. Go back to copy what you wrote, sign in, and send it again.")
        )
        response.headers["X-Signed-Out"] = "1"  # for the page's script, which keeps the words
        return response
    if reason:
        return page(request, 403, _("This page is out of date: go back, reload it, and try again."))
    return page(request, 403, str(exception) if isinstance(exception, NotAllowed) else _("You may not do this here."))


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    if is_programs(request):
        return answer(request, NotFound(guide(request)))
    return page(request, 404, _("There is nothing here, or it is not yours to see."))


def broken(request: HttpRequest) -> HttpResponse:
    error = sys.exception() if sys.version_info >= (3, 12) else sys.exc_info()[1]
    if error is not None and (failure := stores.name_failure(error)) is not None:
        return told(request, failure)
    return page(request, 500, _("Something went wrong here. It was logged; nothing you sent before is lost."))


def told(request: HttpRequest, failure: TalkbackError) -> HttpResponse:
    """A failure that has a name: for a program in its shape, for a page's own request as a note on the page, which
    stays as it is, else as a page."""
    if is_programs(request):
        return answer(request, failure)
    if "HX-Request" in request.headers:
        context = {"sentence": str(failure), "pushed": True}
        response = render(request, "chat/_complaint.html", context, status=failure.status)
        response.headers["HX-Reswap"] = "none"
    else:
        context = {"sentence": str(failure), "status": failure.status}
        response = HttpResponse(render_to_string("error.html", context), status=failure.status)
    if failure.retry_after_s is not None:
        response.headers["Retry-After"] = str(math.ceil(failure.retry_after_s))
    return response
