"""Read chats that Talkback itself exported (feedback/chat_files.py writes them). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from chat.imports.conversations import Conversation, Exchange, Found, Given, listed, mapping, moment, text_in

OBJECT = "talkback.chats"
"""What `object` says in such a file."""

KINDS = ("thumb", "rewrite", "guidance", "marks")


def read(file: Mapping[str, Any]) -> Found:
    """What this file holds, with all that was said of its replies."""
    found = Found("talkback")
    for raw in listed(file.get("chats")):
        chat = mapping(raw)
        turns = [mapping(one) for one in listed(chat.get("turns"))]
        exchanges = read_turns(turns, found.skipped)
        if not exchanges:
            found.skipped["empty" if chat else "broken"] += 1
            continue
        found.conversations.append(
            Conversation(
                id=str(chat.get("id") or ""),
                title=text_in(chat.get("title")),
                exchanges=exchanges,
                begun=moment(chat.get("created_at")),
                active=moment(chat.get("active_at")),
                shown=str(chat.get("shown")),
                is_archived=chat.get("archived") is True,
                is_pinned=chat.get("pinned") is True,
            )
        )
    return found


def read_turns(turns: Sequence[Mapping[str, Any]], skipped: Counter[str]) -> list[Exchange]:
    """The exchanges of one chat. Replies between which tools answered are one; the tools' words stay in the file."""
    goes_on = {str(one.get("follows")) for one in turns if not text_in(one.get("said"))}
    exchanges: list[Exchange] = []
    begun: dict[str, Exchange] = {}
    """What was said before its tools answered, by its turn."""
    of: dict[str, str | None] = {}
    """The exchange that each turn belongs to; of one that is left out, the exchange before it."""
    for raw in turns:
        pk, after = str(raw.get("id") or ""), str(raw.get("follows") or "")
        if not pk or pk in of:
            skipped["unanswered"] += 1
            continue
        exchange = _exchange(raw, pk, of.get(after), begun.get(after))
        for what, member in (("pictures", "pictures"), ("tools", "calls")):
            if left_out := len(listed(raw.get(member))):
                skipped[what] += left_out
        if exchange.said and listed(raw.get("calls")) and pk in goes_on:
            begun[pk], of[pk] = exchange, exchange.after
        elif exchange.said and exchange.reply:
            exchanges.append(exchange)
            of[pk] = pk
        else:
            skipped["unanswered"] += 1
            of[pk] = exchange.after
    return exchanges


def _exchange(raw: Mapping[str, Any], pk: str, after: str | None, begun: Exchange | None) -> Exchange:
    """What this turn tells; where it goes on from what tools answered, with what was said before that."""
    said, reply = text_in(raw.get("said")), text_in(raw.get("reply"))
    model, at = text_in(raw.get("model"))[:80], moment(raw.get("created_at"))
    given: tuple[Given, ...] = ()
    moved = 0
    if begun is not None and not said:
        said, given = begun.said, begun.given
        moved = len(begun.reply) + 2 if begun.reply else 0
        reply = "\n\n".join(part for part in (begun.reply, reply) if part)
    given += tuple(filter(None, (_given(mapping(one), moved) for one in listed(raw.get("feedback")))))
    return Exchange(pk, after, said, reply, model, at, given)


def _given(raw: Mapping[str, Any], moved: int) -> Given | None:
    """`moved`: by how many characters its marks stand later now."""
    kind, value = str(raw.get("kind")), {"1": 1, "-1": -1}.get(str(raw.get("value")), 0)
    if kind not in KINDS or (kind == "thumb" and not value):
        return None
    spans = tuple((one[0] + moved, one[1] + moved, one[2]) for one in listed(raw.get("spans")) if _is_span(one))
    tags = tuple(filter(None, map(text_in, listed(raw.get("tags")))))
    return Given(kind, value if kind == "thumb" else 0, text_in(raw.get("text")), tags, text_in(raw.get("wish")), spans)


def _is_span(one: Any) -> bool:
    return isinstance(one, list) and len(one) == 3 and all(type(number) is int for number in one)
