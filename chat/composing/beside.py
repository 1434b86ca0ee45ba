"""Have another checkpoint answer the same prompt, see both replies side by side, and keep one."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from chat import asking, branches, sessions, turns
from chat.composing import terms
from chat.models import Session, Turn
from chat.requests import Ask, PageSession
from checkpoints.models import Checkpoint
from core.errors import TalkbackError

MOST = 8
"""Replies to one prompt that stand side by side."""


class NotCompared(TalkbackError):
    """These replies cannot be seen side by side; the sentence says why."""

    code, status = "not_compared", 409


def compare(user: Any, old: Turn, number: int) -> Turn:
    """Another try at this reply, by the checkpoint of this number. The page goes on to show the branch that it showed.
    Raises NotCompared, and what asking.open_turns raises."""
    check_comparable(old)
    other = terms.servable_to(user).filter(number=number).first()
    if other is None:
        raise NotCompared(_("This checkpoint does not answer you. Choose one of the list."))
    if len(tries_at(old)) >= MOST:
        raise NotCompared(
            _("There are %(most)d replies to this message already: keep one of them, or edit the message.")
            % {"most": MOST}
        )
    head = old.session.head
    page = PageSession(user, old.session, old.follows, instead_of=old, compares=True)
    with transaction.atomic():
        choice = old.asked.get("tool_choice", "auto")
        drawn = terms.sampling_of(old.session)
        ask = Ask(old.messages, drawn, other, protocol="", tools=old.tools, tool_choice=choice)
        (turn,) = asking.open_turns(page, ask)
        Session.objects.filter(pk=turn.session_id).update(head=old.pk if head is None else head)
    return turn


def keep(turn: Turn) -> None:
    """Go on from this reply: it is preferred to the others at the same message, and its branch is shown."""
    check_comparable(turn)
    if not turn.is_whole:
        raise NotCompared(_("This reply did not come to its end: keep another one, or try again."))
    with transaction.atomic():
        sessions.locked(turn.session_id)
        turns.prefer(turn)
        Session.objects.filter(pk=turn.session_id).update(head=turn.pk)


def check_comparable(turn: Turn) -> None:
    if not branches.has_branches(turn.session):
        raise NotCompared(_("This chat comes through the API: it is answered, and tried again, there."))


def tries_at(turn: Turn) -> list[Turn]:
    """All replies to the message of this one, this one among them, as they were asked for."""
    alike = turn.session.turns.filter(follows=turn.follows_id, request_chain=turn.request_chain, line=Turn.Line.MAIN)
    rows = alike.select_related("checkpoint", "session").defer(*branches.HEAVY, "next_state")
    return list(rows.order_by("position")) if turn.request_chain else [turn]


def offered_beside(turn: Turn, user: Any, most: int) -> list[Checkpoint]:
    """The checkpoints that this reply may be compared with: the newest that are not its own, and the base."""
    others = terms.servable_to(user).exclude(pk=turn.checkpoint_id)
    newest = list(others[:most])
    base = others.filter(number=0).first()
    return newest if base is None or base in newest else [*newest, base]
