"""Sign in with a password, and out: a brake on guessing, a bound on hashing, a log line for each.

Wrong passwords are counted by name and address together, and more slowly by name and by address alone, since a guesser
may have many of either. A browser that has signed in as a person before carries a signed cookie: it has a count of its
own, so that strangers who guess at a name cannot keep its owner out of it. In any other browser guesses from many
networks can, for as long as they go on; a sign-in link works meanwhile. The count asks only what was typed: names that
exist and names that do not are answered alike.
"""

from __future__ import annotations

import hashlib
import logging
import math
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore
from typing import Any

from allauth.account.utils import perform_login
from django.conf import settings
from django.contrib.auth import views as auth
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.core import signing
from django.core.exceptions import ValidationError
from django.db.models.signals import pre_save
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from accounts import deeds
from core.brake import Brake, Rule
from core.network.addresses import network, readable
from core.visible import name_fault

log = logging.getLogger(__name__)

HOUR = 3600.0
PAIR = Rule(free=5, first_s=30, most_s=900, forget_s=HOUR)
"""Of one name from one address, and of one browser that has signed in before."""
STRANGERS = Rule(free=20, first_s=5, most_s=60, forget_s=HOUR)
"""Of one name from all places together, in browsers that are not known as its owner's. The wait is short, but guesses
that go on from many networks can take each turn as it comes."""
ADDRESS = Rule(free=30, first_s=5, most_s=60, forget_s=HOUR)
"""Of all names from one address, behind which many people may be."""

AT_ONCE = 2
"""Passwords that a web process hashes at a time: each takes a core for a good part of a second."""
IN_LINE = 20
"""Further ones that wait their turn."""
TURN_S = 10.0
"""How long they wait."""

KNOWN = f"talkback_known_{settings.PORT}_"
"""The cookies of a browser that people have signed in with, one for each of them: the names begin so."""
MOST_KNOWN = 16
"""People of one browser; the one who came first makes room. A proxy may take no more than 8 KB of cookies."""
KNOWN_S = 400 * 24 * 3600
"""As long as browsers keep one."""


brake = Brake("sign-in")
_line, _turn = BoundedSemaphore(AT_ONCE + IN_LINE), BoundedSemaphore(AT_ONCE)


class Wait(ValidationError):
    """The form is not looked at before `wait_s` seconds are over."""

    def __init__(self, sentence: str, wait_s: float, status: int) -> None:
        super().__init__(sentence)
        self.wait_s, self.status = wait_s, status


class SignInForm(AuthenticationForm):
    """A name and a password. `wait` is set where they were not looked at."""

    error_messages = {
        **AuthenticationForm.error_messages,
        "invalid_login": gettext_lazy("That name and that password do not go together."),
    }
    wait: Wait | None = None

    def clean(self) -> dict[str, Any]:
        name, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if name is None or not password:
            return self.cleaned_data
        assert self.request is not None  # the view gives it
        try:
            with attempt(self.request, name):
                return super().clean()
        except Wait as wait:
            self.wait = wait
            raise


