"""Which conversation a request belongs to, and which turn it continues, with no help from the client.

A client's own name for the session decides where it gives one. Otherwise the messages do: a request whose
history equals a stored turn, reply included, continues that turn. Clients rewrite what they replay (tool-call
ids, arguments, blanks, a note of their own at the end), so only what survives is compared.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property, lru_cache
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from chat import clients
from chat.clients.rules import Rules
from chat.clients.sorting import SHARED, words
from chat.models import ApiKey, Session, Turn
from core.prepared import Prepared

Message = Mapping[str, Any]

NEXT_STATE = ("user", "tool")
"""Who can answer a reply."""

LOOKED_BACK = 8
"""After the last reply in a request, how many of the messages may have had a reply that the client left out."""

RECENT = 50
"""Among how many of a session's newest replies one is looked for whose history was rewritten."""

SHORT = 2000
"""Characters of a message whose essence is remembered."""

NARROW = ("id", "session_id", "follows_id", "position", "status", "line", "chain", "finish_reason", "completion_id")
"""What is read of a turn to decide what continues it; the rest may be as long as a book."""


@dataclass(frozen=True)
class Story:
    """A request's messages, as far as they survive a client's rewriting."""

    messages: Sequence[Message]
    client: str = ""
    cut: tuple[str, ...] = ()
    """The calls of the reply just before these messages, where the client has cut its history between the two."""

    @cached_property
    def rules(self) -> Rules:
        return clients.of(self.client)

    @cached_property
    def kept(self) -> list[tuple[int, dict[str, Any]]]:
        """(place among the messages, essence) of what was said, in order. Replies in a row are one reply: clients
        join them. Instructions do not count: clients rewrite theirs at every call."""
        dropped = dropped_calls(self.messages, self.rules)
        kept: list[tuple[int, dict[str, Any]]] = []
        calls = [*self.cut]
        for place, message in enumerate(self.messages):
            if message["role"] == "tool" and stripped_id(message.get("tool_call_id")) in dropped:
                continue
            said = essence(message, self.rules, calls=calls, dropped=dropped)
            goes_on = bool(kept) and kept[-1][1]["role"] == "assistant"
            if message["role"] == "assistant":
                calls = (calls if goes_on else []) + called_by(message)
            if said is None:
                continue
            if said["role"] == "assistant" and goes_on:
                said = joined(kept.pop()[1], said)
            kept.append((place, said))
        return kept

    @cached_property
    def end(self) -> int:
        """How many of `kept` go up to the last reply."""
        return max((n for n, (_, said) in enumerate(self.kept, 1) if said["role"] == "assistant"), default=0)

    @cached_property
    def digests(self) -> list[str]:
        """The chain of the first 0, 1, 2 … of `kept`: SHA-256, hex, each over the one before and what was said."""
        digest, digests = b"", [""]
        for _, said in self.kept:
            digest = hashlib.sha256(digest + written(said)).digest()
            digests.append(digest.hex())
        return digests

    @property
    def chain(self) -> str:
        """What a request that continues these messages has as its history."""
        return self.digests[-1]

    @cached_property
    def histories(self) -> dict[str, int]:
        """The chains that the turn may have which this continues, and how many of `kept` each covers: up to the last
        reply, and on to any later message whose reply the client left out."""
        later = range(max(self.end, len(self.kept) - LOOKED_BACK), len(self.kept))
        return {self.digests[length]: length for length in sorted({self.end, *later} - {0})}

    def said_after(self, length: int) -> list[Message]:
        """The next state of the turn that the first `length` of `kept` are: what people and tools said since."""
        since = self.kept[length - 1][0] if length else -1
        before = self.kept[length - 2][0] if length > 1 else -1  # several replies in a row were joined since then
        calls = {
            made for m in self.messages[before + 1 : since + 1] if m["role"] == "assistant" for made in called_by(m)
        }
        return [
            message
            for message in self.messages[since + 1 :]
            if message["role"] in NEXT_STATE
            and (message["role"] == "tool" or self.rules.is_said(words(message)))
            and not (message["role"] == "tool" and calls and stripped_id(message.get("tool_call_id")) not in calls)
        ]

    @cached_property
    def orphans(self) -> frozenset[str]:
        """The calls that are answered here, and whose reply is not."""
        made: set[str] = set()
        orphans = set()
        for message in self.messages:
            made.update(called_by(message))
            if message["role"] == "tool" and (answered := stripped_id(message.get("tool_call_id"))) not in made:
                orphans.add(answered)
        return frozenset(orphans)

    def behind(self, history: Sequence[Message]) -> Story:
        """This story, read as what a client left of that history: it may have cut it between a call and its result."""
        if not self.orphans:
            return self
        replies = (called_by(message) for message in reversed(history) if message["role"] == "assistant")
        cut = next((calls for calls in replies if self.orphans.intersection(calls)), [])
        return replace(self, cut=tuple(cut))

    @property
    def is_compacted(self) -> bool:
        """Old turns were replaced by a summary, and of the replies none is left, or the last one alone."""
        first = next((words(m) for m in self.messages if m["role"] == "user"), "")
        return self.end in (0, 2) and self.rules.said.summary.are_in(self.rules.words(first))


