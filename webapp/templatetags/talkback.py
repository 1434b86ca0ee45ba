"""Find and format what every page shows of a turn: its journey, its feedback, who answers now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django import template
from django.db.models import Q
from django.template import Context
from django.utils.safestring import SafeString

from chat.models import Turn
from chat.rendering import markdown
from checkpoints.models import Checkpoint
from feedback import reasons
from feedback.models import Feedback
from judge.models import Hint
from privacy.models import Erasure
from webapp.console.review import differences
from webapp.console.review.differences import Change
from webapp.journeys import known as journeys
from webapp.journeys.barring import barred
from webapp.people import taught
from webapp.people.taught import Worded

register = template.Library()


@register.simple_tag(takes_context=True)
def with_learning(context: Context, turns: Iterable[Turn]) -> list[Turn]:
    """The turns, each knowing its journey and what this person said of it, in a fixed number of queries."""
    known_turns: list[Any] = list(turns)
    hints = journeys.hints_on([turn.pk for turn in known_turns]) if known_turns else []
    known = journeys.journeys(known_turns, hints)
    said, heard = opinions(known_turns, context["user"]), taught.heard_among(hints)
    for turn in known_turns:
        turn.journey, turn.opinions, turn.heard = known[turn.pk], said[turn.pk], heard.get(turn.pk, [])
    return known_turns


@register.inclusion_tag("chat/_chip.html", takes_context=True)
def chip(context: Context, turn: Turn) -> dict[str, Any]:
    """How far this turn has come."""
    known = getattr(turn, "journey", None)
    shown = {"turn": turn, "journey": known or journeys.journey(turn)}
    return shown | {name: context.get(name) for name in ("user", "csrf_token")}


@register.simple_tag(takes_context=True)
def recent_guidance(context: Context) -> list[str]:
    """What this person asked for lately."""
    return Feedback.objects.recent_guidance(context["user"])


@register.simple_tag(takes_context=True)
def why_not_taught(context: Context, turn: Turn) -> str:
    """Why nothing that is written beside this reply will teach; empty where it may."""
    known = getattr(turn, "journey", None) or journeys.journey(turn)
    return barred(turn, spent=known.spent, is_erased=is_leaving(context["user"]))


@register.simple_tag(takes_context=True)
def opened_on(context: Context, turn: Turn) -> str:
    """What of this reply is to be shown open, for a browser without scripts: teach, marks, or nothing."""
    what, _, pk = str(context.get("opened") or "").partition("-")
    return {"teach": "teach", "marking": "marks"}.get(what, "") if pk == str(turn.pk) else ""


def is_leaving(user: Any) -> bool:
    """Whether this person has asked that all that is theirs be deleted, and it is being done."""
    return Erasure.objects.filter(user=user, status=Erasure.Status.ASKED).exists()


@register.simple_tag(takes_context=True)
def opinions_on(context: Context, turn: Turn) -> dict[str, Feedback]:
    """What this person says of the turn, by kind."""
    known = getattr(turn, "opinions", None)
    return known if known is not None else opinions([turn], context.get("user"))[turn.pk]


@register.simple_tag
def reason_tags(thumb: Feedback) -> list[str]:
    """What may be said to be wrong, or right: what everybody knows, and what this person added."""
    return reasons.list_tags(thumb.tags, thumb.value)


@register.simple_tag(takes_context=True)
def words_of(context: Context, turn: Turn) -> SafeString:
    """The reply's words as the page shows them; of a whole reply each knows its place, and this person's marks are
    drawn."""
    if turn.status == Turn.Status.ANSWERING or not turn.is_whole:
        return markdown.render(turn.text)
    return markdown.render_marked(turn.text, tuple(tuple(span) for span in spans_on(context, turn)))


@register.filter
def as_markdown(content: object) -> SafeString:
    """A person's own message, as replies are shown."""
    return markdown.render_said(content)


@register.simple_tag(takes_context=True)
def marks_on(context: Context, turn: Turn) -> list[dict[str, Any]]:
    """This person's marks on the turn, each with its words."""
    return marks(spans_on(context, turn), turn)


@register.filter
def marks_in(said: Feedback) -> list[dict[str, Any]]:
    """The marks of one row, each with its words."""
    return marks(said.spans, said.turn)


@register.simple_tag
def changes(turn: Turn, rewrite: str) -> list[Change]:
    """What a rewrite changes of the reply, word by word."""
    return differences.merged(turn.text, rewrite)


def spans_on(context: Context, turn: Turn) -> list[list[int]]:
    said = opinions_on(context, turn).get("marks")
    return said.spans if said else []


def marks(spans: Iterable[list[int]], turn: Turn) -> list[dict[str, Any]]:
    return [
        {"start": start, "end": end, "good": sign > 0, "words": turn.text[start:end].strip() or "␣"}
        for start, end, sign in spans
    ]


@register.simple_tag(takes_context=True)
def live_checkpoint(context: Context) -> Checkpoint:
    """Who answers this person now."""
    return Checkpoint.for_user(context["user"])


def opinions(turns: Iterable[Turn], user: Any) -> dict[UUID, dict[str, Feedback]]:
    said: dict[UUID, dict[str, Feedback]] = defaultdict(dict)
    # Marks that were taken off count as well: pages that show them are told.
    rows = Feedback.objects.filter(Q(withdrawn_at=None) | Q(kind=Feedback.Kind.MARKS), by=user)
    for feedback in rows.filter(turn__in=[turn.pk for turn in turns]):
        key = feedback.kind if feedback.withdrawn_at is None else "unmarked"
        said[feedback.turn_id][key] = feedback
    return said


@register.simple_tag
def wish_of(guidance: Feedback | str | None) -> Worded | None:
    """What of this guidance is taught; None without any."""
    return taught.worded(guidance) if isinstance(guidance, Feedback) else None


@register.simple_tag
def hints_heard(turn: Turn) -> list[Hint]:
    """The accepted hints of the person's next message."""
    known = getattr(turn, "heard", None)
    return known if known is not None else taught.heard(turn)
