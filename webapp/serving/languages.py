"""Draw each page in its reader's language."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import translation
from django.utils.cache import patch_vary_headers

from accounts.languages import language_of


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
