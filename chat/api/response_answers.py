"""A turn as it was kept, as OpenAI's Responses give it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chat.api import response_items
from chat.api.response_events import ending, response, usage
from chat.models import Turn


def answer(turn: Turn, echo: Mapping[str, Any], *, summed_up: bool = False, thinking: int = 0) -> dict[str, Any]:
    """A turn as it was kept, as a response."""
    if turn.status == Turn.Status.ANSWERING:
        return response(turn, echo, "in_progress", [])
    output = response_items.output(turn, summed_up=summed_up)
    if turn.finish_reason == "error":
        ended: dict[str, Any] = {"status": "failed", "error": {"code": "server_error", "message": turn.error}}
    else:
        ended = ending(turn.finish_reason)
    if ended["status"] == "completed" and turn.served_at:
        ended["completed_at"] = int(turn.served_at.timestamp())
    ended["usage"] = usage(len(turn.prompt_ids), len(turn.response_ids), turn.cached_tokens, thinking)
    return response(turn, echo, ended.pop("status"), output, **ended)


def echo_of(turn: Turn) -> dict[str, Any]:
    """What a kept answer repeats of its request, as far as that was kept."""
    asked: Mapping[str, Any] = turn.asked
    first: Iterable[Mapping[str, Any]] = turn.messages[:1]
    choice = str(asked.get("tool_choice") or "auto")
    format = {"type": "json_schema", "name": "reply", "schema": asked["schema"]} if "schema" in asked else None
    return {
        "instructions": next((said["content"] for said in first if said["role"] == "system"), None),
        "max_output_tokens": turn.sampling.get("max_new_tokens"),
        "metadata": asked.get("metadata") or {},
        "parallel_tool_calls": asked.get("parallel_tool_calls", True),
        "previous_response_id": asked.get("previous") or None,
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": turn.sampling.get("temperature"),
        "text": {"format": format or {"type": "text"}},
        "tool_choice": {"type": "function", "name": choice[1:]} if choice.startswith("=") else choice,
        "tools": [{"type": "function", **tool["function"]} for tool in turn.tools],
        "top_p": turn.sampling.get("top_p"),
        "truncation": "disabled",
        "user": asked.get("user") or None,
    }
