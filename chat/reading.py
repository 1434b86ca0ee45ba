"""What a model wrote, read as it comes: words, reasoning, tool calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Piece:
    """One piece of a reply, in the order in which it was written.

    `call` opens tool call number `index` (its id and name are known from here on); `arguments` is more of that
    call's arguments, JSON text.
    """

    kind: Literal["content", "reasoning", "call", "arguments"]
    text: str = ""
    index: int = 0
    id: str = ""
    name: str = ""


class Reader:
    """Text in, pieces out; what they add up to is `message`."""

    def __init__(self, *, style: str = "", tools: Sequence[dict[str, Any]] = (), opened: str = "") -> None:
        """`opened` is what the prompt already wrote of the reply (an opened <think>, or a forced tool call)."""
        self.marks: list[str] = []
        self._content = ""

    def feed(self, text: str) -> list[Piece]:
        self._content += text
        return [Piece("content", text)] if text else []

    def end(self) -> list[Piece]:
        """The last pieces: whatever was held back, a call that never closed as the text it is."""
        return []

    @property
    def message(self) -> dict[str, Any]:
        """The reply so far, as OpenAI's assistant message: role, content, and what else there is of
        reasoning_content and tool_calls."""
        return {"role": "assistant", "content": self._content}
