"""Store the prompts that people save, and fill in their variables."""

from __future__ import annotations

import re

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower
from django.utils import timezone

from accounts.roles import may

MOST = 200
"""Prompts of one person, and shared ones: the composer's list holds all of them."""

LONGEST = 8000
"""Characters of a prompt."""

VARIABLE = re.compile(r"{{\s*(\w(?:[\w \-]{0,38}\w)?)\s*}}")
"""A word or a few between double braces, asked for when the prompt is used."""


class SavedPromptQuerySet(models.QuerySet["SavedPrompt"]):
    def visible_to(self, user: User | AnonymousUser) -> SavedPromptQuerySet:
        """The only door to prompts: a person's own, and the shared ones."""
        return self.filter(Q(user=user) | Q(is_shared=True)) if user.is_authenticated else self.none()

    def changeable_by(self, user: User | AnonymousUser) -> SavedPromptQuerySet:
        """A person's own that are not shared; the shared ones for operators."""
        if not user.is_authenticated:
            return self.none()
        own = Q(user=user, is_shared=False)
        return self.filter(own | Q(is_shared=True)) if may(user, "policies") else self.filter(own)


class SavedPrompt(models.Model):
    """A prompt under a name; {{variables}} in it are asked for when it is used."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="saved_prompts")
    name = models.CharField(max_length=60)
    text = models.TextField()
    is_shared = models.BooleanField(default=False)
    """Each person here can use it."""
    changed_at = models.DateTimeField(default=timezone.now)

    objects = SavedPromptQuerySet.as_manager()

    class Meta:
        ordering = (Lower("name"), "pk")
        constraints = (models.UniqueConstraint("user", Lower("name"), name="one_prompt_a_name"),)

    def __str__(self) -> str:
        return self.name

    @property
    def variables(self) -> list[str]:
        """The names of its variables, each once, in the order in which they stand there."""
        return find_variables(self.text)


def find_variables(text: str) -> list[str]:
    """The names between double braces, each once.

    >>> find_variables("Translate {{ text }} into {{language}}. Only {{text}}. {{}} {{ a{b }}")
    ['text', 'language']
    """
    return list(dict.fromkeys(found[1] for found in VARIABLE.finditer(text)))
