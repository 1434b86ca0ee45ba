"""Store folders: a person's own names for groups of chats."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import models
from django.db.models.functions import Lower
from django.utils import timezone

MOST = 200
"""Folders of one person: the list of chats shows all of them."""


class FolderQuerySet(models.QuerySet["Folder"]):
    def visible_to(self, user: User | AnonymousUser) -> FolderQuerySet:
        """The only door to folders: a person's own."""
        return self.filter(user=user) if user.is_authenticated else self.none()


class Folder(models.Model):
    """A group of one person's chats. When it goes, its chats stay."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="folders")
    name = models.CharField(max_length=60)
    created_at = models.DateTimeField(default=timezone.now)

    objects = FolderQuerySet.as_manager()

    class Meta:
        ordering = (Lower("name"), "pk")
        constraints = (models.UniqueConstraint("user", Lower("name"), name="one_folder_a_name"),)

    def __str__(self) -> str:
        return self.name
