"""Find the session that a request belongs to and the turn it continues, by name or by history.

A client's own name for the session decides where it gives one. Otherwise the messages do: a request whose
history equals a stored turn, reply included, continues that turn. Clients rewrite what they replay (tool-call
ids, arguments, blanks, a note of their own at the end), so only what survives is compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from chat import stories
from chat.api_keys import ApiKey
from chat.clients.sorting import SHARED
from chat.composing.defaults import ChatDefaults
from chat.models import Session, Turn
from chat.requests import Message, PageSession
from chat.stories import LOOKED_BACK, Story
from chat.usual_consent import Consent
from core.errors import TalkbackError
from core.prepared import Prepared
from core.visible import name_fault

RECENT = 50
"""Among how many of a session's newest replies one is looked for whose history was rewritten."""

NARROW = ("id", "session_id", "follows_id", "position", "status", "line", "chain", "finish_reason", "completion_id")
"""What is read of a turn to decide what continues it; the rest may be as long as a book."""


@dataclass(frozen=True)
class Place:
    """Where a request belongs: its session, and the turn it continues."""

    session: Session
    follows: Turn | None = None
    length: int = 0
    """How many of the story's `kept` the turn that it follows accounts for."""
    is_rewritten: bool = False
    """The history is not word for word that of the turn; the session's name and the last exchange are."""
    instead_of: Turn | None = None
    """The turn whose message a page sends anew."""
    compares: bool = False
    """It does so to see two checkpoints side by side."""


def find(
    key: ApiKey,
    messages: Sequence[Message] | Story,
    *,
    external_id: str = "",
    named_by: str = "",
    client: str = "",
    is_main: bool = True,
) -> tuple[Session, Turn | None]:
    """The session this request belongs to, made if need be, and the turn it continues. Two keys never share one."""
    story = messages if isinstance(messages, Story) else Story(messages, client)
    place = place_request(key, story, external_id=external_id, named_by=named_by, is_main=is_main)
    return place.session, place.follows


def place_request(
    key: ApiKey, story: Story, *, external_id: str = "", named_by: str = "", is_main: bool = True, previous: str = ""
) -> Place:
    """Where this request belongs. `previous`, the id of the reply it continues, decides where it is known. The
    session is locked until the transaction ends. Call it inside one.

    A side request belongs to a session, and continues nothing: no main turn follows it, and it follows none.
    """
    if previous and (before := PREVIOUS.first(key.pk, previous)):
        covered = next((n for chain, n in story.histories.items() if chain == before.chain), story.end)
        is_next = is_main and before.line == Turn.Line.MAIN
        return Place(locked(before.session_id), before if is_next else None, covered)
    if external_id:
        session = lock_named(key, external_id, client=story.client, named_by=named_by)
        return place_within(session, story, by_name=named_by not in SHARED) if is_main else Place(session)
    if found := find_continued(story, OF_KEY, key.pk):
        return Place(locked(found[0].session_id), found[0] if is_main else None, found[1])
    about = {"client": story.client, "named_by": named_by or "history", "learns": teaches(key)}
    return Place(Session.objects.create(user=key.user, key=key, **about))


def place_on_page(page: PageSession, story: Story) -> Place:
    """Where a page's message belongs: its session, made if need be, locked until the transaction ends, and the turn
    that it continues."""
    if page.session is None:
        learns = Consent.by_default(page.user) if page.learns is None else page.learns
        return Place(Session.objects.create(user=page.user, learns=learns, **ChatDefaults.of(page.user).fields))
    session = locked(page.session.pk)
    if page.instead_of is not None:
        narrow = session.turns.only(*NARROW, "request_chain")
        other = narrow.filter(pk=page.instead_of.pk).first()
        if other is None:
            raise Turn.DoesNotExist(f"Turn {page.instead_of.pk} was deleted.")
        length = story.histories.get(page.follows.chain, story.end) if page.follows is not None else story.end
        return Place(session, page.follows, length, instead_of=other, compares=page.compares)
    if page.follows is None:
        return place_within(session, story, by_name=False)
    return Place(session, page.follows, story.histories.get(page.follows.chain, story.end))


