"""Read Open WebUI's export: a list of chats, each a tree of messages, with ratings on the replies. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from chat.imports.conversations import Conversation, Found, Given, Node, listed, mapping, moment, read_tree, text_in


def read(rows: Sequence[Any]) -> Found:
    """What these chats hold, with their ratings."""
    found = Found("openwebui")
    for row in rows:
        chat = mapping(mapping(row).get("chat"))
        history = mapping(chat.get("history"))
        nodes = {
            str(pk): _node(str(pk), mapping(raw), found.skipped) for pk, raw in mapping(history.get("messages")).items()
        }
        exchanges, of = read_tree(nodes, found.skipped)
        if not exchanges:
            found.skipped["empty" if chat else "broken"] += 1
            continue
        found.conversations.append(
            Conversation(
                id=str(row.get("id") or chat.get("id") or ""),
                title=text_in(row.get("title")) or text_in(chat.get("title")),
                exchanges=exchanges,
                begun=moment(row.get("created_at") or chat.get("timestamp")),
                active=moment(row.get("updated_at")),
                shown=of.get(str(history.get("currentId"))),
                is_archived=row.get("archived") is True,
                is_pinned=row.get("pinned") is True,
            )
        )
    found.skipped = +found.skipped
    return found


def _node(pk: str, raw: Mapping[str, Any], skipped: Counter[str]) -> Node:
    content, parent = raw.get("content"), raw.get("parentId")
    parts = listed(content)
    text = text_in(content) or "\n".join(filter(None, (text_in(mapping(part).get("text")) for part in parts)))
    skipped["pictures"] += len(listed(raw.get("files")))
    role = str(raw.get("role", ""))
    given = _thumb(mapping(raw.get("annotation"))) if role == "assistant" and text else None
    model = text_in(raw.get("model"))[:80]
    at = moment(raw.get("timestamp"))
    return Node(pk, str(parent) if parent else None, role, text, model, at, (given,) if given else ())


def _thumb(annotation: Mapping[str, Any]) -> Given | None:
    value = {"1": 1, "-1": -1}.get(str(annotation.get("rating")), 0)
    reasons = [annotation.get("reason"), *listed(annotation.get("tags"))]
    tags = tuple(filter(None, (text_in(one).replace("_", " ") for one in reasons)))
    return Given("thumb", value, text_in(annotation.get("comment")), tags) if value else None
