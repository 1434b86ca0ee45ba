"""Issue API keys, and find them by their secrets."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext as _

from accounts.roles import may
from chat.usual_consent import Consent
from checkpoints.models import Checkpoint
from core.moments import moment
from core.prepared import Prepared


def usual_scopes() -> list[str]:
    return ["chat", "feedback"]


class ApiKeyQuerySet(models.QuerySet["ApiKey"]):
    def visible_to(self, user: User | AnonymousUser) -> ApiKeyQuerySet:
        """The only door to keys: a person's own, and all people's for administrators."""
        if not user.is_authenticated:
            return self.none()
        return self.of_people() if may(user, "people") else self.of_people().filter(user=user)

    def of_people(self) -> ApiKeyQuerySet:
        """Without those that a key asked for, of which there may be thousands, each for one conversation."""
        return self.filter(parent=None)


class ApiKeyManager(models.Manager.from_queryset(ApiKeyQuerySet)):  # type: ignore[misc]  # Django makes its base
    """Issue API keys, and find them by their secrets."""

    def issue(self, user: User, name: str, secret: str = "", **terms: Any) -> tuple[ApiKey, str]:
        """A new key and its secret. The secret is shown once and kept only as a hash. `terms`: fields of the key.
        IntegrityError: there is a key with this secret."""
        secret = secret or new_secret()
        terms.setdefault("learns", Consent.by_default(user))
        return self.create(user=user, name=name, prefix=secret[:8], digest=digest(secret), **terms), secret

    def reissue(self, key: ApiKey) -> str:
        """Another secret for this key; the one before opens nothing from now on."""
        secret = new_secret()
        key.prefix, key.digest = secret[:8], digest(secret)
        key.save(update_fields=["prefix", "digest"])
        return secret

    def find_by_secret(self, secret: str) -> ApiKey | None:
        """The key with this secret, open or not."""
        return KEYS.first(digest(secret))

    def find_open(self, secret: str) -> ApiKey | None:
        """The key that this secret opens: none once it was revoked or has expired."""
        key = self.find_by_secret(secret)
        return None if key is None or key.why_closed else key


def new_secret() -> str:
    return f"tb-{secrets.token_urlsafe(32)}"


def digest(secret: str) -> str:
    """SHA-256: enough for 256 random bits, and quick enough for every request."""
    return hashlib.sha256(secret.encode()).hexdigest()


class ApiKey(models.Model):
    """A key that lets a program ask in its person's name, with scopes and limits; the secret is kept as a hash."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="api_keys")
    parent = models.ForeignKey("self", models.CASCADE, null=True, blank=True, related_name="issued")
    """The key that asked for this one: it lives no longer, and its limits count. Null: a person made it."""
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=12)
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(default=timezone.now)
    used_at = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    scopes = models.JSONField(default=usual_scopes)
    """What it opens: chat, feedback, admin."""
    learns = models.BooleanField(default=True)
    """False: served only. Nothing that came through it is ever learned from."""
    checkpoint = models.ForeignKey(Checkpoint, models.PROTECT, null=True, blank=True, related_name="pinned_keys")
    """The checkpoint that answers this key whatever is live; null: the live one."""
    requests_per_minute = models.PositiveIntegerField(null=True, blank=True)
    tokens_per_day = models.PositiveBigIntegerField(null=True, blank=True)
    """Prompt and reply together; null: no limit."""
    refused_at = models.DateTimeField(null=True, blank=True)
    """When a request with this key was last refused: what is refused leaves no turn."""
    refusal_code = models.CharField(max_length=40, blank=True)
    refusal = models.CharField(max_length=500, blank=True)
    """Why, in words."""

    objects = ApiKeyManager()

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def why_closed(self) -> str:
        """Why this key opens nothing, in words; empty as long as it does."""
        if self.revoked_at:
            return _("This API key was revoked on %(when)s.") % {"when": moment(self.revoked_at)}
        if self.expires_at and self.expires_at <= timezone.now():
            return _("This API key expired on %(when)s.") % {"when": moment(self.expires_at)}
        if not self.user.is_active:
            return _("The account that this API key belongs to was closed.")
        return self.parent.why_closed if self.parent else ""

    @property
    def conversation(self) -> str:
        """The client's name of the one session to which all that comes through it belongs; empty: there may be many."""
        return self.name if self.parent_id else ""

    @property
    def payer(self) -> ApiKey:
        """The key whose limits count for this one."""
        return self.parent or self

    def revoke(self) -> None:
        """From the next request on this key opens nothing, for good. A reply that is being written is finished."""
        self.revoked_at = self.revoked_at or timezone.now()
        type(self).objects.filter(pk=self.pk, revoked_at=None).update(revoked_at=self.revoked_at)


KEYS: Prepared[ApiKey] = Prepared(
    lambda digest: ApiKey.objects.select_related("user", "parent__user").filter(digest=digest).order_by()
)
"""By their secret's digest."""
