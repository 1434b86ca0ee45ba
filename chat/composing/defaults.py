"""Store how a person's new chats are answered."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import models


class ChatDefaults(models.Model):
    """The settings that a person's new chats begin with. No row: instructions of none, sampling as usual."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, related_name="chat_defaults")
    instructions = models.TextField(blank=True)
    """What the model is told before all that is said."""
    sampling = models.JSONField(default=dict, blank=True)
    """temperature, top_p, max_new_tokens, where they are set."""

    tools = models.JSONField(default=list, blank=True)
    """The tools that they may use (chat.tools.servers.Tool.id)."""

    def __str__(self) -> str:
        return f"settings of new chats of {self.user}"

    @classmethod
    def of(cls, user: User | AnonymousUser) -> ChatDefaults:
        """This person's, unsaved where they set none."""
        return cls.objects.filter(user=user.pk).first() or cls(user_id=user.pk or 0)

    @property
    def fields(self) -> dict[str, Any]:
        """As fields of a session that begins."""
        return {"instructions": self.instructions, "sampling": self.sampling, "tools": self.tools}
