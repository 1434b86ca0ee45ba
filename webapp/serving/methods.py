"""Answer a person who opens an address that only takes forms, as after signing in anew, with a page that says so."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from webapp.errors import page


class WrongMethod:
    """Draw the framework's empty 405 as a page, for a browser. Programs are told in webapp/serving/handler.py."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code != HTTPStatus.METHOD_NOT_ALLOWED or response.content or request.method != "GET":
            return response
        told = page(
            request,
            response.status_code,
            _("This address only takes what a button sends. Go back, and press it again."),
        )
        told.headers["Allow"] = response.headers["Allow"]
        return told
