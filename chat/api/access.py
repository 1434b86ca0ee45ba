"""Authenticate API requests: find the key, check what it is for, and count it against its limits."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import partial

from django.core import signing
from django.db import DatabaseError
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from ninja.security import HttpBearer

from accounts.roles import may
from chat import key_guesses, limits
from chat.api_keys import ApiKey
from core import stores, threads
from core.errors import TalkbackError

SCOPES = ("chat", "feedback", "episodes", "admin")
"""What a key may open. None of them includes another."""

CREDENTIALS = ("authorization", "x-api-key", "cookie")
"""Headers that are never kept or passed on."""

NOTED_S = 60
"""A key's last use is known to the minute."""

PASS, PASS_S = "tb-pass.", 30
"""How a pass begins, and for how many seconds it is good."""


class KeyInvalid(TalkbackError):
    """The request has no API key, or one that opens nothing."""

    code, status = "invalid_api_key", 401


class ScopeMissing(TalkbackError):
    """The key is good, and has not the scope that this operation needs."""

    code, status = "insufficient_scope", 403


class Bearer(HttpBearer):
    """Authenticate a request by its API key, and count it against the key's limits; the view asks key_of() for the key.

    The key comes as `Authorization: Bearer KEY`, or as `x-api-key: KEY` from Anthropic's clients. Of two headers the
    one with an open key counts: a proxy, or a client's own setting, may have filled the other. `scope`: what the key
    must be for; None lets every open key in.

    Raises KeyInvalid, ScopeMissing or limits.RateLimited. `request.api_key` names the key even then, if it is known.
    """

    def __init__(self, scope: str | None = "chat") -> None:
        super().__init__()
        self.scope = scope

    async def __call__(self, request: HttpRequest) -> ApiKey:
        return await self.authenticate(request, *secrets_of(request))

    async def authenticate(self, request: HttpRequest, *secrets: str) -> ApiKey:  # type: ignore[override]
        return await threads.call(partial(self.let_in, request, *secrets))

    def let_in(self, request: HttpRequest, *secrets: str) -> ApiKey:
        """The key of the first secret that opens something. Asks the database."""
        if not secrets:
            raise KeyInvalid("No API key was given: send it as `Authorization: Bearer KEY`.")
        address = request.META.get("REMOTE_ADDR", "")
        key_guesses.check(address, [secret for secret in secrets if not secret.startswith(PASS)])
        key = find_key(secrets)
        if key is None:
            key_guesses.note_unknown(address, secrets)
            raise KeyInvalid("There is no such API key. Make one on the page /connect/, or with manage.py create_key.")
        request.api_key = key  # type: ignore[attr-defined]
        if key.why_closed:
            raise KeyInvalid(f"{key.why_closed} Make another on the page /connect/.")
        key_guesses.note_good(secrets)
        if self.scope is not None:
            check_scope(key, self.scope)
        limits.check_rate(key)
        if self.scope == "chat":
            limits.check_spending(key)
        note_use(key)
        return key


def key_of(request: HttpRequest) -> ApiKey:
    """The key that Bearer let in."""
    key: ApiKey = request.auth  # type: ignore[attr-defined]  # ninja puts it there
    return key


def secrets_of(request: HttpRequest) -> tuple[str, ...]:
    """The secrets that a request carries, in the order in which they are tried."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return tuple(dict.fromkeys(filter(None, (bearer, request.headers.get("x-api-key", "").strip()))))


def find_key(secrets: Iterable[str]) -> ApiKey | None:
    """The first key among them that is open; else the first that is known."""
    known: ApiKey | None = None
    for secret in secrets:
        key = find_key_of_pass(secret) if secret.startswith(PASS) else ApiKey.objects.find_by_secret(secret)
        if key is not None and not key.why_closed:
            return key
        known = known or key
    return known


def check_scope(key: ApiKey, scope: str) -> None:
    """Raises ScopeMissing. An admin key works as long as its owner is an administrator."""
    if scope not in key.scopes:
        has = " and ".join(key.scopes) or "nothing"
        raise ScopeMissing(f"This API key is for {has}, and this needs {scope}: make a key with that scope.")
    if scope == "admin" and not may(key.user, "settings"):
        raise ScopeMissing("This API key's owner is no administrator here, so it cannot administer this Talkback.")


def note_use(key: ApiKey) -> None:
    now = timezone.now()
    before = now - timedelta(seconds=NOTED_S)
    if key.used_at is None or key.used_at < before:
        try:
            ApiKey.objects.filter(Q(used_at=None) | Q(used_at__lt=before), pk=key.pk).update(used_at=now)
        except DatabaseError as error:  # on a full disk what only reads goes on
            if not isinstance(stores.name_failure(error), stores.DiskFull):
                raise


def note_refusal(key: ApiKey, refusal: TalkbackError) -> None:
    """Keep why a request with this key was refused: nothing else is left of it. A flood is noted once a second."""
    now, code, words = timezone.now(), refusal.code[:40], str(refusal)[:500]
    if key.refused_at and key.refusal_code == code and now - key.refused_at < timedelta(seconds=1):
        return
    ApiKey.objects.filter(pk=key.pk).update(refused_at=now, refusal_code=code, refusal=words)


def issue_pass(key: ApiKey) -> str:
    """What opens the doors as this key for PASS_S seconds, for a request that the site sends to itself: only
    its owner has the key's secret."""
    return PASS + signing.dumps(key.pk, salt=PASS)


def find_key_of_pass(secret: str) -> ApiKey | None:
    try:
        pk = signing.loads(secret.removeprefix(PASS), salt=PASS, max_age=PASS_S)
    except signing.BadSignature:
        return None
    return ApiKey.objects.select_related("user").filter(pk=pk).first()
