"""Keep operators' own rules for clients."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils import timezone


class ClientRules(models.Model):
    """An operator's rule file for one client: it comes before the shipped ones."""

    name = models.CharField(max_length=40, unique=True)
    source = models.TextField()
    """TOML, as in chat/clients/."""
    changed_at = models.DateTimeField(default=timezone.now)
    changed_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")

    class Meta:
        ordering = ("name",)
        verbose_name_plural = "client rules"

    def __str__(self) -> str:
        return self.name
