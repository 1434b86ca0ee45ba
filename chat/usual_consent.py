"""Keep what a person allows by default."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import models
from django.utils import timezone

from core.prepared import Prepared


class Consent(models.Model):
    """What a person allows by default; a session, a key and a message may still say no. No row: LEARN_BY_DEFAULT."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="consent")
    learns = models.BooleanField(default=True)
    """False: new conversations and keys begin off the record."""
    changed_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"consent of {self.user}"

    @classmethod
    def by_default(cls, user: User | AnonymousUser) -> bool:
        """Whether what this person begins may be learned from, unless they say otherwise there."""
        said = CONSENTS.first(user.pk)
        return settings.LEARN_BY_DEFAULT if said is None else said.learns


CONSENTS: Prepared[Consent] = Prepared(lambda user: Consent.objects.filter(user=user).order_by())
"""By their person's number: every new conversation asks."""
