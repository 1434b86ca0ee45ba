"""Rows of a dataset in TRL's columns: SFT, DPO and KTO, conversational. Pure.

| kind | columns |
|---|---|
| sft | `prompt`, `completion`, or all of it as `messages` |
| dpo | `prompt`, `chosen`, `rejected` |
| kto | `prompt`, `completion`, `label` |

A message is {"role", "content"}; each column but `label` is a list of them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, TypedDict

KINDS = {"sft": "SFT", "dpo": "DPO", "kto": "KTO"}
SHAPES = ("prompt", "messages")
"""How SFT lays out a row: prompt and completion apart, or one list of messages."""
FORMATS = ("jsonl", "parquet")

COLUMNS = {
    ("sft", "prompt"): ("prompt", "completion"),
    ("sft", "messages"): ("messages",),
    ("dpo", "prompt"): ("prompt", "chosen", "rejected"),
    ("kto", "prompt"): ("prompt", "completion", "label"),
}


class Message(TypedDict):
    role: str
    content: str


@dataclass(frozen=True)
class Lesson:
    """What one row says: after this prompt, this reply and not that one, or that it was good or bad."""

    prompt: list[Message]
    completion: str
    """What should have been said; of KTO the reply that `label` is about."""
    rejected: str = ""
    """DPO: what was worse."""
    label: bool | None = None
    """KTO: whether the completion was good."""


def row_of(lesson: Lesson, kind: str, shape: str = "prompt") -> dict[str, Any]:
    """The lesson in the columns of this kind. Raises KeyError for a kind or shape that is none.

    >>> row_of(Lesson([{"role": "user", "content": "Hi"}], "Hello."), "sft", "messages")
    {'messages': [{'role': 'user', 'content': 'Hi'}, {'role': 'assistant', 'content': 'Hello.'}]}
    """
    reply, worse = _reply(lesson.completion), _reply(lesson.rejected)
    every = {
        "prompt": lesson.prompt,
        "completion": reply,
        "messages": [*lesson.prompt, *reply],
        "chosen": reply,
        "rejected": worse,
        "label": lesson.label,
    }
    return {name: every[name] for name in COLUMNS[kind, shape]}


def digest(row: dict[str, Any]) -> str:
    """SHA-256 of a row, whatever order its keys are in and whichever file it stands in."""
    return hashlib.sha256(json.dumps(row, sort_keys=True, ensure_ascii=True).encode()).hexdigest()


def _reply(text: str) -> list[Message]:
    return [{"role": "assistant", "content": text}]
