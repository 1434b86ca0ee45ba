"""Diagnose a connection: whether what comes through a key can teach, and if not, why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext, pgettext

from chat.api_keys import ApiKey
from chat.models import Turn
from core.moments import moment
from judge.votes import judges

TEST_SESSION = "talkback-connection-test"
"""The session of the page's own test requests, which say nothing of the client."""

LOOKED_AT = 50
"""How many of the newest turns are asked why they cannot teach."""

ADVICE = {
    "context_length_exceeded": gettext_lazy(
        "The client's own prompt is too large for this model. For OpenClaw take the block of this page, which trims "
        "the agent; or run a model with a larger window: make up MODEL=…"
    ),
    "model_not_found": gettext_lazy(
        "Give the client the name of a model that answers: the blocks of this page have it."
    ),
    "invalid_api_key": gettext_lazy("Make another key here, and put it into the client."),
    "insufficient_scope": gettext_lazy("Make a key with that scope, and put it into the client."),
    "rate_limit_exceeded": gettext_lazy("Wait, or make a key with other limits."),
    "invalid_messages": gettext_lazy("The model's chat template decides which roles may follow each other."),
    "engine_unavailable": gettext_lazy("The engine may still be loading its model. See /readyz, or the engine's log."),
    "engine_overloaded": gettext_lazy("The engine is full: wait a little."),
}
"""What to do, by an error's code."""


@dataclass(frozen=True)
class Reason:
    """One thing that keeps turns from teaching."""

    words: str
    advice: str = ""
    count: int = 0


@dataclass(frozen=True)
class Light:
    color: str
    """grey: nothing came yet. amber: it came, and cannot teach. green: a turn can."""
    sentence: str
    reasons: tuple[Reason, ...] = ()
    newest: datetime | None = None
    """When the last request came."""
    first: Turn | None = None
    """The first turn that can teach."""


def light(key: ApiKey) -> Light:
    """Green from the first main-line reply that ended by itself, may be learned from, and was answered by a next
    message or by feedback: less than that leaves nothing to learn."""
    came = Turn.objects.filter(session__key=key).exclude(session__external_id=TEST_SESSION)
    newest = came.order_by("-created_at").values_list("created_at", flat=True).first()
    troubles = (*closed(key), *serve_only(key), *refused(key, newest))
    teaching = answered(came)
    if first := next((turn for turn in teaching[:5] if turn.is_trainable), None):
        number = teaching.count()
        said = ngettext("Connected: %(n)s turn can teach.", "Connected: %(n)s turns can teach.", number) % {"n": number}
        return Light("green", said, (*troubles, *whose_words()), newest, first)
    if newest is not None:
        reasons = (*troubles, *why_not(came))
        return Light("amber", _("Requests come, and nothing of them can teach yet."), reasons, newest)
    if key.why_closed or key.refused_at:
        return Light("amber", _("No request for a reply has got through yet."), troubles)
    return Light("grey", _("Nothing has come through this key yet."), troubles)


def answered(came: QuerySet[Turn]) -> QuerySet[Turn]:
    """Turns that can teach, oldest first, as far as the database can tell: `is_trainable` has the last word."""
    able = came.filter(line=Turn.Line.MAIN, learns=True, session__learns=True)
    able = able.filter(status__in=(Turn.Status.OBSERVED, Turn.Status.JUDGED), finish_reason__in=("stop", "tool_calls"))
    shown = (
        able.filter(pictures=0)
        .select_related("session")
        .only(*("line", "learns", "session", "finish_reason", "response_ids", "pictures", "created_at"))
    )
    return shown.order_by("created_at")


def closed(key: ApiKey) -> list[Reason]:
    return [Reason(key.why_closed, str(ADVICE["invalid_api_key"]))] if key.why_closed else []


def refused(key: ApiKey, newest: datetime | None) -> list[Reason]:
    """The last refusal, as long as nothing has got through since."""
    if key.refused_at is None or (newest and newest > key.refused_at):
        return []
    words = _("The last request was refused (%(code)s, %(at)s): %(why)s") % {
        "code": key.refusal_code,
        "at": moment(key.refused_at),
        "why": key.refusal,
    }
    return [Reason(words, str(ADVICE.get(key.refusal_code, "")))]


def serve_only(key: ApiKey) -> list[Reason]:
    if key.learns:
        return []
    advice = _("For a client that should teach, make a key that learns.")
    return [Reason(_("This key is serve-only: nothing that comes through it is learned from."), advice)]


def whose_words() -> list[Reason]:
    """What the smallest installation makes of turns that can teach."""
    if judges.teaches():
        return []
    words = _("Here people's thumbs and corrections become lessons. What the client says next is judged and shown.")
    return [Reason(words, _("To have that teach as well, name a better judge (JUDGES), or set JUDGE_TEACHES=1."))]


def why_not(came: QuerySet[Turn]) -> list[Reason]:
    """Why the newest turns cannot teach, the commonest reason first."""
    fields = (
        "status",
        "line",
        "kind",
        "rule",
        "sorted_by",
        "learns",
        "finish_reason",
        "error",
        "pictures",
        "session__learns",
    )
    turns = came.select_related("session", "sorted_by").only(*fields, "sorted_by__username", "session__key")
    counts = Counter(why(turn) for turn in turns.order_by("-created_at")[:LOOKED_AT])
    return [Reason(words, advice, count) for (words, advice), count in counts.most_common()]


def why(turn: Turn) -> tuple[str, str]:
    """Why this turn cannot teach yet, and what to do about it."""
    if turn.line == Turn.Line.SIDE:
        if turn.sorted_by:
            words = _("sorted as side by %(who)s") % {"who": turn.sorted_by}
        elif turn.rule:
            words = _("sorted as side by the rule %(rule)s") % {"rule": turn.rule}
        else:
            words = _("sorted as side by the client")
        return words, _("Titles, summaries and the like never teach. Send a message in a conversation.")
    if not turn.session.learns:
        return _("in a conversation off the record"), _("Open it in the chat, and choose Learn from this chat again.")
    if not turn.learns:
        return _("sent not to be learned from"), _("Its key was serve-only, or the request asked so.")
    if turn.status == Turn.Status.ANSWERING:
        return _("still being written"), ""
    if turn.is_cut:
        return (
            _("cut at the reply's length"),
            _("Guidance or a rewrite teaches; a thumb or a vote does not. Raise the client's limit (max_tokens)."),
        )
    if turn.finish_reason == "abort":
        return (
            _("stopped before the reply's end"),
            _("Half a reply teaches nothing: the reader left, or a person stopped it."),
        )
    if turn.finish_reason not in ("stop", "tool_calls"):
        return _("failed: %(why)s") % {"why": turn.error or _("the log says more")}, ""
    if turn.status == Turn.Status.SERVED:
        advice = _("Say something more in the same conversation, or give the reply a thumb or a correction.")
        return _("whole, and nothing has come back to the reply yet"), advice
    if turn.status == Turn.Status.CLOSED:
        return _("whole, and the session was closed before anything came back"), _("Feedback opens it again.")
    if turn.pictures:
        return _("its prompt holds a picture"), _("The learner reads text only: replies to messages in words teach.")
    return pgettext("reply", "empty"), _("The model ended its reply before it said anything.")
