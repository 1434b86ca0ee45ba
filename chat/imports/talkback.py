"""Read chats that Talkback itself exported (feedback/chat_files.py writes them). Pure."""

from __future__ import annotations

from collections.abc import Mapping
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
        exchanges: list[Exchange] = []
        known: set[str] = set()
        for one in listed(chat.get("turns")):
            exchange = _exchange(mapping(one), known)
            if exchange is None:
                found.skipped["unanswered"] += 1
                continue
            known.add(exchange.id)
            exchanges.append(exchange)
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


def _exchange(raw: Mapping[str, Any], known: set[str]) -> Exchange | None:
    pk, said, reply = str(raw.get("id") or ""), text_in(raw.get("said")), text_in(raw.get("reply"))
    if not (pk and said and reply) or pk in known:
        return None
    after = raw.get("follows")
    given = tuple(filter(None, (_given(mapping(one)) for one in listed(raw.get("feedback")))))
    model, at = text_in(raw.get("model"))[:80], moment(raw.get("created_at"))
    return Exchange(pk, after if after in known else None, said, reply, model, at, given)


def _given(raw: Mapping[str, Any]) -> Given | None:
    kind, value = str(raw.get("kind")), {"1": 1, "-1": -1}.get(str(raw.get("value")), 0)
    if kind not in KINDS or (kind == "thumb" and not value):
        return None
    spans = tuple(tuple(one) for one in listed(raw.get("spans")) if _is_span(one))
    tags = tuple(filter(None, map(text_in, listed(raw.get("tags")))))
    return Given(kind, value if kind == "thumb" else 0, text_in(raw.get("text")), tags, text_in(raw.get("wish")), spans)


def _is_span(one: Any) -> bool:
    return isinstance(one, list) and len(one) == 3 and all(type(number) is int for number in one)
