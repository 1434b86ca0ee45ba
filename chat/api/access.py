"""Who may come in: API keys, as a bearer's token."""

from __future__ import annotations

from datetime import timedelta

from asgiref.sync import sync_to_async
from django.http import HttpRequest
from django.utils import timezone
from ninja.security import HttpBearer

from chat.models import ApiKey
from core.errors import TalkbackError


class KeyInvalid(TalkbackError):
    """No key, or one that opens nothing."""

    code, status = "invalid_api_key", 401


class Bearer(HttpBearer):
    """`Authorization: Bearer KEY`; the view finds the key as `request.auth`."""

    async def __call__(self, request: HttpRequest) -> ApiKey:
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        key = await sync_to_async(opened)(secret.strip()) if scheme.lower() == "bearer" else None
        if key is None:
            raise KeyInvalid(
                "This API key is not valid, or was revoked. Make one with: python manage.py create_key --name NAME"
                if secret
                else "No API key was given: send it as `Authorization: Bearer KEY`."
            )
        return key

    async def authenticate(self, request: HttpRequest, token: str) -> ApiKey:
        return await self(request)


def opened(secret: str) -> ApiKey | None:
    """The key this secret opens; its last use is noted, to the minute."""
    key = ApiKey.objects.holder(secret)
    now = timezone.now()
    if key is not None and (key.used_at is None or now - key.used_at > timedelta(minutes=1)):
        ApiKey.objects.filter(pk=key.pk).update(used_at=now)
    return key
