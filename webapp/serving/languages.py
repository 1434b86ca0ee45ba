"""Choose the language of a page: what its reader chose, else what their browser asks for."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, HttpResponse
from django.utils import translation
from django.utils.cache import patch_vary_headers
from django.utils.translation.trans_real import get_supported_language_variant, parse_accept_lang_header

CODES = tuple(code for code, _ in settings.LANGUAGES)


def asked_for(header: str) -> str:
    """The first language that a browser asks for and that is here; else English.

    >>> asked_for("zh-CN,zh;q=0.9,en;q=0.8"), asked_for("fr"), asked_for("")
    ('zh-hans', 'en', 'en')
    """
    for code, _ in parse_accept_lang_header(header):
        try:
            return str(get_supported_language_variant(code))
        except LookupError:
            continue
    return settings.LANGUAGE_CODE


def chosen_by(user: User) -> str:
    """The code of the language that this person chose in Settings; empty where they leave it to the browser."""
    chosen = getattr(getattr(user, "account", None), "language", "")
    return chosen if chosen in CODES else ""


def language_of(user: User | AnonymousUser | None, header: str = "") -> str:
    """What this person reads: their own choice (Settings), else the browser's. Without a browser: English."""
    chosen = chosen_by(user) if isinstance(user, User) else ""
    return chosen or asked_for(header)


class ReadersLanguage:
    """Draw each page in its reader's language. /v1 is for programs, and says everything in English."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info.startswith("/v1/"):
            with translation.override(settings.LANGUAGE_CODE):  # also where a page of ours asks for it
                return self.get_response(request)
        language = language_of(request.user, request.headers.get("Accept-Language", ""))
        with translation.override(language):
            response = self.get_response(request)
        response.headers.setdefault("Content-Language", language)
        patch_vary_headers(response, ("Accept-Language",))
        return response
