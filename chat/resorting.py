"""Correct a turn that was sorted wrong: undo what it was paired with, or pair it now."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from chat import sessions, stories, turns
from chat.models import Turn
from chat.stories import Story
from chat.turns import LONG

LOOKED_THROUGH = 50
"""Among how many later turns of its session the ones are looked for that continue a turn which was side until now."""


@transaction.atomic
def resort(turn: Turn, line: str, *, by: User) -> Turn:
    """Put a turn on the main line, or take it off. Doing it again changes nothing but who said so.

    Main: what it continues is observed by what was said to it, and it by what came after it; its verdict is due as soon
    as there is something to judge by. Side: it teaches nothing any more, what was made of it and not yet learned is
    taken back when it is judged anew, and what it said of the reply before it no longer counts.

    Raises TurnUnfinished while the reply is being written.
    """
    held = turns.locked(turn)
    if held.status == Turn.Status.ANSWERING:
        raise turns.TurnUnfinished(_("This reply is still being written: it can be sorted when it is whole."))
    if held.line != line:
        Turn.objects.filter(pk=held.pk).update(line=line)
        held.line = line
        (to_main if line == Turn.Line.MAIN else to_side)(held)
    Turn.objects.filter(pk=held.pk).update(sorted_by=by)
    held.refresh_from_db(fields=["line", "status", "sorted_by", "follows", "next_state"])
    held.announce()
    return held


def to_main(turn: Turn) -> None:
    """Find what it continues and what continues it, among the turns of its session."""
    story = Story(turn.messages, turn.client)
    place = sessions.place_within(turn.session, story, by_name=False, apart_from=turn.pk)
    chain = stories.chain([*turn.messages, sessions.message_of(turn)], turn.client) if turn.is_whole else ""
    Turn.objects.filter(pk=turn.pk).update(chain=chain, request_chain=story.request, follows=place.follows)
    if place.follows is not None and (said := story.said_after(place.length)):
        turns.observe(place.follows, said)
    later = turn.session.turns.filter(position__gt=turn.position, line=Turn.Line.MAIN, follows=None)
    for follower in later.order_by("position").defer(*(set(LONG) - {"messages"}))[:LOOKED_THROUGH] if chain else ():
        told = Story(follower.messages, follower.client)
        if (length := told.histories.get(chain)) is not None:
            Turn.objects.filter(pk=follower.pk).update(follows=turn)
            turns.observe(turn, told.said_after(length))
    judge_again(turn)


def to_side(turn: Turn) -> None:
    """Let nothing continue it, and take back what it said of the reply before it."""
    before = turn.follows
    Turn.objects.filter(pk=turn.pk).update(chain="", request_chain="", follows=None)
    turn.followers.update(follows=None)
    judge_again(turn)
    if before is None:
        return
    before = turns.locked(before)
    if before.next_state != next_state_of(turn, before):
        return  # another turn's words are its next state
    next_state = next((said for sibling in followers(before) if (said := next_state_of(sibling, before))), [])
    Turn.objects.filter(pk=before.pk).update(next_state=next_state)
    judge_again(before)


def followers(turn: Turn) -> list[Turn]:
    return list(turn.followers.filter(line=Turn.Line.MAIN).order_by("position"))


def next_state_of(turn: Turn, before: Turn) -> list[dict[str, object]]:
    """What this turn's request said after the reply `before`."""
    story = Story(turn.messages, turn.client)
    return [dict(message) for message in story.said_after(story.histories.get(before.chain, story.end))]


def judge_again(turn: Turn) -> None:
    """A verdict that stands, or is due, rests on something else now."""
    due = Q(status=Turn.Status.JUDGED) | Q(status=Turn.Status.OBSERVED)
    if Turn.objects.filter(due, pk=turn.pk).exists():
        turns.reopen(turn)
