"""Lead a scripted engine through a task: which reply follows which result."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

REST = r"(?:(?!<tool_response>).)*"


def called(tool: str, **arguments: object) -> str:
    """Write a call as a model without a style of its own does.

    >>> called("add", a=1, b=2)
    '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
    """
    return f"<tool_call>{json.dumps({'name': tool, 'arguments': arguments})}</tool_call>"


def way(task: str, replies: Sequence[str]) -> list[dict[str, Any]]:
    """Write script lines: in a prompt that holds `task`, a text of no other task, reply number k follows k results of
    tools. A prompt may hold calls that the world answers with words: each result is one."""
    begin = re.escape(task) + REST
    return [
        {"to": rf"{begin}(?:<tool_response>{REST}){{{results}}}$", "says": says, "times": None}
        for results, says in enumerate(replies)
    ]
