"""Store sessions and turns."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.db import models, transaction
from django.dispatch import Signal
from django.utils import timezone
from django.utils.translation import gettext as _

from chat.api_keys import ApiKey
from chat.composing.defaults import ChatDefaults  # noqa: F401  # Django finds an app's tables through this module
from chat.composing.prompts import SavedPrompt  # noqa: F401  # the same
from chat.imports.import_rows import Import  # noqa: F401  # the same
from chat.listing.folders import Folder
from chat.operator_rules import ClientRules  # noqa: F401  # the same
from chat.search.passages import Passage  # noqa: F401  # the same
from chat.spendings import Spending  # noqa: F401  # the same
from chat.tools.calls import ToolCall, ToolLease  # noqa: F401  # the same, of the second
from chat.tools.servers import ToolServer  # noqa: F401  # the same
from chat.usual_consent import Consent  # noqa: F401  # the same
from checkpoints.models import Checkpoint
from core.columns import LongJSON
from core.states import Stateful
from gpu_workers.types import Sampling

deleting = Signal()
"""The session with the number `pk` is about to be deleted, in a transaction that has locked nothing yet."""


def completion_id() -> str:
    return f"chatcmpl-{uuid.uuid4().hex}"


class SessionQuerySet(models.QuerySet["Session"]):
    def visible_to(self, user: User | AnonymousUser) -> SessionQuerySet:
        """The only door to sessions: a person's own, without those in the bin."""
        return self.filter(user=user, deleted_at=None) if user.is_authenticated else self.none()

    def in_bin(self, user: User | AnonymousUser) -> SessionQuerySet:
        """A person's own that they deleted, as long as they can be taken back."""
        return self.filter(user=user).exclude(deleted_at=None) if user.is_authenticated else self.none()


