"""Bound request bodies: the API reads no more of one than this process can bear."""

from __future__ import annotations

import re
from typing import Any

from django.http import HttpRequest
from ninja.parser import Parser

from webapp.errors import RequestTooLarge

MOST_VALUES = 50_000
"""Objects and lists of one body. A conversation of a thousand messages in parts with calls has some 6,000; each takes
about a kilobyte once it is read."""

STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""Also one that does not end: looking for its end again from each quote in it would take hours."""


class Bounded(Parser):
    """ninja's own, behind a bound on how much there may be in a body."""

    def parse_body(self, request: HttpRequest) -> Any:
        """Raises RequestTooLarge."""
        check_count(request.body)
        return super().parse_body(request)


def check_count(body: bytes) -> None:
    """Raises RequestTooLarge for JSON with more than MOST_VALUES objects and lists; brackets in strings are none."""
    if opened(body) <= MOST_VALUES:
        return
    count = opened(STRINGS.sub(b"", body))
    if count > MOST_VALUES:
        raise RequestTooLarge(
            f"The request holds {count} objects and lists, and at most {MOST_VALUES} are read: send fewer messages, or "
            "fewer parts of messages."
        )


def opened(body: bytes) -> int:
    return body.count(b"{") + body.count(b"[")
