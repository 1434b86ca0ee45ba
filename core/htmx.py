"""Say whether htmx asks for a part of a page, or a browser for the whole."""

from __future__ import annotations

from django.http import HttpRequest


def is_htmx(request: HttpRequest) -> bool:
    """As htmx says of itself: the answer is a fragment then."""
    return request.headers.get("HX-Request") == "true"
