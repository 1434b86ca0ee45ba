"""Store the MCP servers of this installation, what each lists, and what an operator lets chats use of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone

from core.mcp.offered import Listed, Offered, visible_in
from core.sealed import seal, unseal
from core.visible import visible

TOKENS = "tool servers"
"""What their tokens are sealed for."""


MOST_KEPT = 8000
"""Characters of a description that are kept; a model is given fewer."""


@dataclass(frozen=True)
class Tool:
    """One tool of a server, as its definition is read now. Its words are the server's: data, escaped or marked."""

    server: ToolServer
    name: str
    """What the server calls it."""
    function: Mapping[str, Any]
    """{"name", "description", "parameters"} in OpenAI's form."""

    @property
    def description(self) -> str:
        return str(self.function["description"])

    @property
    def id(self) -> str:
        """By which a chat names it."""
        return f"{self.server.pk}/{self.name}"

    @cached_property
    def definition(self) -> str:
        """Digest of what it says of itself: a tool that becomes another is asked about again."""
        said = json.dumps([self.name, self.description, self.function["parameters"]], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()[:16]

    @property
    def grant(self) -> str:
        """What a chat keeps where its person always allows it."""
        return f"{self.id}/{self.definition}"

    @property
    def is_on(self) -> bool:
        return self.name not in self.server.off

    @property
    def is_safe(self) -> bool:
        """An operator said of this very definition that it only reads, so that no person need be asked."""
        return bool(self.server.safe.get(self.name) == self.definition)


class ToolServer(models.Model):
    """An MCP server that chats may use: at an address, or a program of the installation's file (TOOLS_FILE)."""

    name = models.CharField(max_length=40, unique=True)
    url = models.CharField(max_length=500, blank=True)
    """Empty: the file names a command. No form can."""
    token = models.TextField(blank=True)
    """Sent as `Authorization: Bearer`; sealed (core.sealed). Empty: none."""
    listed = models.JSONField(default=list, blank=True)
    """[{"name", "description", "schema"}] as the server said last, without what cannot be offered."""
    left_out = models.JSONField(default=list, blank=True)
    """A sentence for each of its tools that cannot be offered."""
    off = models.JSONField(default=list, blank=True)
    """Names of tools that no chat may use."""
    safe = models.JSONField(default=dict, blank=True)
    """Names of tools that need no person's yes, each with the definition of which that was said."""
    fault = models.TextField(blank=True)
    """Why it could not be reached the last time; empty where it could."""
    looked_at = models.DateTimeField(null=True, blank=True)
    added_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+")
    added_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def is_program(self) -> bool:
        """Whether the installation's file says how it is started."""
        return not self.url

    def seal_token(self, token: str) -> None:
        self.token = seal(token, TOKENS) if token else ""

    @property
    def headers(self) -> dict[str, str]:
        """What is sent with each request. Raises ValueError where SECRET_KEY is another now."""
        return {"Authorization": f"Bearer {unseal(self.token, TOKENS)}"} if self.token else {}

    @property
    def tools(self) -> list[Tool]:
        """All that it lists and that can be offered, on or off."""
        offered = Offered()
        offered.read(Listed(one["name"], one["description"], one["schema"]) for one in self.listed)
        return [
            Tool(self, offered.original(given), definition["function"]) for given, definition in offered.tools.items()
        ]

    def keep_list(self, listed: Iterable[Listed]) -> str:
        """Write down what the server lists now; returns what is different from before, empty where nothing is."""
        offered = Offered()
        offered.read(Listed(one["name"], one["description"], one["schema"]) for one in self.listed)
        given = [Listed(tool.name, tool.description[:MOST_KEPT], tool.schema) for tool in listed]
        changed = offered.read(given)
        if self.looked_at and not (changed or self.fault or offered.left_out[:20] != self.left_out):
            return ""
        kept = {offered.original(name) for name in offered.tools}
        first = {tool.name: tool for tool in reversed(given) if tool.name in kept}  # of two with one name the first
        self.listed = [
            # Marked before it is stored: PostgreSQL keeps no NUL.
            {"name": tool.name, "description": visible(tool.description), "schema": visible_in(tool.schema)}
            for tool in given
            if first.get(tool.name) is tool
        ]
        self.left_out, self.fault, self.looked_at = offered.left_out[:20], "", timezone.now()
        self._write("listed", "left_out", "fault", "looked_at")
        return changed

    def keep_fault(self, fault: str) -> None:
        """Write down that it could not be reached; what it listed before stays."""
        self.fault, self.looked_at = fault[:1000], timezone.now()
        self._write("fault", "looked_at")

    def _write(self, *fields: str) -> None:
        """Write these down, unless the server was removed meanwhile."""
        type(self).objects.filter(pk=self.pk).update(**{name: getattr(self, name) for name in fields})
