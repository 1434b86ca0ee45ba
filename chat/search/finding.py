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
from chat.models import Session
from chat.search import words
from chat.search.passages import Passage
from chat.search.words import Piece

SHOWN = 20
"""Passages that one page of results shows."""


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
    rows = visible_to(user).filter(words__found=wanted).order_by("-at", "-id")
    if after:
        at, last = read_place(after)
        rows = rows.filter(Q(at__lt=at) | Q(at=at, id__lt=last.int))
    about = ("user", "at", "said", "session__title", "session__learns", "session__archived_at", "turn__text")
    found = list(rows.select_related("session", "turn").only(*about)[: SHOWN + 1])
    more = ""
    if len(found) > SHOWN:
        # A passage's number as a place is written: lists of chats have UUIDs there.
        place = f"{found[SHOWN - 1].at.isoformat()}~{uuid.UUID(int=found[SHOWN - 1].pk)}"
        more = f"{reverse('chat:search')}?{urlencode({'q': query, 'after': place})}"
    return Found(query, [show(one, wanted) for one in found[:SHOWN]], more, has_words=True)


def visible_to(user: User | AnonymousUser) -> QuerySet[Passage]:
    """The only door to passages: of a person's own chats, without the bin and without agents' attempts."""
    if not user.is_authenticated:
        return Passage.objects.none()
    return Passage.objects.filter(user=user, session__deleted_at=None, session__episode=None)


def show(passage: Passage, wanted: Sequence[str]) -> Hit:
    """A passage as a page shows it: what was said where a word is in that, else the reply."""
    title = words.excerpt(str(passage.session), wanted)
    if passage.turn is None:
        return Hit(passage.session, None, False, title, [])
    is_reply = not words.matches(passage.said, wanted) and words.matches(passage.turn.text, wanted)
    text = passage.turn.text if is_reply else passage.said
    return Hit(passage.session, passage.turn_id, is_reply, title, words.excerpt(text, wanted))