@dataclass(frozen=True)
class Place:
    """Where a request belongs."""

    session: Session
    follows: Turn | None = None
    length: int = 0
    """How many of the story's `kept` the turn that it follows accounts for."""
    is_rewritten: bool = False
    """The history is not word for word that of the turn; the session's name and the last exchange are."""


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
    place = placed(key, story, external_id=external_id, named_by=named_by, is_main=is_main)
    return place.session, place.follows


def placed(
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
        session = named(key, external_id, client=story.client, named_by=named_by)
        return within(session, story, by_name=named_by not in SHARED) if is_main else Place(session)
    if found := continued(story, OF_KEY, key.pk):
        return Place(locked(found[0].session_id), found[0] if is_main else None, found[1])
    about = {"client": story.client, "named_by": named_by or "history", "learns": teaches(key)}
    return Place(Session.objects.create(user=key.user, key=key, **about))


def named(key: ApiKey, external_id: str, *, client: str, named_by: str) -> Session:
    """The key's session of that name, locked; made if need be."""
    name = kept_name(external_id)
    held = NAMED.first(key.pk, name)
    if held is not None:
        return held
    about = {"user": key.user, "client": client, "named_by": named_by or "history", "learns": teaches(key)}
    Session.objects.get_or_create(key=key, external_id=name, defaults=about)
    return Session.objects.select_for_update().get(key=key, external_id=name)


def teaches(key: ApiKey) -> bool:
    """Whether what comes through this key may be learned from; it may have changed since the key was let in."""
    return LEARNING.first(key.pk) is not None


def locked(pk: UUID) -> Session:
    """The session, until the transaction ends this caller's alone.

    This is the order in which rows are locked, so that of two who want the same ones one waits for the other, and
    neither for what the other waits to give up: an API key, then a session, then its turns, in any order, since nobody
    else comes as far; then what points to a turn. Who needs several sessions locks them by their number, before any
    turn. Who has locked no session changes one turn in a transaction, or, as beats do, waits for none.
    """
    held = LOCKED.first(pk)
    if held is None:
        raise Session.DoesNotExist(f"Session {pk} was deleted.")
    return held


def within(session: Session, story: Story, *, by_name: bool, apart_from: UUID | None = None) -> Place:
    """Which turn of this session the request continues: the one whose history it extends or, where the session's
    name stands for one conversation (`by_name`), the one whose last exchange it still shows."""
    among = (OF_SESSION, session.pk) if apart_from is None else (OF_OTHERS, session.pk, apart_from)
    if found := continued(story, *among):
        return Place(session, *found)
    turns = Turn.objects.filter(session=session)
    turns = turns if apart_from is None else turns.exclude(pk=apart_from)
    if by_name and (resumed := rewritten(turns, story)):
        return Place(session, *resumed, is_rewritten=True)
    return Place(session)


def matching(turns: QuerySet[Turn], histories: Sequence[str]) -> QuerySet[Turn]:
    """Those of these turns that a story with such histories may continue, the likeliest first."""
    followers = Turn.objects.filter(follows=OuterRef("pk"), line=Turn.Line.MAIN)
    matches = turns.filter(chain__in=histories).annotate(is_followed=Exists(followers)).only(*NARROW)
    return matches.order_by("is_followed", "-created_at", "-position")[:16]


OF_KEY: Prepared[Turn] = Prepared(lambda key, histories: matching(Turn.objects.filter(session__key=key), histories))
OF_SESSION: Prepared[Turn] = Prepared(lambda pk, histories: matching(Turn.objects.filter(session=pk), histories))
OF_OTHERS: Prepared[Turn] = Prepared(
    lambda pk, apart_from, histories: matching(Turn.objects.filter(session=pk).exclude(pk=apart_from), histories)
)
PREVIOUS: Prepared[Turn] = Prepared(
    lambda key, given: Turn.objects.filter(session__key=key, completion_id=given).only(*NARROW).order_by()
)
NAMED: Prepared[Session] = Prepared(
    lambda key, name: Session.objects.select_for_update().filter(key=key, external_id=name).order_by()
)
LEARNING: Prepared[ApiKey] = Prepared(lambda pk: ApiKey.objects.filter(pk=pk, learns=True).only("pk").order_by())
LOCKED: Prepared[Session] = Prepared(lambda pk: Session.objects.select_for_update().filter(pk=pk).order_by())


def kept_name(name: str) -> str:
    """A client's own name for a session as it is stored: one that is too long by its digest."""
    return name if len(name) <= 200 else hashlib.sha256(name.encode()).hexdigest()


def continued(story: Story, turns: Prepared[Turn], *among: object) -> tuple[Turn, int] | None:
    """Of these turns the one that the story continues (same history, same reply), and how much of it that is.

    The longest history first; then one that nobody has continued yet; then the newest.
    """
    if not story.histories:
        return None
    newest = turns.ask(*among, list(story.histories))
    best = max(newest, key=lambda turn: story.histories[turn.chain], default=None)
    return (best, story.histories[best.chain]) if best else None


def rewritten(turns: QuerySet[Turn], story: Story) -> tuple[Turn, int] | None:
    """Of one conversation's turns the one that a rewritten history still shows: its reply is the last reply there,
    after the same message. Of several the one with the longest common ending; where two have the same, none.

    Where a compaction left no reply, or the last one without the message before it, it is the newest whole one, if
    nobody has answered it yet.
    """
    whole = turns.filter(line=Turn.Line.MAIN).exclude(chain="").order_by("-position")
    if story.is_compacted:
        narrow = turns.filter(line=Turn.Line.MAIN).only(*NARROW, "next_state", "text", "message")
        newest = narrow.order_by("-position").first()
        if newest is not None and newest.chain and not newest.next_state:
            left = [said for _, said in story.kept[1 : story.end]]
            if not story.end or left == [said for _, said in Story([replied(newest)], story.client).kept]:
                return newest, story.end or min(1, len(story.kept))
    if story.end < 2:
        return None
    reply = story.kept[story.end - 1][1]["content"]
    recent = whole.only("id", "text", "message", "position", "session_id")[:RECENT]
    alike = [turn.pk for turn in recent if reply.endswith(bare(story.rules.reply(unthought(turn.text))))]
    common: list[tuple[int, Turn]] = []
    for turn in whole.filter(pk__in=alike).only(*NARROW, "messages", "text", "message")[:LOOKED_BACK]:
        whole_story = Story([*turn.messages, replied(turn)], story.client)
        shown = story.behind(turn.messages).kept[: story.end]
        common.append((ending([one for _, one in whole_story.kept], [one for _, one in shown]), turn))
    longest = max((length for length, _ in common), default=0)
    best = [turn for length, turn in common if length == longest]
    return (best[0], story.end) if longest >= 2 and len(best) == 1 else None


def ending(one: Sequence[object], other: Sequence[object]) -> int:
    """How many of the last items are the same.

    >>> ending("abcd", "xbcd"), ending("ab", "ba")
    (3, 0)
    """
    pairs = zip(reversed(one), reversed(other), strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def replied(turn: Turn) -> dict[str, Any]:
    """The reply as a message; a turn from before replies were kept as messages has its text."""
    return dict(turn.message) or {"role": "assistant", "content": turn.text}


def split(messages: Sequence[Message], client: str = "") -> tuple[list[Message], list[Message]]:
    """The messages up to the last reply, and what was said after it: all users' and tools' messages, in order.

    >>> say = lambda role, content: {"role": role, "content": content}
    >>> history, said = split([say("user", "Hi"), say("assistant", "Hello"), say("user", "Bye")])
    >>> len(history), [message["content"] for message in said]
    (2, ['Bye'])
    """
    end = max((n for n, message in enumerate(messages, 1) if message["role"] == "assistant"), default=0)
    rules = clients.of(client)
    said = [m for m in messages[end:] if m["role"] in NEXT_STATE and (m["role"] == "tool" or rules.is_said(words(m)))]
    return list(messages[:end]), said


def chain(messages: Sequence[Message], client: str = "") -> str:
    """SHA-256, hex, over what of these messages survives; empty when nothing does."""
    return Story(messages, client).chain


def essence(
    message: Message, rules: Rules, *, calls: Sequence[str] = (), dropped: frozenset[str] = frozenset()
) -> dict[str, Any] | None:
    """What of a message survives a client's rewriting; None for one that nobody said.

    `calls` are the ids of the calls that a tool's message may answer, `dropped` those that the client leaves out.
    """
    role, text = message["role"], words(message)
    if role == "user":
        return {"role": role, "content": said} if (said := surviving(rules, role, text)) else None
    if role == "tool":
        answered = stripped_id(message.get("tool_call_id"))
        return {
            "role": role,
            "content": bare(text),
            "answers": calls.index(answered) if answered in calls else answered,
        }
    if role != "assistant":
        return None
    reply: dict[str, Any] = {"role": role, "content": surviving(rules, role, text)}
    made = [call for call in message.get("tool_calls") or [] if stripped_id(call.get("id")) not in dropped]
    if made:
        reply["calls"] = [called(call.get("function") or {}) for call in made]
    return reply if reply["content"] or made else None


def surviving(rules: Rules, role: str, text: str) -> str:
    """What of a user's message or of a reply a client leaves as it is. Histories come again and again: what is short
    is remembered."""
    return (_surviving_short if len(text) <= SHORT else _surviving)(rules, role, text)


def _surviving(rules: Rules, role: str, text: str) -> str:
    if role == "user":
        return bare(rules.words(text)) if rules.is_said(text) else ""
    return bare(rules.reply(unthought(text)))


_surviving_short = lru_cache(maxsize=2048)(_surviving)
"""At most 33 MB: 2048 texts of SHORT characters, as they came and as they are left, at four bytes a character."""


def dropped_calls(messages: Sequence[Message], rules: Rules) -> frozenset[str]:
    """The calls that the client leaves out of later history. What answers the last reply is not later yet."""
    if not rules.said.dropped:
        return frozenset()
    end = max((n for n, message in enumerate(messages) if message["role"] == "assistant"), default=0)
    results = (m for m in messages[:end] if m["role"] == "tool" and rules.is_dropped(words(m)))
    return frozenset(stripped_id(result.get("tool_call_id")) for result in results)


def joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Two replies in a row as one."""
    calls = [*one.get("calls", []), *other.get("calls", [])]
    content = " ".join(part for part in (one["content"], other["content"]) if part)
    return {"role": "assistant", "content": content} | ({"calls": calls} if calls else {})


def called(function: Mapping[str, Any]) -> list[Any]:
    """A tool call without its id, its arguments as values: clients write both anew, and know one kind of number."""
    arguments = function.get("arguments")
    with suppress(ValueError, RecursionError):  # no JSON: compared as the text it is
        values = json.loads(arguments, parse_int=float) if isinstance(arguments, str) else arguments
        arguments = json.dumps(values, sort_keys=True)
    return [function.get("name"), arguments]


def written(said: Mapping[str, Any]) -> bytes:
    """What was said as bytes, the same for the same."""
    try:
        return orjson.dumps(said, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # half a character
        return json.dumps(said, sort_keys=True).encode("utf-8", "replace")


def unthought(text: str) -> str:
    return re.sub(r"<think>.*?(</think>|\Z)", "", text, flags=re.S) if "<think>" in text else text


def bare(text: str) -> str:
    """Every run of blanks as one blank: clients trim, join and wrap."""
    return " ".join(text.split())


def called_by(reply: Message) -> list[str]:
    """The ids of a reply's tool calls, as every client keeps them."""
    return [stripped_id(call.get("id")) for call in reply.get("tool_calls") or []]


def stripped_id(call_id: object) -> str:
    """Of a tool call's id what every client keeps."""
    return re.sub(r"[^0-9A-Za-z]", "", str(call_id or ""))


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
    """Close conversations through a key that nobody has continued for so long; a message opens them again.

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
            if session is not None:  # nobody has come back to it meanwhile
                close(session)
                closed += 1
    return closed
