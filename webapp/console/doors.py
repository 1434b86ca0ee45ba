"""Let operators in, and begin and end views: what all pages of the console share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.cache import never_cache

from checkpoints.models import Checkpoint
from core.errors import TalkbackError
from core.visible import visible

View = Callable[..., HttpResponse]
Result = TypeVar("Result")


def for_staff(view: View) -> View:
    """Only staff get in: strangers are asked to sign in, others are told no."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        if not request.user.is_staff:
            raise PermissionDenied("The console is for those who run this Talkback.")
        return marked(never_cache(view)(request, *args, **kwargs))

    return guarded


def for_signed_in(view: View) -> View:
    """Those who are signed in get in, and see what is theirs: strangers are asked to sign in."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        return marked(never_cache(view)(request, *args, **kwargs))

    return guarded


def marked(response: HttpResponse) -> HttpResponse:
    """A page on which the reader sees every character: our own templates hold none that is not seen, so what is
    found came from users, clients or tools. Files to download stay as they are."""
    if not response.streaming and response.headers.get("Content-Type", "").startswith("text/html"):
        page = response.content.decode()
        if (shown := visible(page)) != page:
            response.content = shown
    return response


def person(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # the door let no other in
    return request.user


def numbered(number: str) -> Checkpoint | None:
    """The checkpoint a form names; None when it names none. An unknown number is a 404."""
    return get_object_or_404(Checkpoint, number=int(number)) if number.isdecimal() else None


def said_aloud(request: HttpRequest, act: Callable[[], Result]) -> Result | None:
    """What `act` returns; a failure with a name becomes a sentence on the next page, and None."""
    try:
        return act()
    except TalkbackError as failure:
        messages.error(request, str(failure), extra_tags="bad")
        return None
