"""Rearrange a conversation's messages for chat templates that refuse them as they were given."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from chat.rendering import calling

Message = Mapping[str, Any]


def spelled_out(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Tools, calls and results as words, for a template that has no place for them."""
    spelled: list[dict[str, Any]] = []
    for are_results, row in groupby(messages, key=lambda message: message["role"] == "tool"):
        if are_results:
            results = (f"<tool_response>\n{message['content']}\n</tool_response>" for message in row)
            spelled.append({"role": "user", "content": "\n".join(results)})
            continue
        for message in row:
            now = dict(message)
            if calls := now.pop("tool_calls", ()):
                written = (calling.write_call(call) for call in calls)
                now["content"] = "\n".join([*filter(None, [now["content"]]), *written])
            spelled.append(now)
    if tools:
        if not spelled or spelled[0]["role"] != "system":
            spelled.insert(0, {"role": "system", "content": ""})
        spelled[0]["content"] = "\n\n".join(filter(None, [spelled[0]["content"], calling.describe_tools(tools)]))
    return spelled


def orders(messages: Sequence[Message]) -> list[str]:
    """What an operator wrote, as it must be found in the prompt."""
    return [message["content"].strip() for message in messages if message["role"] in ("system", "developer")]


def holds(text: str, sought: Sequence[str]) -> bool:
    """Whether all of these are in `text`. Each is looked for from where the last one began, as templates keep the
    order; where one stands before it, the text is begun again, once: a prompt may hold thousands of them."""
    at, again = 0, True
    for words in sought:
        found = text.find(words, at)
        if found < 0 and again:
            found, again = text.find(words), False
        if found < 0:
            return False
        at = found
    return True


def as_given(messages: Sequence[Message]) -> Sequence[Message]:
    return messages


def eased(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """For templates that want the system to speak first and only then, one call a message, and short ids.

    A later system message becomes a user's in its place: moved to the front, it would cost the whole prefix.
    """
    results: dict[str, deque[dict[str, Any]]] = {}
    for message in messages:
        if message["role"] == "tool":
            id = short(str(message.get("tool_call_id", "")))
            results.setdefault(id, deque()).append({**message, "tool_call_id": id})
    arranged: list[dict[str, Any]] = []
    for message in messages:
        if message["role"] in ("system", "developer") and arranged:
            arranged.append({**message, "role": "user"})
        elif message["role"] == "tool":
            left = results.get(short(str(message.get("tool_call_id", ""))))
            if left:
                arranged.append(left.popleft())
        elif calls := message.get("tool_calls"):
            for n, call in enumerate(calls):
                id = short(call["id"])
                content = message["content"] if n == 0 else ""
                arranged.append({**message, "content": content, "tool_calls": [{**call, "id": id}]})
                if len(calls) > 1 and results.get(id):
                    arranged.append(results[id].popleft())
        else:
            arranged.append(dict(message))
    return arranged


def alternating(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """For templates that want user and assistant in turn: what one said twice in a row is said at once, and what a
    user says right behind a tool's result is said with it."""
    arranged: list[dict[str, Any]] = []
    said: list[list[str]] = []
    for message in eased(messages):
        last = arranged[-1] if arranged else {}
        pair = last.get("role"), message["role"]
        if pair in JOINED and not ({*message, *last} & {"tool_calls"}):
            said[-1].append(message["content"])
        else:
            arranged.append(message)
            said.append([message["content"]])
    for message, texts in zip(arranged, said, strict=True):
        if len(texts) > 1:
            message["content"] = "\n\n".join(filter(None, texts))
    return arranged


def without_system(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """For templates that know no system: what it says begins the first message of the user."""
    first, *rest = messages
    if first["role"] == "system":
        if not (rest and rest[0]["role"] == "user"):
            rest.insert(0, {"role": "user", "content": ""})
        words = "\n\n".join(filter(None, [first["content"], rest[0]["content"]]))
        return alternating([{**rest[0], "content": words}, *rest[1:]])
    return alternating(messages)


def begun(messages: Sequence[Message]) -> list[Message]:
    """For templates that want the user to speak first, where a client has cut off what they said."""
    start = next((n for n, message in enumerate(messages) if message["role"] not in ("system", "developer")), 0)
    if messages[start]["role"] != "assistant":
        return list(messages)
    return [*messages[:start], {"role": "user", "content": ""}, *messages[start:]]


def in_words(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """For templates that want a call's arguments as JSON text."""

    def spelled(call: Mapping[str, Any]) -> dict[str, Any]:
        arguments = json.dumps(call["function"]["arguments"], ensure_ascii=False)
        return {**call, "function": {**call["function"], "arguments": arguments}}

    return [
        {**message, "tool_calls": [spelled(call) for call in message["tool_calls"]]}
        if "tool_calls" in message
        else dict(message)
        for message in messages
    ]


JOINED = {("user", "user"), ("assistant", "assistant"), ("tool", "user")}


def short(id: str) -> str:
    """Nine letters and digits that stand for a call's id."""
    return hashlib.sha256(id.encode()).hexdigest()[:9]


ARRANGEMENTS: tuple[Callable[[Sequence[Message]], Sequence[Message]], ...] = (
    as_given,
    eased,
    alternating,
    without_system,
    in_words,
    lambda messages: in_words(without_system(messages)),
    lambda messages: without_system(begun(messages)),
    lambda messages: without_system(begun(spelled_out(messages, ()))),  # a call that nothing answered
)
"""Ways of laying messages out, tried in this order until the template takes one."""