def lock_named(key: ApiKey, external_id: str, *, client: str, named_by: str) -> Session:
    """The key's session of that name, locked; made if need be. Raises NameRefused for a new one."""
    name = kept_name(external_id)
    held = NAMED.first(key.pk, name)
    if held is not None:
        return held
    if fault := name_fault(name):
        raise NameRefused(f"The name that the client gives its session cannot be kept. {fault}")
    about = {"user": key.user, "client": client, "named_by": named_by or "history", "learns": teaches(key)}
    Session.objects.get_or_create(key=key, external_id=name, deleted_at=None, defaults=about)
    return Session.objects.select_for_update().get(key=key, external_id=name, deleted_at=None)


def teaches(key: ApiKey) -> bool:
    """Whether what comes through this key may be learned from; it may have changed since the key was let in."""
    return LEARNING.first(key.pk) is not None


def locked(pk: UUID) -> Session:
    """The session, until the transaction ends this caller's alone.

    This is the order in which rows are locked, so that of two who want the same ones one waits for the other, and
    neither for what the other waits to give up: an API key, then a session, then its turns, in any order, since no
    other comes as far; then what points to a turn. Who needs several sessions locks them by their number, before any
    turn. Who has locked no session changes one turn in a transaction, or, as beats do, waits for none.
    """
    held = LOCKED.first(pk)
    if held is None:
        raise Session.DoesNotExist(f"Session {pk} was deleted.")
    return held


def place_within(session: Session, story: Story, *, by_name: bool, apart_from: UUID | None = None) -> Place:
    """Which turn of this session the request continues: the one whose history it extends or, where the session's
    name stands for one conversation (`by_name`), the one whose last exchange it still shows."""
    among = (OF_SESSION, session.pk) if apart_from is None else (OF_OTHERS, session.pk, apart_from)
    if found := find_continued(story, *among):
        return Place(session, *found)
    turns = Turn.objects.filter(session=session)
    turns = turns if apart_from is None else turns.exclude(pk=apart_from)
    if by_name and (resumed := find_rewritten(turns, story)):
        return Place(session, *resumed, is_rewritten=True)
    return Place(session)


def matching(turns: QuerySet[Turn], histories: Sequence[str]) -> QuerySet[Turn]:
    """Those of these turns that a story with such histories may continue, the likeliest first."""
    followers = Turn.objects.filter(follows=OuterRef("pk"), line=Turn.Line.MAIN)
    matches = turns.filter(chain__in=histories).annotate(is_followed=Exists(followers)).only(*NARROW)
    return matches.order_by("is_followed", "-created_at", "-position")[:16]


OF_KEY: Prepared[Turn] = Prepared(
    lambda key, histories: matching(Turn.objects.filter(session__key=key, session__deleted_at=None), histories)
)
OF_SESSION: Prepared[Turn] = Prepared(lambda pk, histories: matching(Turn.objects.filter(session=pk), histories))
OF_OTHERS: Prepared[Turn] = Prepared(
    lambda pk, apart_from, histories: matching(Turn.objects.filter(session=pk).exclude(pk=apart_from), histories)
)
PREVIOUS: Prepared[Turn] = Prepared(
    lambda key, given: (
        Turn.objects.filter(session__key=key, session__deleted_at=None, completion_id=given).only(*NARROW).order_by()
    )
)
NAMED: Prepared[Session] = Prepared(
    lambda key, name: Session.objects.select_for_update().filter(key=key, external_id=name, deleted_at=None).order_by()
)
LEARNING: Prepared[ApiKey] = Prepared(lambda pk: ApiKey.objects.filter(pk=pk, learns=True).only("pk").order_by())
LOCKED: Prepared[Session] = Prepared(lambda pk: Session.objects.select_for_update().filter(pk=pk).order_by())


class NameRefused(TalkbackError):
    """The client's name for its session cannot be kept."""

    code, status = "invalid_session_name", 400


def kept_name(name: str) -> str:
    """A client's own name for a session as it is stored: one that is too long by its digest."""
    return name if len(name) <= 200 else hashlib.sha256(name.encode()).hexdigest()


