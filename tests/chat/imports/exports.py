"""Files as ChatGPT and Open WebUI export them, small."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any


def node(pk: str, parent: str | None, role: str = "", text: Any = "", **message: Any) -> dict[str, Any]:
    content = text if isinstance(text, dict) else {"content_type": "text", "parts": [text]}
    about = {"id": pk, "author": {"role": role}, "content": content, "create_time": 1_700_000_000.5, "recipient": "all"}
    about["metadata"] = {"model_slug": "gpt-4o"} if role == "assistant" else {}
    return {"id": pk, "parent": parent, "children": [], "message": (about | message) if role else None}


def chatgpt(pk: str = "c1", nodes: list[dict[str, Any]] | None = None, **about: Any) -> dict[str, Any]:
    """A root, a hidden system message, a question with two tries at its reply, and a second question behind one."""
    nodes = nodes or [
        node("root", None),
        node("sys", "root", "system", "", metadata={"is_visually_hidden_from_conversation": True}),
        node("q1", "sys", "user", "What is **rain**?"),
        node("a1", "q1", "assistant", "Water."),
        node("a2", "q1", "assistant", "Water that falls."),
        node("q2", "a2", "user", "And <script>alert(1)</script> snow?"),
        node("t1", "q2", "assistant", {"content_type": "code", "text": "search()"}, recipient="browser"),
        node("t2", "t1", "tool", {"content_type": "execution_output", "text": "…"}),
        node("a3", "t2", "assistant", "Frozen water."),
    ]
    chat = {"conversation_id": pk, "title": "Rain & <b>snow</b>", "create_time": 1_700_000_000, "current_node": "a3"}
    return chat | {"update_time": 1_700_000_900, "mapping": {one["id"]: one for one in nodes}} | about


def rating(message: str, value: str = "thumbs_up", **content: Any) -> dict[str, Any]:
    return {"message_id": message, "conversation_id": "c1", "rating": value, "content": json.dumps(content)}


def zipped(chats: Any, ratings: Any = (), **more: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps(chats))
        archive.writestr("message_feedback.json", json.dumps(list(ratings)))
        archive.writestr("chat.html", "<script>alert(1)</script>")
        for name, data in more.items():
            archive.writestr(f"{name}.json", data)
    return held.getvalue()


def openwebui(pk: str = "w1") -> dict[str, Any]:
    rated = {"rating": -1, "reason": "not_factually_correct", "comment": "No.", "tags": ["weather"]}
    messages = {
        "u1": {"id": "u1", "parentId": None, "role": "user", "content": "Is it wet?", "timestamp": 1_700_000_000},
        "r1": {"id": "r1", "parentId": "u1", "role": "assistant", "content": "Never.", "model": "llama3:8b",
               "annotation": rated},
        "r2": {"id": "r2", "parentId": "u1", "role": "assistant", "content": "Yes.", "model": "qwen",
               "annotation": {"rating": "1"}},
        "u2": {"id": "u2", "parentId": "r2", "role": "user", "content": "Why?"},
    }  # fmt: skip
    chat = {"title": "Wet", "history": {"messages": messages, "currentId": "r1"}}
    return {"id": pk, "title": "Wet", "chat": chat, "updated_at": 1_700_000_900, "created_at": 1_700_000_000,
            "archived": True, "pinned": False}  # fmt: skip
