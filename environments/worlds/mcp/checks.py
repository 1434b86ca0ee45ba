"""What an attempt at an MCP server's tools came to: by an answer, a tool that scores, or a command."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core.mcp.results import Answered, shown
from environments.sandboxes.trees import File, Tree, read_folder
from environments.sandboxes.verifier import Verifier
from environments.worlds import answers
from environments.worlds.answers import Check
from environments.worlds.base import Ending, Outcome, WorldFailed
from environments.worlds.mcp.connection import Connection

COURSE = "attempt.json"
"""Where a command reads what happened: {"calls": [{"tool", "arguments", "result", "is_error"}]}."""


def outcome_of(
    check: Mapping[str, Any],
    how: Check,
    connection: Connection,
    said: str | None,
    calls: Sequence[Mapping[str, Any]],
    *,
    is_truncated: bool,
) -> Outcome:
    """Score an attempt; `said` is the answer that was given. Raises WorldFailed where no verdict could be had."""
    if check["kind"] == "answer":
        if is_truncated:
            return Outcome("truncated", None)
        is_right = said is not None and answers.is_right(check["answer"], said, how)
        return Outcome("solved" if is_right else "failed", 1.0 if is_right else -1.0, {"right": is_right})
    if check["kind"] == "tool":
        share = verdict_of(connection.call(check["tool"], check["arguments"]), check["tool"])
    else:
        share = _verified(check["command"], check["tests"], calls)
    ending: Ending = "truncated" if is_truncated else "solved" if share == 1 else "failed"
    return Outcome(ending, 2 * share - 1, {"share": share})


def _verified(command: tuple[str, ...], tests: Path | None, calls: Sequence[Mapping[str, Any]]) -> float:
    course = json.dumps({"calls": list(calls)}, indent=1).encode()
    verifier = Verifier(command, read_folder(tests) if tests else Tree({}))
    score = verifier.score(Tree({COURSE: File(course)}))
    if score.outcome is None:
        words = " ".join(score.output.split())[-300:]
        raise WorldFailed(f"The command that scores gave no verdict: {score.reason} {words}".strip())
    return score.outcome


def verdict_of(answered: Answered, tool: str) -> float:
    """The share, 0 to 1, that a tool which scores gave. Raises WorldFailed for anything else: no agent is to blame.

    >>> verdict_of(Answered([{"type": "text", "text": "true"}]), "score")
    1.0
    >>> verdict_of(Answered([], {"score": 0.25}), "score")
    0.25
    """
    said = shown(answered, 200)
    if answered.is_error:
        raise WorldFailed(f"The tool {tool}, which scores, says that it failed: {said}")
    value: Any = answered.structured
    if value is None:
        try:
            value = json.loads("".join(str(block.get("text", "")) for block in answered.content))
        except (ValueError, RecursionError):
            value = None
    if isinstance(value, Mapping):
        value = next((value[name] for name in ("score", "reward", "result") if name in value), None)
    if not isinstance(value, int | float) or not math.isfinite(value) or not 0 <= value <= 1:
        raise WorldFailed(f"The tool {tool} gave no verdict, which is true, false, or 0 to 1: {said}")
    return float(value)