def find_continued(story: Story, turns: Prepared[Turn], *among: object) -> tuple[Turn, int] | None:
    """Of these turns the one that the story continues (same history, same reply), and how much of it that is.

    The longest history first; then one that no request has continued yet; then the newest.
    """
    if not story.histories:
        return None
    newest = turns.ask(*among, list(story.histories))
    best = max(newest, key=lambda turn: story.histories[turn.chain], default=None)
    return (best, story.histories[best.chain]) if best else None


def find_rewritten(turns: QuerySet[Turn], story: Story) -> tuple[Turn, int] | None:
    """Of one conversation's turns the one that a rewritten history still shows: its reply is the last reply there,
    after the same message. Of several the one with the longest common ending; where two have the same, none.

    Where a compaction left no reply, or the last one without the message before it, it is the newest whole one, if
    no message has answered it yet.
    """
    whole = turns.filter(line=Turn.Line.MAIN).exclude(chain="").order_by("-position")
    if story.is_compacted:
        narrow = turns.filter(line=Turn.Line.MAIN).only(*NARROW, "next_state", "text", "message")
        newest = narrow.order_by("-position").first()
        if newest is not None and newest.chain and not newest.next_state:
            left = [said for _, said in story.kept[1 : story.end]]
            if not story.end or left == [said for _, said in Story([message_of(newest)], story.client).kept]:
                return newest, story.end or min(1, len(story.kept))
    if story.end < 2:
        return None
    reply = story.kept[story.end - 1][1]["content"]
    recent = whole.only("id", "text", "message", "position", "session_id")[:RECENT]
    alike = [turn.pk for turn in recent if reply.endswith(stories.surviving(story.rules, "assistant", turn.text))]
    common: list[tuple[int, Turn]] = []
    for turn in whole.filter(pk__in=alike).only(*NARROW, "messages", "text", "message")[:LOOKED_BACK]:
        whole_story = Story([*turn.messages, message_of(turn)], story.client)
        shown = story.behind(turn.messages).kept[: story.end]
        common.append((count_common_end([one for _, one in whole_story.kept], [one for _, one in shown]), turn))
    longest = max((length for length, _ in common), default=0)
    best = [turn for length, turn in common if length == longest]
    return (best[0], story.end) if longest >= 2 and len(best) == 1 else None


def count_common_end(one: Sequence[object], other: Sequence[object]) -> int:
    """How many of the last items are the same.

    >>> count_common_end("abcd", "xbcd"), count_common_end("ab", "ba")
    (3, 0)
    """
    pairs = zip(reversed(one), reversed(other), strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def message_of(turn: Turn) -> dict[str, Any]:
    """The reply as a message; a turn from before replies were kept as messages has its text."""
    return dict(turn.message) or {"role": "assistant", "content": turn.text}


@transaction.atomic
def close(session: Session) -> int:
    """The conversation is over: replies that nothing came back to have nothing to teach. Feedback re-opens them.

    Returns how many replies that closed. A session that is closed already stays so since then. A reply that is still
    being written is closed when it ends.
    """
    if LOCKED.first(session.pk) is None:
        return 0
    Session.objects.filter(pk=session.pk, closed_at=None).update(closed_at=timezone.now())
    served = session.turns.filter(status=Turn.Status.SERVED).only(*NARROW).order_by("pk").select_for_update()
    for turn in served:
        turn.move(Turn.Status.CLOSED)
    return len(served)


def close_idle(idle_s: float, most: int = 200) -> int:
    """Close conversations through a key that no request has continued for so long; a message opens them again.

    The browser's own stay open, where the person sees them. At most `most` at a time, the oldest first. Returns how
    many were closed.
    """
    since = timezone.now() - timedelta(seconds=idle_s)
    idle = Session.objects.filter(closed_at=None, active_at__lt=since).exclude(key=None, named_by="")
    waiting = (
        idle.exclude(turns__status=Turn.Status.ANSWERING).order_by("active_at").values_list("pk", flat=True)[:most]
    )
    closed = 0
    for pk in list(waiting):
        with transaction.atomic():
            session = idle.select_for_update(of=("self",)).filter(pk=pk).first()
            if session is not None:  # no message has come back to it meanwhile
                close(session)
                closed += 1
    return closed