class SignIn(auth.LoginView):
    template_name = "people/sign_in.html"
    authentication_form = SignInForm

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        ways = {"signs_up": settings.SIGN_UP, "oidc": settings.OIDC_ISSUER and settings.OIDC_NAME}
        return super().get_context_data(**more) | ways

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Sign in, or ask for the second factor of who has one."""
        response: HttpResponse = perform_login(self.request, form.get_user(), redirect_url=self.get_success_url())
        if self.request.user.is_authenticated:
            note("signed in with a password", self.request, self.request.user)
            remember(self.request, response)
        return response

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        response: HttpResponse = super().form_invalid(form)
        if wait := getattr(form, "wait", None):
            response.status_code = wait.status
            response.headers["Retry-After"] = str(math.ceil(wait.wait_s))
            response._has_been_logged = True  # type: ignore[attr-defined]  # `attempt` did, and a flood fills no log
        return response


class SignOut(auth.LogoutView):
    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        who = request.user
        response: HttpResponse = super().post(request, *args, **kwargs)
        if who.is_authenticated:
            note("signed out", request, who)
        return response


urlpatterns = [
    path("login/", SignIn.as_view(), name="login"),
    path("logout/", SignOut.as_view(), name="logout"),
    path("login/", SignIn.as_view(), name="account_login"),  # as allauth calls them
    path("logout/", SignOut.as_view(), name="account_logout"),
]


def connect() -> None:
    """Refuse new users whose names hold what is not seen, at every door: a form, a command, a shell."""
    pre_save.connect(check_new_name, sender=User, dispatch_uid="webapp.people.signin")


def check_new_name(sender: type[User], instance: User, **about: Any) -> None:
    if instance._state.adding and (fault := name_fault(instance.get_username())):
        raise ValidationError(fault)


@contextmanager
def attempt(request: HttpRequest, name: str) -> Iterator[None]:
    """Count what is done inside as one attempt to sign in as `name`; a ValidationError from there is a failure.

    Raises Wait where the attempt comes too early, or too many passwords are being looked at. That, and any other
    exception from inside, is no failure and costs nothing.
    """
    rules = counted_as(request, name)
    counted = brake.count(settings.REDIS_URL, rules)
    if counted.wait_s:
        sentence = _("Too many wrong passwords. Wait %(time)s, then try again. A sign-in link works meanwhile.")
        raise Wait(sentence % {"time": in_words(counted.wait_s)}, counted.wait_s, 429)
    try:
        with turn_to_hash():
            yield
    except ValidationError as wrong:
        if isinstance(wrong, Wait):
            brake.forgive(settings.REDIS_URL, rules, counted)
            raise
        who = User.objects.filter(username=name).first()
        if not counted.next_wait_s:
            note("sign-in failed", request, who)
            raise
        note(f"sign-in failed, locked for {counted.next_wait_s:.0f} s", request, who)
        more = _("Wait %(time)s before you try again. A sign-in link works meanwhile.")
        raise ValidationError([*wrong.messages, more % {"time": in_words(counted.next_wait_s)}]) from None
    except Exception:  # a fault of ours: the password was not found wrong
        brake.forgive(settings.REDIS_URL, rules, counted)
        raise
    brake.forgive(settings.REDIS_URL, rules, counted, forget=next(iter(rules)))


@contextmanager
def turn_to_hash() -> Iterator[None]:
    """Let AT_ONCE in at a time: the pages and the API need the cores, too. Raises Wait where the line is too long."""
    if not _line.acquire(blocking=False):
        raise busy()
    try:
        if not _turn.acquire(timeout=TURN_S):
            raise busy()
        try:
            yield
        finally:
            _turn.release()
    finally:
        _line.release()


def busy() -> Wait:
    sentence = _("Too many people sign in at once. Wait %(time)s, then try again.")
    return Wait(sentence % {"time": in_words(TURN_S)}, TURN_S, 503)


def counted_as(request: HttpRequest, name: str) -> dict[str, Rule]:
    """Under which names an attempt counts, the closest first."""
    if browser := known_browser(request, name):
        return {f"browser {browser}": PAIR}
    place = network(request.META.get("REMOTE_ADDR", ""))
    return {f"{place} as {name}": PAIR, f"name {name}": STRANGERS, f"address {place}": ADDRESS}


def remember(request: HttpRequest, response: HttpResponse) -> None:
    """Have the browser carry that this person, who has just signed in, has done so in it."""
    name = request.user.get_username()
    cookie = cookie_of(name)
    response.set_cookie(
        cookie,
        signing.dumps(known_browser(request, name) or secrets.token_hex(16), salt=KNOWN + name),
        max_age=KNOWN_S,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    others = [other for other in request.COOKIES if other.startswith(KNOWN) and other != cookie]
    for first in others[: max(0, len(others) + 1 - MOST_KNOWN)]:  # browsers send the oldest first
        response.delete_cookie(first, samesite="Lax")


def known_browser(request: HttpRequest, name: str) -> str:
    """What a browser is counted as in which `name` signed in before; empty for others."""
    try:
        return str(signing.loads(request.COOKIES.get(cookie_of(name), ""), salt=KNOWN + name, max_age=KNOWN_S))
    except signing.BadSignature:
        return ""


def cookie_of(name: str) -> str:
    """By what was typed, so that the database is not asked before the brake is."""
    return KNOWN + hashlib.sha256(name.encode(errors="replace")).hexdigest()[:12]


def address(request: HttpRequest) -> str:
    return readable(request.META.get("REMOTE_ADDR", ""))


def note(what: str, request: HttpRequest, who: AbstractBaseUser | AnonymousUser | None) -> None:
    """A line in the log, and a row of the audit log. Names that do not exist are not written: some people type their
    password there."""
    failed = "failed" in what
    known = who if isinstance(who, User) else None
    deeds.note("sign-in", what, request=request, by=AnonymousUser() if failed else known, whom=known, refused=failed)
    log.info("%s: %s from %s", what, who.get_username() if who else "an unknown name", address(request))


def in_words(seconds: float) -> str:
    """A wait for people, never shorter than it is.

    >>> in_words(0.2), in_words(30), in_words(90), in_words(900)
    ('1 second', '30 seconds', '2 minutes', '15 minutes')
    """
    number = math.ceil(seconds)
    if number < 90:
        return ngettext("%(n)s second", "%(n)s seconds", number) % {"n": number}
    number = math.ceil(number / 60)
    return ngettext("%(n)s minute", "%(n)s minutes", number) % {"n": number}
