"""One piece of a reply on its way to its readers: text, token ids, log-probs, finish reason."""

from __future__ import annotations

from dataclasses import dataclass

from chat.rendering.model_output import Piece


@dataclass(frozen=True)
class ReplyDelta:
    """One piece of a reply as readers get it. Without pieces and ids it only says that the reply is waited for."""

    pieces: tuple[Piece, ...] = ()
    ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()  # as sampled, one an id
    finish_reason: str | None = None  # stop | tool_calls | length | abort
    top: tuple[tuple[tuple[int, float], ...], ...] = ()
    """The likeliest tokens in each id's place, as (id, log-prob), where `Sampling.top_logprobs` asked for them."""
    cached_tokens: int = 0
    """How much of the prompt was not computed anew; known with the last piece."""
    waits: bool = False
    """The engine does not answer; the reply goes on when it is back."""
    is_silent: bool = False
    """The engine has said nothing for some time: it may be busy, or hang."""

    @property
    def text(self) -> str:
        """The words among the pieces."""
        return "".join(piece.text for piece in self.pieces if piece.kind == "content")
