"""What every page says in the same words: how far a turn has come, what was said of it, who answers now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django import template
from django.template import Context

from chat.models import Turn
from feedback import reasons
from feedback.models import Feedback
from training.models import Checkpoint
from webapp import journey as journeys

register = template.Library()


@register.simple_tag(takes_context=True)
def with_learning(context: Context, turns: Iterable[Turn]) -> list[Turn]:
    """The turns, each knowing its journey and what this person said of it, in a fixed number of queries."""
    turns = list(turns)
    everyone = [*turns, *(earlier for turn in turns for earlier in getattr(turn, "tries", ()))]
    known = journeys.journeys(everyone)
    said = opinions(everyone, context.get("user"))
    for turn in everyone:
        turn.journey, turn.opinions = known[turn.pk], said[turn.pk]
    return turns


@register.inclusion_tag("chat/_chip.html")
def chip(turn: Turn) -> dict[str, Any]:
    """How far this turn has come."""
    known = getattr(turn, "journey", None)
    return {"turn": turn, "journey": known or journeys.journey(turn)}


@register.simple_tag(takes_context=True)
def opinions_on(context: Context, turn: Turn) -> dict[str, Feedback]:
    """What this person says of the turn, by kind."""
    known = getattr(turn, "opinions", None)
    return known if known is not None else opinions([turn], context.get("user"))[turn.pk]


@register.simple_tag
def reason_tags(thumb: Feedback) -> list[str]:
    """What may be said to be wrong: what everybody knows, and what this person added."""
    return reasons.offered(thumb.tags)


@register.simple_tag
def live_checkpoint() -> Checkpoint:
    """Who answers now."""
    return Checkpoint.live()


def opinions(turns: Iterable[Turn], user: Any) -> dict[UUID, dict[str, Feedback]]:
    said: dict[UUID, dict[str, Feedback]] = defaultdict(dict)
    for feedback in Feedback.objects.standing().filter(turn__in=[turn.pk for turn in turns], by=user):
        said[feedback.turn_id][feedback.kind] = feedback
    return said
