"""Read ChatGPT's export: conversations.json, a tree of messages a chat, and message_feedback.json. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from chat.imports.conversations import Conversation, Found, Given, Node, listed, mapping, moment, read_tree, text_in


def read(chats: Sequence[Any], ratings: Sequence[Any] = ()) -> Found:
    """What these conversations hold, with the thumbs of `ratings`."""
    found = Found("chatgpt")
    thumbs = {pk: given for one in ratings if (pk := _rated(one)) and (given := _thumb(one)) is not None}
    used: set[str] = set()
    for chat in chats:
        if not isinstance(chat, Mapping) or not isinstance(chat.get("mapping"), Mapping):
            found.skipped["broken"] += 1
            continue
        nodes = {
            pk: node
            for pk, raw in chat["mapping"].items()
            if (node := _node(pk, mapping(raw), thumbs, used, found.skipped)) is not None
        }
        exchanges, of = read_tree(nodes, found.skipped)
        if not exchanges:
            found.skipped["empty"] += 1
            continue
        found.conversations.append(
            Conversation(
                id=str(chat.get("conversation_id") or chat.get("id") or ""),
                title=text_in(chat.get("title")),
                exchanges=exchanges,
                begun=moment(chat.get("create_time")),
                active=moment(chat.get("update_time")),
                shown=of.get(str(chat.get("current_node"))),
                is_archived=chat.get("is_archived") is True,
            )
        )
    found.skipped["thumbs"] += len(set(thumbs) - used)
    found.skipped = +found.skipped
    return found


def _node(
    pk: str, raw: Mapping[str, Any], thumbs: Mapping[str, Given], used: set[str], skipped: Counter[str]
) -> Node | None:
    message = mapping(raw.get("message"))
    role = str(mapping(message.get("author")).get("role", ""))
    content, about = mapping(message.get("content")), mapping(message.get("metadata"))
    parent = raw.get("parent")
    text = ""
    is_words = content.get("content_type") in ("text", "multimodal_text")
    is_hidden = about.get("is_visually_hidden_from_conversation") is True
    if role in ("user", "assistant") and is_words and not is_hidden and message.get("recipient", "all") == "all":
        parts = listed(content.get("parts"))
        skipped["pictures"] += sum(isinstance(part, Mapping) and "text" not in part for part in parts)
        words = (part if isinstance(part, str) else mapping(part).get("text") for part in parts)
        text = "\n".join(filter(None, map(text_in, words)))
    elif role in ("assistant", "tool") and content and not is_hidden:
        skipped["tools"] += 1
    given: tuple[Given, ...] = ()
    for key in (pk, str(message.get("id"))):
        if role == "assistant" and text and key in thumbs and not given:
            given = (thumbs[key],)
            used.add(key)
    model = text_in(about.get("model_slug"))[:80]
    return Node(pk, str(parent) if parent else None, role, text, model, moment(message.get("create_time")), given)


def _rated(row: Any) -> str:
    """The message that a row of message_feedback.json speaks of: early exports call it `id`."""
    about = mapping(row)
    return str(about.get("message_id") or about.get("id") or "")


def _thumb(row: Any) -> Given | None:
    about = mapping(row)
    rating = str(about.get("rating", "")).lower().replace("_", "")
    value = {"thumbsup": 1, "thumbsdown": -1}.get(rating, 0)
    content: Any = about.get("content")
    if isinstance(content, str):  # JSON within JSON
        try:
            content = orjson.loads(content)
        except orjson.JSONDecodeError:
            content = {"text": content}
    said = mapping(content)
    tags = tuple(filter(None, map(text_in, listed(said.get("tags")))))
    return Given("thumb", value, text_in(said.get("text")), tags) if value else None
