"""Put the words of a script into tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tokenizers import Tokenizer

from gpu_workers.embedded.text import Text


@dataclass(frozen=True)
class Reply:
    """One answer, token by token, ready to be sent."""

    ids: tuple[int, ...]
    pieces: tuple[str, ...]
    """The text that each token brings."""
    finish: dict[str, Any]
    text: str


class Replies:
    """What the script's words are in tokens."""

    def __init__(self, tokenizer: Tokenizer, end: int | None) -> None:
        self._tokenizer, self._end = tokenizer, end

    @lru_cache(maxsize=1024)  # noqa: B019  one of these lives as long as the process
    def reply(
        self, says: str, reason: str, most: int, stop: tuple[str, ...], ends: bool, skip: bool, keep: bool
    ) -> Reply:
        """`ends` false: the words are said over and over until `most` tokens, as with ignore_eos."""
        ids = list(self._tokenizer.encode(says, add_special_tokens=False).ids)
        if not ends and ids:
            ids = (ids * (most // len(ids) + 1))[:most]
        elif reason == "stop" and self._end is not None:
            ids.append(self._end)
        text = Text(lambda some: str(self._tokenizer.decode(list(some), skip_special_tokens=skip)), stop, keep)
        finish: dict[str, Any] = {"type": reason, "length": len(ids)} if reason == "length" else {"type": reason}
        if reason == "stop" and self._end is not None:
            finish["matched"] = self._end
        if reason in ("abort", "error"):
            finish = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
        pieces: list[str] = []
        given = 0
        for token in ids[:most]:
            matched = text.add(token)
            pieces.append(text.so_far[given:])
            given = max(given, len(text.so_far))
            if matched is not None:
                finish = {"type": "stop", "matched": matched}
                break
        else:
            text.finish()
            if len(ids) > most or not ends:
                finish = {"type": "length", "length": most}
            if pieces:
                pieces[-1] += text.so_far[given:]
        return Reply(tuple(ids[: len(pieces)]), tuple(pieces), finish, text.so_far)
