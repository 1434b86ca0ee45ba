"""Find words in a person's chats, the newest first."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Q, QuerySet
from django.urls import reverse

from chat.listing.pages import read_place
from chat.models import Session, Turn
from chat.search import words
from chat.search.passages import Passage
from chat.search.words import Piece

SHOWN = 20
"""Passages that one page of results shows."""

NEWEST = 2000
"""Among how many of the newest passages a word is looked for before the index is asked for all."""


@dataclass(frozen=True)
class Hit:
    """One passage that has the words: a turn, or a chat's title."""

    session: Session
    turn: uuid.UUID | None
    """None: it is the title."""
    is_reply: bool
    """The excerpt is of the reply."""
    title: list[Piece]
    excerpt: list[Piece]

    @property
    def url(self) -> str:
        """The chat, opened at this turn."""
        chat = reverse("chat:session", args=[self.session.pk])
        return chat if self.turn is None else f"{chat}?{urlencode({'at': self.turn})}#turn-{self.turn}"


@dataclass(frozen=True)
class Found:
    """One page of results."""

    query: str
    hits: Sequence[Hit] = ()
    more: str = ""
    """Where the rest of them is; empty at the end."""
    has_words: bool = False
    """Whether there was anything to look for."""


def find(user: User | AnonymousUser, query: str, after: str = "") -> Found:
    """Passages of this person's chats with all these words, the last of which may be a beginning; after a place in
    that order. Raises Http404 for what is no place."""
    wanted = words.read_query(query)
    if not wanted:
        return Found(query)
    rows = visible_to(user).order_by("-at", "-id")
    if after:
        at, last = read_place(after)
        rows = rows.filter(Q(at__lt=at) | Q(at=at, id__lt=last.int))
    found = newest_of(rows, wanted)
    more = ""
    if len(found) > SHOWN:
        # A passage's number as a place is written: lists of chats have UUIDs there.
        place = f"{found[SHOWN - 1].at.isoformat()}~{uuid.UUID(int=found[SHOWN - 1].pk)}"
        more = f"{reverse('chat:search')}?{urlencode({'q': query, 'after': place})}"
    # Asked for apart: where all are joined, PostgreSQL begins with a person's chats, and reads each turn of them.
    shown = found[:SHOWN]
    sessions = Session.objects.visible_to(user).only("title").in_bulk({one.session_id for one in shown})
    texts: dict[uuid.UUID | None, str] = {
        turn.pk: turn.text for turn in Turn.objects.filter(pk__in=[one.turn_id for one in shown]).only("text")
    }
    hits = [
        show(one, sessions[one.session_id], texts.get(one.turn_id, ""), wanted)
        for one in shown
        if one.session_id in sessions
    ]
    return Found(query, hits, more, has_words=True)


def newest_of(rows: QuerySet[Passage], wanted: Sequence[str]) -> list[Passage]:
    """The newest of these rows that have the words, one more than a page shows. A word that many rows have is among
    the newest, and is not looked for in all; one that few rows have is looked up. No database can be trusted to
    guess which of the two it is."""
    rows = rows.only("session", "turn", "said", "at")
    edge = rows.values_list("at", flat=True)[NEWEST : NEWEST + 1].first()
    if edge is not None:
        near = list(rows.filter(at__gte=edge, words__found=wanted)[: SHOWN + 1])
        if len(near) > SHOWN:
            return near
    return list(rows.filter(words__indexed=wanted)[: SHOWN + 1])


def visible_to(user: User | AnonymousUser) -> QuerySet[Passage]:
    """The only door to passages: those of a person's own chats."""
    return Passage.objects.filter(user=user) if user.is_authenticated else Passage.objects.none()


def show(passage: Passage, session: Session, reply: str, wanted: Sequence[str]) -> Hit:
    """A passage as a page shows it: what was said where a word is in that, else the reply."""
    title = words.excerpt(str(session), wanted)
    if passage.turn_id is None:
        return Hit(session, None, False, title, [])
    is_reply = not words.matches(passage.said, wanted) and words.matches(reply, wanted)
    excerpt = words.excerpt(reply if is_reply else passage.said, wanted)
    return Hit(session, passage.turn_id, is_reply, title, excerpt)
