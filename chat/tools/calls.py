"""Store the tool calls of a chat's replies: what was asked for, whether its person said yes, and what came back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar
from uuid import UUID

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext as _

from chat.tools.servers import ToolServer
from core.visible import visible

START_S, CALL_S = 20.0, 60.0
"""How long a server may take to shake hands, and a tool to answer."""

NOT_ASKED = "This call was not run: the conversation went on without it."
BROKEN_OFF = (
    "Error: Talkback was stopped while this tool was at work. Whether the call had an effect is not known, and it is "
    "not made again by itself."
)
NO_ANSWERS = tuple(f"Error: {who}" for who in ("The server ", "The tool ", "the tool", "TOOLS_FILE ", "Talkback "))
"""How results begin that say what became of the tool or its server."""


class ToolCall(models.Model):
    """One call of one reply. What its server answered stands in the next request too, as the model was given it."""

    class Status(models.TextChoices):
        WAITING = "waiting"  # for its person's word
        ALLOWED = "allowed"  # its turn comes
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"  # `result` says why, to the model and to its person
        BROKEN = "broken"  # its process was gone before it was over
        REFUSED = "refused"
        STOPPED = "stopped"

    OPEN: ClassVar = (Status.WAITING, Status.ALLOWED, Status.RUNNING)
    AT_WORK: ClassVar = (Status.ALLOWED, Status.RUNNING)

    turn = models.ForeignKey("chat.Turn", models.CASCADE, related_name="calls")
    place = models.PositiveSmallIntegerField()
    """Which of the reply's calls it is, from 0."""
    call_id = models.CharField(max_length=100, blank=True)
    server = models.ForeignKey(ToolServer, models.SET_NULL, null=True, blank=True, related_name="+")
    """Null: there is none, or no more."""
    tool = models.CharField(max_length=300, blank=True)
    """What its server calls the tool."""
    grant = models.CharField(max_length=400, blank=True)
    """What its person allows with "always" (Tool.grant)."""
    name = models.CharField(max_length=128)
    """What the model called."""
    arguments = models.TextField(blank=True)
    """As the model wrote them, JSON text where it wrote well."""
    status = models.CharField(max_length=8, choices=Status, default=Status.WAITING)
    result = models.TextField(blank=True)
    """What the model reads of it: bounded, and nothing hidden in it."""
    started_at = models.DateTimeField(null=True, blank=True)
    """When it was allowed, and then when it was sent."""
    seconds = models.FloatField(null=True, blank=True)

    class Meta:
        ordering = ("turn", "place")
        constraints = (models.UniqueConstraint(fields=("turn", "place"), name="one_call_a_place"),)

    def __str__(self) -> str:
        return f"call {self.place} of {self.turn_id}"

    @property
    def is_open(self) -> bool:
        return self.status in self.OPEN

    @property
    def is_of_server(self) -> bool:
        """Whether it failed because its server did."""
        return self.status == self.Status.FAILED and self.result.startswith("Error: The server ")

    @property
    def shown_arguments(self) -> str:
        """For a page: JSON with an argument a line where it is JSON. Who says yes to a call sees all of it, so nothing
        hides in it, nor turns it around."""
        try:
            return visible(json.dumps(json.loads(self.arguments), ensure_ascii=False, indent=1))
        except (ValueError, RecursionError):
            return visible(self.arguments)

    @property
    def is_answered(self) -> bool:
        """Whether what the model reads says something of the call: its tool, its person, or what was wrong with it."""
        if self.status == self.Status.FAILED:
            return not self.result.startswith(NO_ANSWERS)
        return self.status in (self.Status.DONE, self.Status.REFUSED)

    @property
    def answer(self) -> str:
        """What the model reads of it."""
        return self.result or NOT_ASKED

    @property
    def state(self) -> str:
        """For a page, in a word or two."""
        words = {
            self.Status.WAITING: _("waits for you"),
            self.Status.ALLOWED: _("next"),
            self.Status.RUNNING: _("at work"),
            self.Status.DONE: _("done"),
            self.Status.FAILED: _("failed"),
            self.Status.BROKEN: _("broken off"),
            self.Status.REFUSED: _("refused"),
            self.Status.STOPPED: _("stopped"),
        }
        return words[self.Status(self.status)]


class ToolLease(models.Model):
    """Which process has a reply and its tools in hand (chat.tools.leases). The row goes once nothing is left to do, or
    a person is to be asked."""

    turn = models.OneToOneField("chat.Turn", models.CASCADE, related_name="lease")
    holder = models.CharField(max_length=32, blank=True)
    """The process, as chat.replying.writers names it."""
    tries = models.PositiveSmallIntegerField(default=0)
    """How often it was taken from a process that was gone."""
    beat_at = models.DateTimeField(default=timezone.now)
    """When its holder was last heard of."""

    def __str__(self) -> str:
        return f"lease of {self.turn_id}"


def of_turns(turns: Iterable[UUID | None]) -> dict[UUID, list[ToolCall]]:
    """The calls of each of these turns that has any, in order."""
    found: dict[UUID, list[ToolCall]] = {}
    rows = ToolCall.objects.filter(turn__in=[pk for pk in turns if pk]).select_related("server")
    # Of a server a page shows the name: what it lists may be as long as a book.
    for call in rows.defer(*(f"server__{name}" for name in ("listed", "left_out", "off", "safe", "token", "fault"))):
        found.setdefault(call.turn_id, []).append(call)
    return found


def is_at_work(calls: Iterable[ToolCall]) -> bool:
    """Whether calls of one reply run, or are about to: none does as long as one of them waits for its person."""
    states = {call.status for call in calls}
    return not states.isdisjoint(ToolCall.AT_WORK) and ToolCall.Status.WAITING not in states


def results_of(message: dict[str, Any], calls: Iterable[ToolCall]) -> list[dict[str, Any]]:
    """The messages that answer each of a reply's calls, in order: a history without one is none."""
    known = {call.place: call for call in calls}
    made = message.get("tool_calls") or []
    return [
        {"role": "tool", "tool_call_id": call.get("id", ""), "content": known[n].answer if n in known else NOT_ASKED}
        for n, call in enumerate(made)
    ]


def answered_in(turn: Any, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What came back after a reply, without what Talkback says in the place of a tool's answer: that a server failed,
    or that a call was stopped or broken off, is no fault of the reply's."""
    # Where a client says what continues what (chat.branches.has_branches), it runs its tools itself.
    if all(message.get("role") != "tool" for message in messages) or turn.session.key_id or turn.session.named_by:
        return list(messages)
    silent = {call.call_id for call in ToolCall.objects.filter(turn=turn.pk) if not call.is_answered}
    return [one for one in messages if one.get("role") != "tool" or one.get("tool_call_id", "") not in silent]
