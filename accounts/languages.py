"""Find the language that a person reads: what they chose, else what their browser asks for."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
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