class Session(models.Model):
    """A conversation of one person, on a page or through an API key."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="sessions")
    key = models.ForeignKey(ApiKey, models.SET_NULL, null=True, blank=True, related_name="sessions")
    """The API key it came through; null for the browser."""
    external_id = models.CharField(max_length=200, blank=True)
    """What the client calls it."""
    client = models.CharField(max_length=40, blank=True)
    """The rule file that knew the client (chat.clients); empty for the browser."""
    named_by = models.CharField(max_length=40, blank=True)
    """How it was found: header, runtime line, affinity, user, history …"""
    title = models.CharField(max_length=120, blank=True)
    learns = models.BooleanField(default=True)
    """False: nothing said here is ever learned from."""
    head = models.UUIDField(null=True, blank=True)
    """The turn whose branch the page shows; null, or one that is gone: the newest one's."""
    instructions = models.TextField(blank=True)
    """What the model is told before all that is said (chat.composing.terms)."""
    sampling = models.JSONField(default=dict, blank=True)
    """temperature, top_p, max_new_tokens, where they are not the usual ones."""
    tools = models.JSONField(default=list, blank=True)
    """The tools that it may use (chat.tools.servers.Tool.id); none by default."""
    granted = models.JSONField(default=list, blank=True)
    """Those of them that its person always allows here (Tool.grant)."""
    checkpoint = models.ForeignKey(Checkpoint, models.PROTECT, null=True, blank=True, related_name="pinned_chats")
    """The checkpoint that answers here whatever is live; null: the live one."""
    created_at = models.DateTimeField(default=timezone.now)
    active_at = models.DateTimeField(default=timezone.now, db_index=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    folder = models.ForeignKey(Folder, models.SET_NULL, null=True, blank=True, related_name="sessions")
    pinned_at = models.DateTimeField(null=True, blank=True)
    archived_at = models.DateTimeField(null=True, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)
    """When its person put it into the bin, from which a sweep deletes it (privacy.bin)."""
    was_learning = models.BooleanField(default=False)
    """What `learns` was when it went into the bin: there, nothing of it teaches."""
    imported_as = models.CharField(max_length=64, blank=True)
    """Digest of the chat that it was imported from, by which a second import knows it; empty for others."""

    objects = SessionQuerySet.as_manager()

    class Meta:
        ordering = ("-active_at",)
        constraints = (
            models.UniqueConstraint(
                fields=("key", "external_id"),
                condition=~models.Q(external_id="") & models.Q(deleted_at=None),
                name="one_session_a_name",
            ),
            models.UniqueConstraint(
                fields=("user", "imported_as"), condition=~models.Q(imported_as=""), name="one_import_a_chat"
            ),
        )
        indexes = (
            models.Index(fields=("active_at",), condition=models.Q(closed_at=None), name="open_sessions"),
            models.Index(fields=("user", "-active_at", "-id"), name="sessions_of_people"),
            models.Index(fields=("deleted_at",), condition=~models.Q(deleted_at=None), name="sessions_in_bin"),
        )

    def __str__(self) -> str:
        return self.title or _("New chat")

    @transaction.atomic
    def delete(self, *args: Any, **options: Any) -> tuple[int, dict[str, int]]:
        """With its turns, and whatever was made of them. Locked before they are, as everywhere (sessions.locked)."""
        deleting.send(Session, pk=self.pk)
        Session.objects.select_for_update().filter(pk=self.pk).first()
        return super().delete(*args, **options)

    @property
    def group(self) -> str:
        """The channel layer's name for everyone who watches this session."""
        return group_of(self.pk)


def group_of(session: uuid.UUID) -> str:
    return f"session.{session.hex}"


class TurnQuerySet(models.QuerySet["Turn"]):
    def visible_to(self, user: User | AnonymousUser) -> TurnQuerySet:
        """The only door to turns: those of a person's own sessions, without those in the bin."""
        if not user.is_authenticated:
            return self.none()
        return self.filter(session__user=user, session__deleted_at=None)

    def trainable(self) -> TurnQuerySet:
        """`Turn.is_trainable`, asked of the database."""
        return self.filter(
            line=Turn.Line.MAIN,
            learns=True,
            session__learns=True,
            finish_reason__in=("stop", "tool_calls"),
            pictures=0,
        ).exclude(response_ids=[])


class Turn(Stateful):
    """One reply, with all that its prompt was made of."""

    class Status(models.TextChoices):
        ANSWERING = "answering"  # the engine is at work
        SERVED = "served"  # the reply is whole
        OBSERVED = "observed"  # a next state or feedback arrived
        JUDGED = "judged"  # a verdict stands
        CLOSED = "closed"  # nothing to learn: stopped, failed, or the session ended

    MOVES: ClassVar = {
        Status.ANSWERING: {Status.SERVED, Status.CLOSED},
        Status.SERVED: {Status.OBSERVED, Status.CLOSED, Status.ANSWERING},  # a cut reply is continued
        Status.OBSERVED: {Status.JUDGED, Status.CLOSED},
        Status.JUDGED: {Status.OBSERVED},  # late feedback re-opens the verdict
        # Feedback on a stopped reply, or on a closed session; the last step of an episode; or the client tries the
        # same request again.
        Status.CLOSED: {Status.OBSERVED, Status.JUDGED, Status.ANSWERING},
    }

    class Line(models.TextChoices):
        MAIN = "main"  # may teach
        SIDE = "side"  # may not: titles, summaries, heartbeats

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    completion_id = models.CharField(max_length=64, unique=True, default=completion_id, editable=False)
    session = models.ForeignKey(Session, models.CASCADE, related_name="turns")
    follows = models.ForeignKey("self", models.SET_NULL, null=True, blank=True, related_name="followers")
    """The turn whose history this one continues."""
    position = models.PositiveIntegerField()
    status = models.CharField(max_length=12, choices=Status, default=Status.ANSWERING, db_index=True)
    line = models.CharField(max_length=4, choices=Line, default=Line.MAIN)
    kind = models.CharField(max_length=40, blank=True)
    """What sort of request it was, in its rule file's words: main, title, recap, heartbeat …"""
    rule = models.CharField(max_length=80, blank=True)
    """The rule that said so, as client/rule."""
    sorted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="sorted_turns"
    )
    """The person who corrected main or side; null while the rule's word stands."""
    protocol = models.CharField(max_length=12, blank=True)
    """The door it came by: chat, responses, messages; empty for the browser."""
    request_key = models.CharField(max_length=64, blank=True, db_index=True)
    """Digest of the request, or of its idempotency key: by it a retry is known."""
    learns = models.BooleanField(default=True)
    """False: no run may learn from it, whether its person, its key or its client said so."""
    withheld = models.BooleanField(default=False)
    """Its person said no themselves, to it or to its key: no reviewer's undo puts it back."""
    checkpoint = models.ForeignKey(Checkpoint, models.PROTECT, related_name="turns")
    messages = LongJSON()
    """The whole request as it was given, OpenAI's shape; the last ones are what the person or a tool said."""
    tools = LongJSON(default=list, blank=True)
    chain = models.CharField(max_length=64, blank=True, db_index=True)
    """What a request that continues this turn has as its history (stories.chain); empty until the reply is whole."""
    request_chain = models.CharField(max_length=64, blank=True)
    """The same of the request alone, by which another try at it is known; empty for side requests."""
    asked = models.JSONField(default=dict, blank=True)
    """What else the request asked for: tool_choice, schema, metadata, …; what was not asked for is left out."""
    text = models.TextField(blank=True)
    """The reply's words, without its reasoning and its tool calls."""
    message = models.JSONField(default=dict, blank=True)
    """The reply as it was returned, OpenAI's shape: content, reasoning_content, tool_calls."""
    marks = models.JSONField(default=list, blank=True)
    """What was odd: call_unparsed, grammar, …"""
    prompt_ids = LongJSON(default=list, blank=True)
    pictures = models.PositiveSmallIntegerField(default=0)
    """How many stand in its prompt (chat.pictures); of such a turn nothing trains yet."""
    response_ids = LongJSON(default=list, blank=True)
    logprobs = models.JSONField(default=list, blank=True)
    """As sampled, at `sampling["temperature"]`, one a response id."""
    sampling = models.JSONField(default=dict, blank=True)
    finish_reason = models.CharField(max_length=12, blank=True)
    """stop | tool_calls | length | abort | error"""
    error = models.TextField(blank=True)
    """What went wrong, for the person."""
    cached_tokens = models.PositiveIntegerField(default=0)
    weight_version = models.CharField(max_length=80, blank=True)
    first_token_s = models.FloatField(null=True, blank=True)
    """From the request's arrival to the first token that left."""
    next_state = models.JSONField(default=list, blank=True)
    """The messages that came back after the reply: a user's, or all parallel tool results."""
    writer = models.CharField(max_length=32, blank=True)
    """The process that writes, or wrote, the reply (chat.replying.writers)."""
    created_at = models.DateTimeField(default=timezone.now)
    served_at = models.DateTimeField(null=True, blank=True)
    observed_at = models.DateTimeField(null=True, blank=True)

    objects = TurnQuerySet.as_manager()

    repeated = False
    """True on a turn that `asking.open_turns` found in place of opening it: the same message was sent before."""

    waits = False
    """True while its reply is being written and the engine does not answer (chat.replying.replies)."""
    heard_at = 0.0
    """When its engine last answered that it cannot write the reply yet, on the monotonic clock."""

    # What `branches.draw` and the session's socket work out for a page. No columns: a turn that was not drawn has none.
    said: list[dict[str, Any]]
    made: list[ToolCall]
    at_work: bool
    branching: bool
    place_id: str
    wordings: Any

    class Meta:
        ordering = ("position", "created_at")
        constraints = (models.UniqueConstraint(fields=("session", "position"), name="one_turn_a_position"),)
        indexes = (
            models.Index(fields=("created_at", "rule", "id"), name="turns_by_time"),
            # What pages count over all turns is read out of these alone: a turn's row holds its whole conversation.
            models.Index(fields=("status", "moved_at"), name="turns_by_state"),
            models.Index(
                fields=("session", "line", "learns", "id", "finish_reason", "created_at"), name="turns_of_sessions"
            ),
            models.Index(fields=("id", "status", "learns", "line", "session"), name="turns_by_key"),
            models.Index(fields=("session",), condition=models.Q(learns=False), name="turns_off_record"),
        )

    def __str__(self) -> str:
        return f"turn {self.position} of {self.session}"

    def sampled_with(self, most_tokens: int) -> Sampling:
        """Sampling settings as this turn was drawn with, of at most `most_tokens` new tokens."""
        drawn_with = dict(self.sampling)
        for name in ("stop", "stop_token_ids"):
            if name in drawn_with:
                drawn_with[name] = tuple(drawn_with[name])
        drawn_with["max_new_tokens"] = min(drawn_with.get("max_new_tokens", most_tokens), most_tokens)
        return Sampling(**drawn_with)

    @property
    def client(self) -> str:
        """The rule file that sorted it; empty for the browser."""
        return self.rule.partition("/")[0]

    @property
    def is_whole(self) -> bool:
        """The reply ended by itself, or at its length limit: neither stopped nor failed."""
        return self.finish_reason in ("stop", "length", "tool_calls")

    @property
    def is_cut(self) -> bool:
        """The reply came to its length limit: it is half a reply."""
        return self.finish_reason == "length"

    @property
    def may_continue(self) -> bool:
        """It was cut, and nothing came back to it: no message, no feedback, so that no sample stands either."""
        is_untouched = self.status == self.Status.SERVED and self.observed_at is None and not self.next_state
        return self.is_cut and is_untouched and self.line == self.Line.MAIN and not self.pictures

    @property
    def is_continued(self) -> bool:
        """The rest of a cut reply is being written, behind what is on the row already (chat.replying.continuing)."""
        return self.status == self.Status.ANSWERING and "continued" in self.asked

    @property
    def is_trainable(self) -> bool:
        """A whole main-line reply in a session that may teach. One that was stopped is not, nor one that was cut: that
        teaches what a person asks for (judge.samples.sample_rows.unfit), and no reward."""
        return (
            self.line == self.Line.MAIN
            and self.learns
            and self.session.learns
            and self.finish_reason in ("stop", "tool_calls")
            and bool(self.response_ids)
            and not self.pictures
        )
