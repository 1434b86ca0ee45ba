"""Write what a person decided about their own data into the audit log, and say what came of it."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest

from accounts import deeds
from webapp.console.doors import person


def note(request: HttpRequest, verb: str, about: str = "") -> None:
    """What a person decided about their own data, in the audit log."""
    deeds.note("erasure", verb, request=request, whom=person(request), about=about)


def tell(request: HttpRequest, *sentences: str) -> None:
    messages.success(request, " ".join(sentences).strip(), extra_tags="good")
