"""Let people in by their rights, write what they decide into the audit log, and begin and end views."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache

from accounts import second_factors
from accounts.models import RANKS, Role
from accounts.roles import RIGHTS, NotAllowed, kept_role, may
from checkpoints.models import Checkpoint
from core.errors import TalkbackError
from core.visible import visible
from webapp.console import decisions
from webapp.serving.retold import retold

FACTOR = _("Your role needs a second factor beside the password: set one up here, and go on.")

View = Callable[..., HttpResponse]
Result = TypeVar("Result")

WHO = {
    Role.TALKER: _("This page is for people with an account."),
    Role.REVIEWER: _("This page is for reviewers. An administrator can make you one."),
    Role.OPERATOR: _("This page is for operators. An administrator can make you one."),
    Role.ADMINISTRATOR: _("This page is for administrators."),
}
"""What a page says that is closed to a person, by the least role that opens it."""


def needs(what: str) -> Callable[[View], View]:
    """Only people with the right `what` get in: strangers are asked to sign in, others are told who may."""
    least = RIGHTS[what]

    def guard(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not request.user.is_authenticated:
                return redirect_to_login(request.get_full_path())
            if not may(request.user, what):
                if is_only_a_factor_away(person(request), what):
                    messages.warning(request, FACTOR, extra_tags="warn")
                    return redirect("mfa_index")
                raise NotAllowed(str(WHO[least]))
            response = marked(never_cache(view)(request, *args, **kwargs))
            decisions.record(request, response)
            return response

        return guarded

    return guard


def is_only_a_factor_away(user: User, what: str) -> bool:
    """Whether this person's role has the right, and waits for a second factor alone."""
    role = kept_role(user)
    return user.is_staff and RANKS[role] >= RANKS[RIGHTS[what]] and second_factors.is_missing(user, role)


for_signed_in = needs("talk")
"""Those who are signed in get in, and see what is theirs: strangers are asked to sign in."""


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
        request.refusal = failure  # type: ignore[attr-defined]  # the audit log says so
        messages.error(request, retold(str(failure)), extra_tags="bad")
        return None
