"""Know the browsers in which a person is signed in: when, which, and from where."""

from __future__ import annotations

import re
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.utils.translation import gettext_noop

from accounts.models import Device
from core.network.addresses import readable
from core.visible import visible

BROWSERS = (
    ("Edge", r"Edg(?:e|A|iOS)?/"),
    ("Opera", r"OPR/|Opera"),
    ("Samsung Internet", r"SamsungBrowser/"),
    ("Firefox", r"Firefox/|FxiOS/"),
    ("Chrome", r"Chrome/|CriOS/|Chromium/"),
    ("Safari", r"Safari/"),
    ("curl", r"^curl/"),
)
"""Most claim to be others as well: the first that matches is meant."""
SYSTEMS = (
    ("iPhone", r"iPhone"),
    ("iPad", r"iPad"),
    ("Android", r"Android"),
    ("ChromeOS", r"CrOS"),
    ("Windows", r"Windows"),
    ("macOS", r"Mac OS X|Macintosh"),
    ("Linux", r"Linux|X11"),
)


def in_words(agent: str) -> str:
    """A browser for people, from its User-Agent.

    >>> in_words("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
    'Firefox on Linux'
    >>> in_words("Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1 Version/18.0 Safari/604.1")
    'Safari on iPhone'
    >>> in_words(""), in_words("our-robot/1.0")
    ('an unknown browser', 'our-robot/1.0')
    """
    browser = next((name for name, form in BROWSERS if re.search(form, agent)), "")
    system = next((name for name, form in SYSTEMS if re.search(form, agent)), "")
    if browser and system:
        return f"{browser} on {system}"
    return browser or visible(agent[:60], one_line=True) or gettext_noop("an unknown browser")


def remember(request: HttpRequest, user: User) -> None:
    """Note that this person is signed in, in the session of this request."""
    if not request.session.session_key:
        request.session.create()
    key = request.session.session_key
    if not Session.objects.filter(session_key=key).exists():  # of another store of sessions, or not written yet
        request.session.save()
    Device.objects.update_or_create(
        session_id=key,
        defaults={
            "user": user,
            "browser": in_words(request.META.get("HTTP_USER_AGENT", ""))[:80],
            "address": readable(request.META.get("REMOTE_ADDR", ""))[:64],
        },
    )


def signed_in(sender: Any, request: HttpRequest, user: User, **kwargs: Any) -> None:
    remember(request, user)


def connect() -> None:
    user_logged_in.connect(signed_in, dispatch_uid="accounts.devices")
